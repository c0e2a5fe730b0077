//! What the replay loop drives.

use std::borrow::Cow;

use dynosim_engine::Nanos;

use crate::error::WorkloadError;

/// One request to be sent: a turn of a session, or an independent request, which is a session of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Number of the session, dense from 0 in the order in which sessions arrive.
    pub session: u32,
    /// Number of the turn within its session, from 0.
    pub turn: u32,
    /// Number of the request in the order of the input, from 0.
    pub row: u64,
    /// Prompt length in tokens; 1 or more.
    pub input_tokens: u32,
    /// Output length in tokens; 1 or more.
    pub output_tokens: u32,
    /// Larger is sooner.
    pub priority: i32,
    /// Priority class of the router's queue.
    pub strict_priority: u32,
    /// Number of the policy class, for [`Workload::policy_class_name`].
    pub policy_class: Option<u32>,
}

/// One of several receivers of requests that are dealt out in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub number: u32,
    /// How many there are; 1 or more.
    pub of: u32,
}

impl Part {
    /// The only receiver.
    pub const WHOLE: Self = Self { number: 0, of: 1 };
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its output is complete.
    Completed,
    /// It has no output: it was refused, failed or was given up.
    Rejected,
}

/// A source of requests.
///
/// First turns arrive in time order through `peek` and `take`. When a turn has ended, `ended` says how long the session
/// pauses; that much later the driver calls `take_next`. Requests that wait for others arrive through `peek` and `take`
/// too, once what they wait for has `ended`. In trace mode the driver waits for the time that `peek` tells; in closed
/// concurrency it ignores it and takes a session whenever a slot is free.
pub trait Workload {
    /// When the next session arrives, counted from the start of the run; `None` after the last, or if all others wait.
    /// A request that has ended since may have brought it forward.
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError>;

    /// Takes the first turn of the session that `peek` tells of; `None` after the last.
    ///
    /// `hashes` is cleared and filled with the chain hashes of the prompt's full engine blocks. Where the output is part
    /// of the trace (`mooncake-delta`), those of the blocks that it fills follow.
    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError>;

    /// The pause between the completion of `turn` and the session's next one; `None` if the session is over.
    ///
    /// A turn given up without it leaves nothing behind.
    fn next_delay(&mut self, turn: &Turn) -> Option<Nanos>;

    /// Tells that a request has ended at `now`, counted from the start of the run. To be called once for each turn
    /// taken. Returns what [`next_delay`](Self::next_delay) does, which drivers do not call themselves.
    fn ended(&mut self, turn: &Turn, now: Nanos, ending: Ending) -> Option<Nanos> {
        let _ = (now, ending);
        self.next_delay(turn)
    }

    /// Takes the next turn of a session; fills `hashes` as [`take`](Self::take) does.
    ///
    /// Fails with [`WorkloadError::NoTurn`] unless `ended` has announced the turn.
    fn take_next(&mut self, session: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError>;

    /// The requests that come to one of several receivers if they are dealt out in turn, as a workload of their own;
    /// rows and sessions keep their numbers. `None` where that takes more than reading on: with sessions of several
    /// turns. To be called before anything is taken.
    fn part(&self, part: Part) -> Option<Box<dyn Workload + Send>> {
        let _ = part;
        None
    }

    /// Number of requests, all turns counted.
    fn total_requests(&self) -> u64;

    /// Number of sessions; each independent request is one.
    fn total_sessions(&self) -> u64;

    /// Whether any session has more than one turn.
    fn is_multi_turn(&self) -> bool {
        self.total_requests() > self.total_sessions()
    }

    /// The name of a session, for reports.
    fn session_name(&self, session: u32) -> Cow<'_, str>;

    /// The name of a policy class seen so far.
    fn policy_class_name(&self, class: u32) -> Option<&str> {
        let _ = class;
        None
    }
}
