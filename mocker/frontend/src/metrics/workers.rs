//! The last figures of each worker.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use dynosim_wire::card::WorkerType;
use prometheus::{Gauge, GaugeVec};

use super::families::Make;

const LABELS: [&str; 3] = ["dp_rank", "worker_id", "worker_type"];
/// The rank is the worker's own choice.
const NO_RANK: &str = "none";

/// Series of one worker.
#[derive(Clone, Debug)]
pub(crate) struct WorkerGauges {
    /// Seconds until the first output of the last request.
    pub(crate) ttft: Gauge,
    /// Seconds between the last tokens.
    pub(crate) itl: Gauge,
    /// Tokens of the last prompt.
    pub(crate) input: Gauge,
}

/// Series of all workers.
#[derive(Debug)]
pub(crate) struct Workers {
    ttft: GaugeVec,
    itl: GaugeVec,
    input: GaugeVec,
    known: Mutex<BTreeMap<(u64, &'static str), WorkerGauges>>,
}

impl Workers {
    pub(super) fn new(make: &Make<'_>) -> Result<Self, prometheus::Error> {
        let gauges = |name: &str, help: &str| make.float_gauges(&make.own(name), help, &LABELS);
        Ok(Self {
            ttft: gauges("worker_last_time_to_first_token_seconds", "Last time to first token of a worker")?,
            itl: gauges("worker_last_inter_token_latency_seconds", "Last time between tokens of a worker")?,
            input: gauges("worker_last_input_sequence_tokens", "Tokens of the last prompt of a worker")?,
            known: Mutex::default(),
        })
    }

    /// The series of a worker.
    pub(crate) fn of(&self, id: u64, kind: WorkerType) -> WorkerGauges {
        // A worker that does everything counts as one that decodes (as published).
        let kind = if kind == WorkerType::Prefill { "prefill" } else { "decode" };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let id = id.to_string();
            let labels = [NO_RANK, &id, kind];
            WorkerGauges {
                ttft: self.ttft.with_label_values(&labels),
                itl: self.itl.with_label_values(&labels),
                input: self.input.with_label_values(&labels),
            }
        };
        known.entry((id, kind)).or_insert_with(made).clone()
    }

    /// Forgets workers that have gone.
    pub(super) fn keep(&self, there: impl Fn(u64) -> bool) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).retain(|(id, kind), _| {
            let keep = there(*id);
            if !keep {
                let id = id.to_string();
                for gauges in [&self.ttft, &self.itl, &self.input] {
                    // It may have no such series, which is as good.
                    let _ = gauges.remove_label_values(&[NO_RANK, &id, kind]);
                }
            }
            keep
        });
    }
}
