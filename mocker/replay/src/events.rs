//! What happens when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_engine::Nanos;

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A worker's step ends, unless the step was cut since: then `version` is old.
    StepEnds { worker: u32, version: u32 },
    /// A worker has started up.
    WorkerReady { worker: u32 },
    /// The next turn of a session is due.
    TurnDue { session: u32 },
}

impl Event {
    /// Order among events of one instant.
    fn class(self) -> u8 {
        match self {
            Self::StepEnds { .. } => 0,
            Self::WorkerReady { .. } => 1,
            Self::TurnDue { .. } => 2,
        }
    }
}

/// Future events in the total order (time, class, sequence of their making).
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<(Nanos, u8, u64, Event)>>,
    made: u64,
}

impl Events {
    pub(crate) fn push(&mut self, time: Nanos, event: Event) {
        self.heap.push(Reverse((time, event.class(), self.made, event)));
        self.made += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
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
    fn at_one_instant_steps_end_before_turns_are_due_and_equals_keep_their_order() {
        let mut events = Events::default();
        events.push(Nanos(5), Event::TurnDue { session: 1 });
        events.push(Nanos(5), Event::StepEnds { worker: 9, version: 0 });
        events.push(Nanos(5), Event::StepEnds { worker: 2, version: 0 });
        events.push(Nanos(4), Event::TurnDue { session: 7 });
        assert_eq!(events.pop_due(Nanos(3)), None);
        let order: Vec<_> = std::iter::from_fn(|| events.pop_due(Nanos(5))).collect();
        assert_eq!(
            order,
            [
                Event::TurnDue { session: 7 },
                Event::StepEnds { worker: 9, version: 0 },
                Event::StepEnds { worker: 2, version: 0 },
                Event::TurnDue { session: 1 },
            ]
        );
    }
}
