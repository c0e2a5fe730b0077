//! The event loop.

use std::collections::VecDeque;

use dynosim_engine::{Horizon, Nanos};
use dynosim_router::Admission as Admitted;
use dynosim_workload::{Ending, Turn, Workload};

use crate::collector::Collector;
use crate::config::{Admission, Fleet, Progress, ReplayConfig, ReplayError};
use crate::digest::Happened;
use crate::events::{Event, Events};
use crate::live::{Live, LiveRequests};
use crate::pools::Pools;
use crate::records::TerminalStatus;
use crate::step::Effects;
use crate::workers::Workers;

/// Completions between two calls of the progress function.
const PROGRESS_INTERVAL: u64 = 256;

/// A run in the making, of all workers or of some that go their own way.
pub(crate) struct Replay<'a> {
    admission: Admission,
    end: Option<Nanos>,
    horizon: Horizon,
    pub(crate) workload: &'a mut dyn Workload,
    pub(crate) workers: Workers,
    pub(crate) pools: Pools,
    pub(crate) events: Events,
    pub(crate) lives: LiveRequests,
    pub(crate) collector: Collector,
    pub(crate) now: Nanos,
    /// Number of the first worker, in reports.
    pub(crate) first_worker: u32,
    /// Sessions in flight.
    sessions: u32,
    /// What steps have done, still to be dealt with.
    pub(crate) effects: Effects,
    /// Requests that have left the queue of a pool's router, still to be dealt with.
    pub(crate) admitted: VecDeque<(usize, Admitted)>,
    pub(crate) explain: Option<u64>,
    /// Hashes of the request that comes in; kept for its buffer.
    hashes: Vec<u64>,
}

impl<'a> Replay<'a> {
    /// Prepares a run of `workload` from its start on `fleet`, whose first worker is the worker `first_worker`.
    pub(crate) fn new(
        config: &ReplayConfig,
        fleet: Fleet,
        first_worker: u32,
        workload: &'a mut dyn Workload,
    ) -> Result<Self, ReplayError> {
        let (mut workers, mut events) = (Workers::default(), Events::default());
        let pools = Pools::new(fleet, &config.routing, &mut workers, &mut events)?;
        let collector = Collector {
            sla: config.sla,
            records: config.records.then(Vec::new),
            reasoning: config.reasoning,
            ..Collector::default()
        };
        Ok(Self {
            admission: config.admission,
            end: config.end,
            horizon: config.horizon,
            workload,
            workers,
            pools,
            events,
            lives: LiveRequests::default(),
            collector,
            now: Nanos::ZERO,
            first_worker,
            sessions: 0,
            effects: Effects::default(),
            admitted: VecDeque::new(),
            explain: config.explain,
            hashes: Vec::new(),
        })
    }

    /// Runs to the end.
    pub(crate) fn run(mut self, progress: Progress<'_>) -> Result<Collector, ReplayError> {
        let mut told = 0;
        while let Some(next) = self.next_time()? {
            if self.end.is_some_and(|end| next > end) {
                break;
            }
            self.now = next;
            self.process_events()?;
            self.process_arrivals()?;
            self.workers.start(self.now, self.horizon, &mut self.events);
            let done = self.collector.completed + self.collector.rejected;
            if done >= told + PROGRESS_INTERVAL {
                told = done;
                progress(done);
            }
        }
        self.close()
    }

    fn next_time(&mut self) -> Result<Option<Nanos>, ReplayError> {
        let arrival = match self.admission {
            Admission::Schedule => self.workload.peek()?,
            Admission::Concurrency(limit) if self.sessions < limit => self.workload.peek()?.map(|_| self.now),
            Admission::Concurrency(_) => None,
        };
        let event = self.events.next_time();
        Ok(arrival.into_iter().chain(event).min())
    }

    fn process_events(&mut self) -> Result<(), ReplayError> {
        // All that has ended by now is known before anybody decides upon it.
        while let Some((worker, version)) = self.events.pop_step_end(self.now) {
            self.end_step(worker, version);
        }
        self.deal();
        while let Some(event) = self.events.pop_due(self.now) {
            match event {
                Event::StepEnds { worker, version } => self.end_step(worker, version),
                Event::WorkerReady { worker } => self.workers.ready(worker),
                Event::KvArrives { request } => self.kv_arrives(request),
                Event::TurnDue { session } => {
                    let turn = self.workload.take_next(session, &mut self.hashes)?;
                    self.arrive(turn);
                }
            }
        }
        Ok(())
    }

    fn process_arrivals(&mut self) -> Result<(), ReplayError> {
        loop {
            let due = match self.admission {
                Admission::Schedule => self.workload.peek()?.is_some_and(|at| at <= self.now),
                Admission::Concurrency(limit) => self.sessions < limit,
            };
            if !due {
                return Ok(());
            }
            let Some(turn) = self.workload.take(&mut self.hashes)? else { return Ok(()) };
            self.sessions += 1;
            self.arrive(turn);
        }
    }

    /// A request comes in; its hashes are in the buffer.
    fn arrive(&mut self, turn: Turn) {
        self.collector.requests += 1;
        self.collector.digest.add(self.now, Happened::Arrived, turn.row);
        let live = Live { turn, arrival: self.now, ..Live::default() };
        let id = self.lives.insert(live, self.hashes.clone());
        self.send(id);
        self.deal();
    }

    /// A turn has ended: its session goes on, or leaves.
    pub(crate) fn continue_session(&mut self, turn: &Turn, ending: Ending) {
        match self.workload.ended(turn, self.now, ending) {
            Some(delay) => self.events.push(self.now + delay, Event::TurnDue { session: turn.session }),
            None => self.sessions -= 1,
        }
    }

    fn close(mut self) -> Result<Collector, ReplayError> {
        let unsent = self.workload.total_requests().saturating_sub(self.collector.requests) as usize;
        let unfinished = self.lives.len() + unsent;
        if unfinished > 0 && self.end.is_none() {
            return Err(ReplayError::Stuck { unfinished, at_ms: self.now.as_ms() });
        }
        let Self { lives, collector, workload, .. } = &mut self;
        // The run was ended early: rows for what was still in flight.
        for live in lives.drain() {
            let session = || workload.session_name(live.turn.session).into_owned();
            collector.record(&live, session, TerminalStatus::Canceled, None);
        }
        Ok(self.collector)
    }
}
