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
        Self { workload, admission, requests, prepared, written: 0, turns, sessions: 0, free_since, hashes, spare }
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
            return Ok(Some(Outgoing { turn, due, request: self.write(&turn) }));
        }
        let Some((_, prepared)) = self.prepared.pop_first() else { return Ok(None) };
        self.sessions += 1;
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
