//! Sleeps to some ten microseconds, by a thread of its own: the runtime's timers count whole milliseconds and come up to
//! two of them late, which a client would see in the time to its first token.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dynosim_wire::time::now;
use tokio::sync::oneshot;

/// Stack of the thread in bytes. Nothing there recurses.
const STACK_BYTES: usize = 128 * 1024;

/// Whether the thread runs.
static STARTED: LazyLock<bool> = LazyLock::new(|| {
    let started = std::thread::Builder::new().name("timer".to_owned()).stack_size(STACK_BYTES).spawn(run);
    if let Err(error) = &started {
        tracing::warn!(%error, "no thread for exact timers, transfers of KV end up to two milliseconds late");
    }
    started.is_ok()
});
static TIMER: Timer = Timer { alarms: Mutex::new(Alarms { due: BTreeMap::new(), next: 0 }), earlier: Condvar::new() };

#[derive(Debug)]
struct Timer {
    alarms: Mutex<Alarms>,
    /// There is an alarm before the first one.
    earlier: Condvar,
}

#[derive(Debug)]
struct Alarms {
    /// Who sleeps until when; alarms of one instant go by their numbers.
    due: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    next: u64,
}

impl Timer {
    fn lock(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets an alarm that rings after `span`.
    fn set(&self, span: Duration) -> oneshot::Receiver<()> {
        let (bell, rings) = oneshot::channel();
        let mut alarms = self.lock();
        let key = (now() + span, alarms.next);
        alarms.next += 1;
        alarms.due.insert(key, bell);
        if alarms.due.first_key_value().is_some_and(|(first, _)| *first == key) {
            self.earlier.notify_one();
        }
        rings
    }
}

/// Sleeps that long. Dropping the future ends it.
pub(crate) async fn sleep(span: Duration) {
    if span.is_zero() {
        return;
    }
    if !*STARTED {
        return tokio::time::sleep(span).await;
    }
    // The thread drops no alarm before it has rung.
    let _ = TIMER.set(span).await;
}

fn run() {
    let mut alarms = TIMER.lock();
    loop {
        let now = now();
        while let Some(alarm) = alarms.due.first_entry()
            && alarm.key().0 <= now
        {
            // Who has been dropped meanwhile does not mind.
            let _ = alarm.remove().send(());
        }
        let next = alarms.due.first_key_value().map(|((at, _), _)| *at);
        alarms = match next {
            None => TIMER.earlier.wait(alarms).unwrap_or_else(PoisonError::into_inner),
            Some(at) => TIMER.earlier.wait_timeout(alarms, at - now).unwrap_or_else(PoisonError::into_inner).0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleeps_end_in_their_order_and_never_too_soon() {
        let start = now();
        let spans = [20, 5, 0, 12].map(Duration::from_millis);
        let ended = std::sync::Mutex::new(Vec::new());
        let sleeps = spans.map(|span| {
            let ended = &ended;
            async move {
                sleep(span).await;
                assert!(now().duration_since(start) >= span);
                ended.lock().expect("not poisoned").push(span.as_millis());
            }
        });
        futures_util::future::join_all(sleeps).await;
        assert_eq!(ended.into_inner().expect("not poisoned"), [0, 5, 12, 20]);
    }

    #[tokio::test]
    async fn a_sleep_can_be_given_up() {
        let day = sleep(Duration::from_hours(24));
        assert!(tokio::time::timeout(Duration::from_millis(1), day).await.is_err());
        // Nor is anybody kept by it.
        sleep(Duration::from_millis(1)).await;
    }
}
