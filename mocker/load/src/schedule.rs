//! What is to be sent next, and when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use dynosim_engine::Nanos;
use dynosim_replay::Admission;
use dynosim_workload::{Ending, Turn, Workload, WorkloadError};

use crate::limits::{SPARE_BUFFER_MAX, SPARE_BUFFERS};
use crate::requests::Requests;

/// A written request and when it is due.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) turn: Turn,
    pub(crate) due: Nanos,
    pub(crate) request: Vec<u8>,
}

/// The order of a workload's requests in time.
pub(crate) struct Schedule<'w> {
    workload: &'w mut dyn Workload,
    admission: Admission,
    requests: Requests,
    /// First turns by when they are due, written ahead so that no prompt is made then: the next one, and those that were
    /// the next before a request that ended set off another.
    prepared: BTreeMap<(Nanos, u64), Outgoing>,
    /// First turns written.
    written: u64,
    /// Requests taken.
    taken: u64,
    /// Later turns: when, and of which session.
    turns: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Sessions begun and not over.
    sessions: u32,
    /// Since when a place for another session is free, in a closed loop.
    free_since: Nanos,
    hashes: Vec<u64>,
    /// Empty buffers of requests.
    spare: Vec<Vec<u8>>,
}

impl<'w> Schedule<'w> {
    pub(crate) fn new(workload: &'w mut dyn Workload, admission: Admission, requests: Requests) -> Self {
        let (turns, hashes, spare) = (BinaryHeap::new(), Vec::new(), Vec::new());
        let free_since = Nanos::ZERO;
        let prepared = BTreeMap::new();
        Self {
            workload,
            admission,
            requests,
            prepared,
            written: 0,
            taken: 0,
            turns,
            sessions: 0,
            free_since,
            hashes,
            spare,
        }
    }

    /// When the next request is due; none if nothing is until a request in flight has ended.
    pub(crate) fn next_time(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        self.prepare()?;
        let arrival = self.prepared.first_key_value().and_then(|(&(due, _), _)| match self.admission {
            Admission::Schedule => Some(due),
            Admission::Concurrency(limit) => (self.sessions < limit).then_some(self.free_since),
        });
        let turn = self.turns.peek().map(|&Reverse((at, _))| at);
        Ok(arrival.into_iter().chain(turn).min())
    }

    /// Takes a request that is due now.
    pub(crate) fn take(&mut self, now: Nanos) -> Result<Option<Outgoing>, WorkloadError> {
        let Some(due) = self.next_time()?.filter(|&due| due <= now) else { return Ok(None) };
        if let Some(&Reverse((at, session))) = self.turns.peek()
            && at == due
        {
            self.turns.pop();
            let turn = self.workload.take_next(session, &mut self.hashes)?;
            self.taken += 1;
            return Ok(Some(Outgoing { turn, due, request: self.write(&turn) }));
        }
        let Some((_, prepared)) = self.prepared.pop_first() else { return Ok(None) };
        self.sessions += 1;
        self.taken += 1;
        Ok(Some(Outgoing { due, ..prepared }))
    }

    /// A turn has ended, well or not: its session goes on after its pause, or leaves.
    pub(crate) fn ended(&mut self, turn: &Turn, now: Nanos, ending: Ending) {
        if let Some(delay) = self.workload.ended(turn, now, ending) {
            self.turns.push(Reverse((now + delay, turn.session)));
        } else {
            self.sessions -= 1;
            self.free_since = now;
        }
    }

    /// Nothing is in flight and nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        self.sessions == 0 && self.prepared.is_empty()
    }

    /// Requests of the workload that have not been taken.
    pub(crate) fn left(&self) -> u64 {
        self.workload.total_requests().saturating_sub(self.taken)
    }

    /// The name of a request's session.
    pub(crate) fn session_name(&self, turn: &Turn) -> std::borrow::Cow<'_, str> {
        self.workload.session_name(turn.session)
    }

    /// The buffer of a request that has been sent.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() <= SPARE_BUFFER_MAX {
            self.spare.push(buffer);
        }
    }

    fn prepare(&mut self) -> Result<(), WorkloadError> {
        while let Some(due) = self.workload.peek()? {
            if self.prepared.first_key_value().is_some_and(|(&(first, _), _)| first <= due) {
                break;
            }
            let Some(turn) = self.workload.take(&mut self.hashes)? else { break };
            let outgoing = Outgoing { turn, due, request: self.write(&turn) };
            self.prepared.insert((due, self.written), outgoing);
            self.written += 1;
        }
        Ok(())
    }

    /// Writes the request whose hashes were taken last.
    fn write(&mut self, turn: &Turn) -> Vec<u8> {
        let mut request = self.spare.pop().unwrap_or_default();
        self.requests.write(turn, &self.hashes, &mut request);
        request
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dynosim_replay::Sla;
    use dynosim_workload::{OpenOptions, TraceFormat, open_bytes};

    use super::*;
    use crate::config::{Answering, Endpoint, LoadConfig, PromptFormat};
    use crate::target::Target;

    fn config() -> LoadConfig {
        LoadConfig {
            target: Target::resolve("http://127.0.0.1:9").unwrap(),
            model: "m".to_owned(),
            endpoint: Endpoint::Completions,
            format: PromptFormat::Tokens,
            vocabulary: 256,
            answering: Answering::Stream,
            block_size: 1,
            admission: Admission::Schedule,
            end: None,
            timeout: Duration::from_secs(1),
            connections: 1,
            warmup_requests: 0,
            sla: Sla::default(),
            records: false,
        }
    }

    #[test]
    fn what_a_request_sets_off_may_come_before_what_was_written_ahead() {
        let row = |id: &str, time: u32, on: &str, delay: u32| {
            format!(
                "{{\"request_id\":\"{id}\",\"timestamp\":{time},\"input_length\":3,\"output_length\":1,\"hash_ids\":[1],\
                 \"wait_for\":[{on}],\"delay\":{delay}}}\n"
            )
        };
        let text = [row("a", 0, "", 0), row("late", 9000, "", 0), row("b", 0, "\"a\"", 5), row("c", 0, "\"b\"", 0)];
        let options =
            OpenOptions { format: TraceFormat::AgenticMooncake, engine_block_size: 1, ..OpenOptions::default() };
        let mut workload = open_bytes("trace", text.concat().into_bytes(), &options).unwrap().workload;
        let mut schedule = Schedule::new(&mut *workload, Admission::Schedule, Requests::new(&config(), 0));
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let first = schedule.take(ms(1)).unwrap().unwrap();
        assert_eq!(schedule.next_time().unwrap(), Some(ms(9000)));
        schedule.ended(&first.turn, ms(20), Ending::Completed);
        assert_eq!(schedule.next_time().unwrap(), Some(ms(25)));
        let second = schedule.take(ms(26)).unwrap().unwrap();
        assert_eq!((second.turn.row, second.due), (2, ms(25)));
        schedule.ended(&second.turn, ms(30), Ending::Rejected);
        let third = schedule.take(ms(30)).unwrap().unwrap();
        schedule.ended(&third.turn, ms(31), Ending::Completed);
        assert!(schedule.take(ms(31)).unwrap().is_none() && !schedule.is_over());
        let last = schedule.take(ms(9000)).unwrap().unwrap();
        assert!(!schedule.is_over());
        schedule.ended(&last.turn, ms(9001), Ending::Completed);
        assert!(schedule.next_time().unwrap().is_none() && schedule.is_over());
        assert_eq!(schedule.left(), 0);
    }
}
