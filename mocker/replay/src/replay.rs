//! The event loop.

use dynosim_engine::hash::mix;
use dynosim_engine::{BlockHashes, Engine, EngineConfig, Horizon, Nanos, Reasoning, Request};
use dynosim_workload::{Ending, Turn, Workload, WorkloadError};

use crate::collector::Collector;
use crate::digest::Happened;
use crate::events::{Event, Events};
use crate::live::{Live, LiveId, LiveRequests};
use crate::records::TerminalStatus;
use crate::sla::Sla;

/// Completions between two calls of the progress function.
const PROGRESS_INTERVAL: u64 = 256;
/// Names the stream that sets output blocks of different requests apart.
const OUTPUT_BLOCKS: u64 = u64::from_be_bytes(*b"outputkv");

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// At their own times.
    Schedule,
    /// As soon as fewer than so many sessions are in flight, whatever their times. A session of several turns stays in
    /// flight while it thinks.
    Concurrency(u32),
}

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct ReplayConfig {
    /// The workers' engines, at least one, in the aggregated role; requests go round robin over them in the order of
    /// their arrival.
    pub engines: Vec<EngineConfig>,
    /// GPUs of one worker, for the report.
    pub gpus_per_worker: u32,
    /// When requests are sent.
    pub admission: Admission,
    /// Workers take up work only this long after the start.
    pub startup: Nanos,
    /// The run ends here, whatever is in flight.
    pub end: Option<Nanos>,
    /// Limits for goodput.
    pub sla: Sla,
    /// Keep a row per request.
    pub records: bool,
    /// Eviction order of the KV cache, for the report.
    pub kv_eviction_policy: &'static str,
    /// Share of reasoning tokens in the output, for the report.
    pub reasoning: Option<Reasoning>,
    /// One pass at a time, for tests: the result is the same.
    pub horizon: Horizon,
}

/// Called now and then with the number of requests that have ended.
pub type Progress<'a> = &'a mut dyn FnMut(u64);

/// A run that could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The workload is broken.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A fault of the simulator: nothing can happen any more although requests are left. Every run is checked for it.
    #[error("{unfinished} requests are left at {at_ms} ms and nothing can happen any more; this is a bug")]
    Stuck {
        /// Requests in flight or never sent.
        unfinished: usize,
        /// When.
        at_ms: f64,
    },
}

#[derive(Debug)]
struct Worker {
    engine: Engine,
    /// Per rank and slot of its scheduler: the request in it.
    slots: Vec<Vec<LiveId>>,
    /// Changes whenever the planned end of its step does.
    version: u32,
    ready: bool,
    /// It may have work that has not been looked at.
    dirty: bool,
}

/// A run in the making, of all workers or of some that go their own way.
pub(crate) struct Replay<'a> {
    admission: Admission,
    end: Option<Nanos>,
    horizon: Horizon,
    workload: &'a mut dyn Workload,
    workers: Vec<Worker>,
    /// Workers that are dirty.
    to_start: Vec<u32>,
    events: Events,
    lives: LiveRequests,
    collector: Collector,
    now: Nanos,
    next_worker: u32,
    /// Number of the first worker, in reports.
    first_worker: u32,
    /// Sessions in flight.
    sessions: u32,
    /// Requests that ended with the steps of this instant.
    ended: Vec<LiveId>,
}

