//! What an engine's thread tells the world: events, metrics, logs.

mod cache;
mod decisions;
mod load;
mod passes;
mod trace;

pub(crate) use cache::CacheReport;
pub use decisions::DecisionLog;
pub(crate) use load::LoadReport;
pub(crate) use passes::PassReport;

use dynosim_engine::{Engine, Nanos, Step};

use crate::driver::Report;
use crate::flight::{Flight, Flights, Serial};
use crate::metrics::EngineMetrics;
use crate::pace::{Observe, Submission};
use crate::progress::End;

/// Whether cache changes are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheTrace {
    /// They are not.
    #[default]
    Off,
    /// They are (`DYN_MOCKER_KV_CACHE_TRACE`).
    On,
}

/// All reports of one worker, per rank.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    pub(crate) worker_id: u64,
    pub(crate) caches: Vec<CacheReport>,
    pub(crate) loads: Vec<LoadReport>,
    pub(crate) passes: Vec<PassReport>,
    pub(crate) metrics: EngineMetrics,
    pub(crate) decisions: Option<DecisionLog>,
    pub(crate) cache_trace: CacheTrace,
}

impl Observe for WorkerReport {
    fn arrived(&mut self, at: Nanos, submission: &Submission) {
        if let Some(decisions) = &mut self.decisions {
            decisions.arrived(at, submission);
        }
    }

    fn aborted(&mut self, at: Nanos, rank: u32, serial: Serial) {
        self.metrics.aborted(rank);
        if let Some(decisions) = &mut self.decisions {
            decisions.aborted(at, serial);
        }
    }

    fn activated(&mut self, at: Nanos, serial: Serial) {
        if let Some(decisions) = &mut self.decisions {
            decisions.activated(at, serial);
        }
    }

    fn released(&mut self, at: Nanos, serial: Serial) {
        if let Some(decisions) = &mut self.decisions {
            decisions.released(at, serial);
        }
    }

    fn emitted(&mut self, at: Nanos, rank: u32, flight: &Flight, tokens: u32) {
        self.metrics.emitted(at, rank, flight, tokens);
    }

    fn finished(&mut self, at: Nanos, rank: u32, flight: &Flight, end: End) {
        self.metrics.finished(at, rank, flight, end);
    }

    fn stepped(&mut self, engine: &Engine, step: &Step, flights: &Flights) {
        for (cache, pass) in self.caches.iter_mut().zip(&step.ranks) {
            cache.pass(pass, flights);
        }
        for (report, pass) in self.passes.iter_mut().zip(&step.ranks) {
            report.pass(step.start, step.end(), pass, engine);
        }
        for (rank, pass) in (0..).zip(&step.ranks) {
            self.metrics.pass(rank, pass, flights);
        }
        if let Some(decisions) = &mut self.decisions {
            decisions.stepped(step, flights);
        }
        if self.cache_trace == CacheTrace::On {
            trace::log(self.worker_id, engine, step, flights);
        }
    }
}

impl Report for WorkerReport {
    fn settle(&mut self, now: Nanos, engine: &Engine) -> Option<Nanos> {
        for rank in 0..engine.dp_size() {
            self.metrics.settle(rank, engine.load(rank));
        }
        let dropped = self.caches.iter().map(CacheReport::dropped).sum();
        self.metrics.dropped_events(dropped);
        if let Some(decisions) = &mut self.decisions {
            decisions.flush();
        }
        let loads =
            (0..).zip(&mut self.loads).filter_map(|(rank, load)| load.settle(now, engine.load(rank).active_blocks));
        let next = loads.min();
        let heartbeats = self.passes.iter_mut().filter_map(|passes| passes.settle(now, engine));
        heartbeats.chain(next).min()
    }
}
