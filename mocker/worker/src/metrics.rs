//! What `/metrics` of the system port says. One set of families per process; each worker has its labels.

mod buckets;
mod calls;
mod family;
mod native;

use dynosim_engine::args::EngineType;
use dynosim_engine::{Load, Nanos, Pass};
use dynosim_wire::EndpointId;
use prometheus::{Encoder, Gauge, Histogram, IntCounter, Registry, TextEncoder};

pub(crate) use calls::CallMetrics;
pub use native::Several;

use crate::flight::{Flight, Flights};
use crate::progress::End;

/// The metrics of a process.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    native: native::Native,
    calls: calls::Calls,
}

impl Metrics {
    /// Empty families of an engine type.
    pub fn new(engine_type: EngineType, several: Several) -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let native = native::Native::new(&registry, engine_type, several)?;
        let calls = calls::Calls::new(&registry)?;
        Ok(Self { registry, native, calls })
    }

    /// All of them in Prometheus' text format.
    pub fn to_text(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(text)
    }

    pub(crate) fn endpoint(&self, endpoint: &EndpointId, worker: &str) -> CallMetrics {
        self.calls.endpoint(endpoint, worker)
    }

    pub(crate) fn uptime(&self, worker: &str) -> Gauge {
        self.calls.uptime(worker)
    }

    pub(crate) fn engine(
        &self,
        endpoint: &EndpointId,
        worker: &str,
        model: &str,
        ranks: u32,
        blocks: u32,
    ) -> EngineMetrics {
        let ranks = (0..ranks).map(|rank| RankMetrics::new(&self.native, model, rank, worker)).collect();
        EngineMetrics { ranks, blocks, dropped_events: self.calls.dropped_events(endpoint, worker) }
    }
}

/// The metrics of one worker's engine; written by its thread.
#[derive(Debug)]
pub(crate) struct EngineMetrics {
    ranks: Vec<RankMetrics>,
    /// KV blocks of a rank.
    blocks: u32,
    dropped_events: IntCounter,
}

#[derive(Debug)]
struct RankMetrics {
    running: Gauge,
    waiting: Gauge,
    usage: Vec<Gauge>,
    hit_rate: Gauge,
    preemptions: IntCounter,
    queries: IntCounter,
    hits: IntCounter,
    prompt: IntCounter,
    generation: IntCounter,
    complete: IntCounter,
    aborted: IntCounter,
    requests: IntCounter,
    first_token: Histogram,
    inter_token: Histogram,
    request: Histogram,
}

impl RankMetrics {
    fn new(native: &native::Native, model: &str, rank: u32, worker: &str) -> Self {
        let state = native.state_values(model, rank, worker);
        let flow = native.flow_values(model, rank, worker);
        let ended = |reason: &str| {
            let values: Vec<_> = flow.iter().map(String::as_str).chain([reason]).collect();
            native.success.with_label_values(&values)
        };
        Self {
            running: native.running.with_label_values(&state),
            waiting: native.waiting.with_label_values(&state),
            usage: native.usage.iter().map(|family| family.with_label_values(&state)).collect(),
            hit_rate: native.hit_rate.with_label_values(&state),
            preemptions: native.preemptions.with_label_values(&flow),
            queries: native.queries.with_label_values(&flow),
            hits: native.hits.with_label_values(&flow),
            prompt: native.prompt.with_label_values(&flow),
            generation: native.generation.with_label_values(&flow),
            complete: ended("length"),
            aborted: ended("abort"),
            requests: native.requests.with_label_values(&flow),
            first_token: native.first_token.with_label_values(&flow),
            inter_token: native.inter_token.with_label_values(&flow),
            request: native.request.with_label_values(&flow),
        }
    }
}

impl EngineMetrics {
    fn rank(&self, rank: u32) -> &RankMetrics {
        &self.ranks[rank as usize]
    }

    pub(crate) fn aborted(&self, rank: u32) {
        self.rank(rank).aborted.inc();
    }

    pub(crate) fn emitted(&self, at: Nanos, rank: u32, flight: &Flight, tokens: u32) {
        let rank = self.rank(rank);
        rank.generation.inc_by(tokens.into());
        if flight.tokens == 0 {
            rank.first_token.observe(at.since(flight.arrival).as_secs());
        } else {
            rank.inter_token.observe(at.since(flight.last_token).as_secs());
        }
    }

    pub(crate) fn finished(&self, at: Nanos, rank: u32, flight: &Flight, end: End) {
        let rank = self.rank(rank);
        rank.request.observe(at.since(flight.arrival).as_secs());
        rank.requests.inc();
        if end == End::Complete {
            rank.complete.inc();
        } else {
            rank.aborted.inc();
        }
    }

    pub(crate) fn pass(&self, rank: u32, pass: &Pass, flights: &Flights) {
        let metrics = self.rank(rank);
        metrics.preemptions.inc_by(pass.preempted.len() as u64);
        metrics.prompt.inc_by(pass.prefill.new_tokens);
        let (mut asked, mut found) = (0, 0);
        for admission in pass.admitted.iter().filter(|admission| !admission.resumed) {
            if let Some(flight) = flights.get(rank, admission.request) {
                asked += u64::from(flight.prompt_tokens);
                found += u64::from(admission.cached_tokens);
            }
        }
        if asked > 0 {
            metrics.queries.inc_by(asked);
            metrics.hits.inc_by(found);
            metrics.hit_rate.set(found as f64 / asked as f64);
        }
    }

    pub(crate) fn settle(&self, rank: u32, load: Load) {
        let metrics = self.rank(rank);
        metrics.running.set((load.unfinished - load.waiting) as f64);
        metrics.waiting.set(load.waiting as f64);
        let usage = f64::from(load.active_blocks) / f64::from(self.blocks);
        metrics.usage.iter().for_each(|gauge| gauge.set(usage));
    }

    pub(crate) fn dropped_events(&self, dropped: u64) {
        self.dropped_events.inc_by(dropped.saturating_sub(self.dropped_events.get()));
    }
}
