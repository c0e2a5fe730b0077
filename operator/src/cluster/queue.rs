//! Which graphs are to be reconciled when: each at most once at a time, after a failure later and later.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, stream};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::kept::Key;

/// Graphs that are reconciled at the same time.
const AT_ONCE: usize = 8;
/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// Longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What came of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do until something changes.
    Done,
    /// It is to be looked at again after that time.
    Again(Duration),
    /// It failed and is tried again.
    Failed,
}

/// Asks for graphs to be reconciled.
#[derive(Clone, Debug)]
pub struct Sender(UnboundedSender<ScheduleRequest<Key>>);

impl Sender {
    /// Of all of these, as soon as may be.
    pub fn all(&self, keys: impl IntoIterator<Item = Key>) {
        for message in keys {
            // Nobody reads any more once the queue has ended.
            let _ = self.0.send(ScheduleRequest { message, run_at: Instant::now() });
        }
    }

    fn later(&self, message: Key, pause: Duration) {
        let _ = self.0.send(ScheduleRequest { message, run_at: Instant::now() + pause });
    }
}

/// Graphs that wait. Asking twice for one that waits is asking once; the number of graphs bounds it.
#[derive(Debug)]
pub struct Queue {
    sender: Sender,
    receiver: UnboundedReceiver<ScheduleRequest<Key>>,
}

impl Default for Queue {
    fn default() -> Self {
        let (sender, receiver) = unbounded_channel();
        Self { sender: Sender(sender), receiver }
    }
}

type Work<'a> = Pin<Box<dyn Future<Output = (Key, Outcome)> + Send + 'a>>;

impl Queue {
    /// Where to ask.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Does the work until `stop`; what is being worked on then is finished.
    pub async fn run<W: Future<Output = Outcome> + Send>(
        self,
        stop: &CancellationToken,
        work: impl Fn(Key) -> W + Sync,
    ) {
        let Self { sender, receiver } = self;
        let requests = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        let mut waiting = std::pin::pin!(scheduler(Box::pin(requests)));
        let mut busy = HashSet::new();
        let mut failures: HashMap<Key, u32> = HashMap::new();
        let mut working = FuturesUnordered::<Work<'_>>::new();
        let work = &work;
        loop {
            let mut free = waiting.as_mut().hold_unless(|key: &Key| busy.len() < AT_ONCE && !busy.contains(key));
            tokio::select! {
                () = stop.cancelled() => break,
                Some((key, outcome)) = working.next() => {
                    busy.remove(&key);
                    let failed = failures.remove(&key).unwrap_or_default();
                    match outcome {
                        Outcome::Done => {}
                        Outcome::Again(pause) => sender.later(key, pause),
                        Outcome::Failed => {
                            failures.insert(key.clone(), failed + 1);
                            sender.later(key, pause(failed));
                        }
                    }
                }
                Some(key) = free.next() => {
                    busy.insert(key.clone());
                    working.push(Box::pin(async move {
                        let outcome = work(key.clone()).await;
                        (key, outcome)
                    }));
                }
            }
        }
        while working.next().await.is_some() {}
    }
}

/// After so many failures before this one.
fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::sleep;

    use super::*;

    fn key(name: &str) -> Key {
        Key::new("n", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_graph_is_worked_on_once_at_a_time_and_again_if_asked_meanwhile() {
        let queue = Queue::default();
        let (sender, stop) = (queue.sender(), CancellationToken::new());
        let (now, most, total) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let run = queue.run(&stop, async |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            total.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        });
        let ask = async {
            for _ in 0..5 {
                sender.all([key("a")]);
            }
            sleep(Duration::from_millis(500)).await;
            sender.all([key("a"), key("a")]);
            sleep(Duration::from_secs(5)).await;
            stop.cancel();
        };
        tokio::join!(run, ask);
        assert_eq!((most.load(Ordering::SeqCst), total.load(Ordering::SeqCst)), (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_tried_again_with_pauses_that_grow_until_one_succeeds() {
        let queue = Queue::default();
        let (sender, stop) = (queue.sender(), CancellationToken::new());
        let start = Instant::now();
        let seen = Mutex::new(Vec::new());
        sender.all([key("a")]);
        let run = queue.run(&stop, async |_| {
            let mut seen = seen.lock().expect("no panic");
            seen.push(start.elapsed().as_millis());
            match seen.len() {
                1 | 2 | 4 => Outcome::Failed,
                3 => Outcome::Again(Duration::from_secs(10)),
                _ => Outcome::Done,
            }
        });
        let end = async {
            sleep(Duration::from_mins(2)).await;
            stop.cancel();
        };
        tokio::join!(run, end);
        let seen: Vec<_> = seen.lock().expect("no panic").iter().map(|ms| ms / 100).collect();
        assert_eq!(seen, [0, 2, 6, 106, 108]);
        assert_eq!(pause(40), LONGEST_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn several_graphs_go_side_by_side_and_are_finished_at_the_end() {
        let queue = Queue::default();
        let (sender, stop) = (queue.sender(), CancellationToken::new());
        let done = AtomicUsize::new(0);
        sender.all((0..20).map(|number| key(&number.to_string())));
        let run = queue.run(&stop, async |_| {
            sleep(Duration::from_secs(1)).await;
            done.fetch_add(1, Ordering::SeqCst);
            Outcome::Done
        });
        let end = async {
            sleep(Duration::from_millis(1500)).await;
            stop.cancel();
        };
        tokio::join!(run, end);
        assert_eq!(done.load(Ordering::SeqCst), 2 * AT_ONCE);
    }
}
