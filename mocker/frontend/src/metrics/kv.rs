//! What KV-aware routing measures.

use std::time::Duration;

use dynosim_router::Waiting;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::families::Make;
use super::plane::Phase;
use crate::kv::Placed;

const LABELS: [&str; 3] = ["router_id", "worker_id", "worker_type"];
const SHARES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const BLOCKS: [f64; 9] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0];
const STEP_MS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 50.0];

/// Series of all routers of a frontend.
#[derive(Debug)]
pub(crate) struct KvMetrics {
    instance: u64,
    hit_rate: HistogramVec,
    applied: IntCounterVec,
    not_best: IntCounterVec,
    blocks_lost: HistogramVec,
    received: IntCounterVec,
    rejected: IntCounterVec,
    backpressure: IntCounterVec,
    waiting: IntGaugeVec,
    waiting_tokens: IntGaugeVec,
    hashing: Histogram,
    chaining: Histogram,
    scheduling: Histogram,
    total: Histogram,
    gaps: IntCounter,
    recoveries: IntCounter,
    sources: IntGauge,
}

/// Series of the router of one pool.
#[derive(Debug)]
pub(crate) struct PoolMetrics {
    hit_rate: Histogram,
    applied: IntCounterVec,
    not_best: IntCounter,
    blocks_lost: Histogram,
    received: IntCounter,
    rejected: IntCounter,
    backpressure: IntCounter,
    waiting: IntGauge,
    waiting_tokens: IntGauge,
    hashing: Histogram,
    chaining: Histogram,
    scheduling: Histogram,
    total: Histogram,
}

impl KvMetrics {
    #[rustfmt::skip]
    pub(super) fn new(make: &Make<'_>, instance: u64) -> Result<Self, prometheus::Error> {
        let component = |name: &str| format!("dynamo_component_{name}");
        let step = |name: &str, help: &str| make.histogram(&format!("dynamo_router_overhead_{name}_ms"), help, &STEP_MS);
        let pool = |name: &str, help: &str| make.counters(&make.own(name), help, &["worker_type"]);
        let level = |name: &str, help: &str| make.gauges(&make.own(name), help, &["worker_type"]);
        Ok(Self {
            instance,
            hit_rate: make.histograms(&component("router_kv_hit_rate"), "Share of a prompt that the chosen worker has cached", &SHARES, &LABELS)?,
            applied: make.counters(&component("kv_cache_events_applied"), "KV events by what became of them", &["event_type", "status"])?,
            not_best: make.counters(&component("router_non_max_overlap_selections_total"), "Requests that went to a worker with fewer cached blocks than another has", &LABELS)?,
            blocks_lost: make.histograms(&component("router_overlap_blocks_lost"), "Cached blocks that such requests gave up", &BLOCKS, &LABELS)?,
            received: pool("router_admission_received_total", "Requests that the router was asked for")?,
            rejected: pool("router_admission_rejected_total", "Requests that the router found no worker for")?,
            backpressure: pool("router_queue_backpressure_total", "Requests that had to wait in the router's queue")?,
            waiting: level("router_queue_pending_requests", "Requests in the router's queue")?,
            waiting_tokens: level("router_queue_pending_isl_tokens", "Prompt tokens in the router's queue")?,
            hashing: step("block_hashing", "Milliseconds for the hashes of a prompt's blocks")?,
            chaining: step("seq_hashing", "Milliseconds for the hashes of a prompt's sequence")?,
            scheduling: step("scheduling", "Milliseconds for the lookup and the choice of a worker")?,
            total: step("total", "Milliseconds that the router took for a request, its queue left out")?,
            gaps: make.counter("dynosim_router_kv_event_gaps_total", "Batches of KV events with others missing before them")?,
            recoveries: make.counter("dynosim_router_kv_recoveries_total", "Answers of workers that told missed KV events")?,
            sources: make.gauge("dynosim_router_kv_sources", "Ranks whose cached blocks are known")?,
        })
    }

    /// The series of a pool's router.
    pub(crate) fn pool(&self, phase: Phase) -> PoolMetrics {
        let (router, worker) = (self.instance.to_string(), format!("{:x}", self.instance));
        let labels = [router.as_str(), worker.as_str(), phase.label()];
        let kind = [phase.label()];
        PoolMetrics {
            hit_rate: self.hit_rate.with_label_values(&labels),
            applied: self.applied.clone(),
            not_best: self.not_best.with_label_values(&labels),
            blocks_lost: self.blocks_lost.with_label_values(&labels),
            received: self.received.with_label_values(&kind),
            rejected: self.rejected.with_label_values(&kind),
            backpressure: self.backpressure.with_label_values(&kind),
            waiting: self.waiting.with_label_values(&kind),
            waiting_tokens: self.waiting_tokens.with_label_values(&kind),
            hashing: self.hashing.clone(),
            chaining: self.chaining.clone(),
            scheduling: self.scheduling.clone(),
            total: self.total.clone(),
        }
    }

    /// Events are missing.
    pub(crate) fn gap(&self) {
        self.gaps.inc();
    }

    /// The cached blocks of a rank are known from now on, or not any more.
    pub(crate) fn known(&self, known: bool) {
        self.sources.add(if known { 1 } else { -1 });
    }

    /// A worker told what was missing.
    pub(crate) fn recovered(&self) {
        self.recoveries.inc();
    }
}

impl PoolMetrics {
    /// The router is asked for a worker.
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    /// It found none.
    pub(crate) fn rejected(&self) {
        self.rejected.inc();
    }

    /// The request has to wait.
    pub(crate) fn backpressure(&self) {
        self.backpressure.inc();
    }

    /// What waits has changed; pools of several models add up.
    pub(crate) fn waiting(&self, before: Waiting, now: Waiting) {
        self.waiting.add(now.requests as i64 - before.requests as i64);
        self.waiting_tokens.add(now.tokens as i64 - before.tokens as i64);
    }

    /// Hashes were made: of blocks, and of the sequence.
    pub(crate) fn hashed(&self, blocks: Duration, sequence: Duration) {
        self.hashing.observe(milliseconds(blocks));
        self.chaining.observe(milliseconds(sequence));
    }

    /// The router has decided, or let the request wait.
    pub(crate) fn scheduled(&self, choice: Duration, all: Duration) {
        self.scheduling.observe(milliseconds(choice));
        self.total.observe(milliseconds(all));
    }

    /// A worker was chosen.
    pub(crate) fn chosen(&self, placed: &Placed, tokens: usize, block_size: usize) {
        let found = placed.decision.matched.device;
        let cached = f64::from(found) * block_size as f64;
        self.hit_rate.observe((cached / tokens.max(1) as f64).min(1.0));
        let most = placed.candidates.iter().map(|candidate| candidate.matched.device).max().unwrap_or(found);
        if most > found {
            self.not_best.inc();
            self.blocks_lost.observe(f64::from(most - found));
        }
    }

    /// An event was applied, or not.
    pub(crate) fn applied(&self, kind: &str, status: &str) {
        self.applied.with_label_values(&[kind, status]).inc();
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
