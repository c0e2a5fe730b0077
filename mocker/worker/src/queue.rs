//! Commands on their way to the engine's thread.
//!
//! A command gets its time stamp under the same lock under which the thread takes commands out. So when the thread knows
//! that it is `until`, all commands stamped up to then are in its hands, and no later one can have such a stamp.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dynosim_engine::Nanos;
use dynosim_wire::time;

use crate::pace::{Command, Stamped};

/// Nanoseconds on the monotonic clock since the worker's start. Whoever sets the host's clock changes nothing here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(time::now())
    }

    pub(crate) fn now(self) -> Nanos {
        Nanos(u64::try_from(time::now().duration_since(self.0).as_nanos()).unwrap_or(u64::MAX))
    }
}

/// What the engine's thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A time, whatever comes: nothing can change what happens until then.
    Until(Nanos),
    /// A command, or a time at which there is something to report.
    Command(Option<Nanos>),
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Stamped>,
    /// The earliest stamp that can be given.
    floor: Nanos,
    /// The thread sleeps and a command should wake it.
    awaited: bool,
    closed: bool,
}

/// The queue between request tasks and the engine's thread. It holds a few commands per request, and requests are limited
/// where they come in.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    clock: Clock,
    state: Mutex<State>,
    woken: Condvar,
}

impl CommandQueue {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, state: Mutex::default(), woken: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stamps a command and puts it in. Dropped if the queue is closed: the request is told so by its reporter.
    pub(crate) fn push(&self, command: Command) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let at = self.clock.now().max(state.floor);
        state.floor = at;
        state.commands.push_back(Stamped { at, command });
        if std::mem::take(&mut state.awaited) {
            drop(state);
            self.woken.notify_one();
        }
    }

    /// Waits, then moves all commands to `into`. What comes back is the time, and all commands up to it are there; none
    /// once the queue is closed.
    pub(crate) fn wait(&self, wait: Wait, into: &mut VecDeque<Stamped>) -> Option<Nanos> {
        let mut state = self.lock();
        loop {
            let now = self.clock.now();
            let ready = match wait {
                Wait::Until(time) => now >= time,
                Wait::Command(time) => !state.commands.is_empty() || time.is_some_and(|time| now >= time),
            };
            if state.closed {
                return None;
            }
            if ready {
                let now = now.max(state.floor);
                state.floor = now + Nanos(1);
                into.append(&mut state.commands);
                return Some(now);
            }
            let (awaited, deadline) = match wait {
                Wait::Until(time) => (false, Some(time)),
                Wait::Command(time) => (true, time),
            };
            state.awaited = awaited;
            state = match deadline {
                None => self.woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let span = Duration::from_nanos(time.since(now).0);
                    self.woken.wait_timeout(state, span).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.awaited = false;
        }
    }

    /// Commands that the thread has not taken.
    pub(crate) fn len(&self) -> usize {
        self.lock().commands.len()
    }

    /// Ends the thread's next wait for good.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.commands.clear();
        drop(state);
        self.woken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flight::Serial;
    use std::sync::Arc;

    #[test]
    fn no_command_gets_a_stamp_that_the_thread_has_passed() {
        let queue = Arc::new(CommandQueue::new(Clock::start()));
        let pushers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                std::thread::spawn(move || (0..5000).for_each(|n| queue.push(Command::Abort(Serial(n)))))
            })
            .collect();
        let (mut taken, mut passed, mut batch) = (0, None, VecDeque::new());
        while taken < 20_000 {
            let until = queue.wait(Wait::Command(None), &mut batch).expect("open");
            let mut before = passed;
            for stamped in batch.drain(..) {
                assert!(before.is_none_or(|before| stamped.at >= before) && stamped.at <= until);
                assert!(passed.is_none_or(|passed| stamped.at > passed), "{:?} after {passed:?}", stamped.at);
                before = Some(stamped.at);
                taken += 1;
            }
            passed = Some(until);
        }
        for pusher in pushers {
            pusher.join().expect("no panic");
        }
    }

    #[test]
    fn a_time_is_waited_for_whatever_comes_and_a_closed_queue_lets_go() {
        let queue = CommandQueue::new(Clock::start());
        queue.push(Command::Abort(Serial(1)));
        let until = Nanos::from_ms(3.0);
        let mut batch = VecDeque::new();
        assert!(queue.wait(Wait::Until(until), &mut batch).is_some_and(|now| now >= until));
        assert_eq!(batch.len(), 1);
        queue.close();
        assert_eq!(queue.wait(Wait::Until(Nanos::MAX), &mut batch), None);
        queue.push(Command::Abort(Serial(2)));
        assert_eq!(queue.len(), 0);
    }
}