impl<'a> Replay<'a> {
    /// Prepares a run of `workload` from its start on `engines`, the first of which is the worker `first_worker`.
    pub(crate) fn new(
        config: &ReplayConfig,
        engines: Vec<EngineConfig>,
        first_worker: u32,
        workload: &'a mut dyn Workload,
    ) -> Self {
        let worker = |engine: EngineConfig| Worker {
            slots: vec![Vec::new(); engine.dp_size as usize],
            engine: Engine::new(engine),
            version: 0,
            ready: config.startup == Nanos::ZERO,
            dirty: false,
        };
        let mut events = Events::default();
        let workers: Vec<_> = engines.into_iter().map(worker).collect();
        if config.startup > Nanos::ZERO {
            (0..workers.len() as u32).for_each(|worker| events.push(config.startup, Event::WorkerReady { worker }));
        }
        let collector = Collector {
            sla: config.sla,
            records: config.records.then(Vec::new),
            reasoning: config.reasoning,
            ..Collector::default()
        };
        Self {
            workers,
            admission: config.admission,
            end: config.end,
            horizon: config.horizon,
            workload,
            to_start: Vec::new(),
            events,
            lives: LiveRequests::default(),
            collector,
            now: Nanos::ZERO,
            next_worker: 0,
            first_worker,
            sessions: 0,
            ended: Vec::new(),
        }
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
            self.start_workers();
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
        while let Some(event) = self.events.pop_due(self.now) {
            match event {
                Event::StepEnds { worker, version } => {
                    if self.workers[worker as usize].version == version {
                        self.end_step(worker);
                    }
                }
                Event::WorkerReady { worker } => {
                    self.workers[worker as usize].ready = true;
                    self.mark_dirty(worker);
                }
                Event::TurnDue { session } => {
                    let mut hashes = Vec::new();
                    let turn = self.workload.take_next(session, &mut hashes)?;
                    self.dispatch(turn, hashes);
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
            let mut hashes = Vec::new();
            let Some(turn) = self.workload.take(&mut hashes)? else { return Ok(()) };
            self.sessions += 1;
            self.dispatch(turn, hashes);
        }
    }

    /// Sends a request to the next worker.
    fn dispatch(&mut self, turn: Turn, known: Vec<u64>) {
        let index = self.next_worker;
        self.next_worker = (index + 1) % self.workers.len() as u32;
        let live = Live { turn, arrival: self.now, worker: Some(self.first_worker + index), ..Live::default() };
        self.collector.requests += 1;
        self.collector.digest.add(self.now, Happened::Arrived, turn.row);
        let worker = &mut self.workers[index as usize];
        if let Err(rejection) = worker.engine.check(turn.input_tokens, turn.output_tokens) {
            self.collector.rejected += 1;
            self.collector.digest.add(self.now, Happened::Rejected, turn.row);
            let workload = &self.workload;
            let session = || workload.session_name(turn.session).into_owned();
            self.collector.record(&live, session, TerminalStatus::Rejected, Some(rejection.to_string()));
            self.continue_session(&turn, Ending::Rejected);
            return;
        }
        let request = Request {
            prompt_tokens: turn.input_tokens,
            max_output_tokens: turn.output_tokens,
            // Traces say larger is sooner, vLLM lower is sooner.
            priority: turn.priority.saturating_neg(),
            ignore_eos: true,
            hashes: BlockHashes { known, salt: mix(OUTPUT_BLOCKS, turn.row) },
        };
        let before = worker.engine.busy_until();
        let ticket = worker.engine.submit(self.now, None, request);
        let slots = &mut worker.slots[ticket.rank as usize];
        if slots.len() <= ticket.request.index() {
            slots.resize(ticket.request.index() + 1, LiveId(u32::MAX));
        }
        slots[ticket.request.index()] = self.lives.insert(live);
        match worker.engine.busy_until() {
            None => self.mark_dirty(index),
            Some(end) if before != Some(end) => self.announce_end(index, end),
            Some(_) => {}
        }
    }

    fn announce_end(&mut self, worker: u32, end: Nanos) {
        let state = &mut self.workers[worker as usize];
        state.version = state.version.wrapping_add(1);
        self.events.push(end, Event::StepEnds { worker, version: state.version });
    }

    fn mark_dirty(&mut self, worker: u32) {
        let state = &mut self.workers[worker as usize];
        if !state.dirty && state.ready {
            state.dirty = true;
            self.to_start.push(worker);
        }
    }

    fn start_workers(&mut self) {
        let mut to_start = std::mem::take(&mut self.to_start);
        for &worker in &to_start {
            let state = &mut self.workers[worker as usize];
            state.dirty = false;
            if state.engine.busy_until().is_none()
                && let Some(end) = state.engine.start(self.now, self.horizon)
            {
                self.announce_end(worker, end);
            }
        }
        to_start.clear();
        self.to_start = to_start;
    }

    fn end_step(&mut self, worker: u32) {
        let Worker { engine, slots, .. } = &mut self.workers[worker as usize];
        let step = engine.finish();
        self.collector.digest.add(step.end(), Happened::StepEnded, u64::from(worker));
        for (rank, pass) in step.ranks.iter().enumerate() {
            self.collector.rank_step(step, rank, &slots[rank], &mut self.lives);
            self.ended.extend(pass.finished.iter().map(|request| slots[rank][request.index()]));
        }
        self.mark_dirty(worker);
        let mut ended = std::mem::take(&mut self.ended);
        for id in ended.drain(..) {
            let Some(live) = self.lives.take(id) else { continue };
            let workload = &self.workload;
            self.collector.completed(&live, || workload.session_name(live.turn.session).into_owned());
            self.continue_session(&live.turn, Ending::Completed);
        }
        self.ended = ended;
    }

    /// A turn has ended: its session goes on, or leaves.
    fn continue_session(&mut self, turn: &Turn, ending: Ending) {
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
        if self.end.is_some() {
            self.cancel_rest();
        }
        Ok(self.collector)
    }

    /// The run was ended early: rows for what was still in flight.
    fn cancel_rest(&mut self) {
        let flights: Vec<_> = self.workers.iter().flat_map(|worker| worker.slots.iter().flatten().copied()).collect();
        for id in flights {
            if let Some(live) = self.lives.take(id) {
                let workload = &self.workload;
                let session = || workload.session_name(live.turn.session).into_owned();
                self.collector.record(&live, session, TerminalStatus::Canceled, None);
            }
        }
    }
}
