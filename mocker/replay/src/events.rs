//! What happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_engine::Nanos;

use crate::live::LiveId;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A worker's step ends, unless the step was cut since: then `version` is old.
    StepEnds { worker: u32, version: u32 },
    /// A worker has started up.
    WorkerReady { worker: u32 },
    /// The KV of a request has come to its decode worker.
    KvArrives { request: LiveId },
    /// The next turn of a session is due.
    TurnDue { session: u32 },
}

impl Event {
    /// Order among events of one instant.
    fn class(self) -> u8 {
        match self {
            Self::StepEnds { .. } => 0,
            Self::WorkerReady { .. } => 1,
            Self::KvArrives { .. } => 2,
            Self::TurnDue { .. } => 3,
        }
    }
}

/// Future events in the total order (time, class, sequence of their making; for ends of steps, number of the worker).
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u8, u64, Event)>>,
    made: u64,
}

impl Events {
    pub(crate) fn push(&mut self, time: Nanos, event: Event) {
        let order = match event {
            // How far ahead a step was planned must not matter.
            Event::StepEnds { worker, .. } => u64::from(worker),
            _ => self.made,
        };
        self.heap.push(Reverse((time, event.class(), order, event)));
        self.made += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    /// Takes the next event if it is due at `now` and the end of a step: worker and version.
    pub(crate) fn pop_step_end(&mut self, now: Nanos) -> Option<(u32, u32)> {
        match self.heap.peek() {
            Some(&Reverse((time, .., Event::StepEnds { worker, version }))) if time <= now => {
                self.heap.pop();
                Some((worker, version))
            }
            _ => None,
        }
    }

    /// Takes the next event if it is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Nanos) -> Option<Event> {
        if self.next_time()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((.., event))| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_one_instant_steps_end_by_worker_before_turns_are_due_in_their_order() {
        let mut events = Events::default();
        events.push(Nanos(5), Event::TurnDue { session: 1 });
        events.push(Nanos(5), Event::StepEnds { worker: 9, version: 0 });
        events.push(Nanos(5), Event::StepEnds { worker: 2, version: 0 });
        events.push(Nanos(4), Event::TurnDue { session: 7 });
        events.push(Nanos(5), Event::TurnDue { session: 0 });
        assert_eq!(events.pop_due(Nanos(3)), None);
        let order: Vec<_> = std::iter::from_fn(|| events.pop_due(Nanos(5))).collect();
        assert_eq!(
            order,
            [
                Event::TurnDue { session: 7 },
                Event::StepEnds { worker: 2, version: 0 },
                Event::StepEnds { worker: 9, version: 0 },
                Event::TurnDue { session: 1 },
                Event::TurnDue { session: 0 },
            ]
        );
    }
}
