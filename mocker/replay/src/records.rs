//! One row per request, for `--report-jsonl`.

use dynosim_engine::{Nanos, Reasoning};
use serde::Serialize;

use crate::live::{Course, Live};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TerminalStatus {
    /// All output was made.
    Completed,
    /// No worker could ever have run it.
    Rejected,
    /// The run ended before it did (`--max-sim-time-seconds`).
    Canceled,
    /// It broke off; only in measured runs.
    Failed,
}

/// One request. Times in milliseconds since the start of the run; null where the request did not get so far, or where
/// a run of one pool has no such moment.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Session it belongs to.
    pub session_id: String,
    /// Number within the session, from 0.
    pub turn_index: u32,
    /// Number of the request in the order of the input, as a UUID, so that rows of two runs can be joined.
    pub uuid: String,
    /// When it was sent.
    pub arrival_time_ms: f64,
    /// When it first entered a running batch.
    pub first_admit_ms: Option<f64>,
    /// When its first token came.
    pub first_token_ms: Option<f64>,
    /// When its last token came.
    pub last_token_ms: Option<f64>,
    /// `first_token_ms - arrival_time_ms`.
    pub ttft_ms: Option<f64>,
    /// Second token after the first.
    pub ttst_ms: Option<f64>,
    /// `last_token_ms - arrival_time_ms`.
    pub e2e_latency_ms: Option<f64>,
    /// Mean time between its tokens.
    pub itl_ms: Option<f64>,
    /// Prompt tokens.
    pub input_length: u32,
    /// Output tokens made.
    pub output_length: u32,
    /// Prompt tokens found in the prefix cache at the last admission.
    pub reused_input_tokens: u32,
    /// Worker of a prefill pool.
    pub prefill_worker_idx: Option<u32>,
    /// Worker that made the output.
    pub decode_worker_idx: Option<u32>,
    /// Prefill pool: first admission.
    pub prefill_admit_ms: Option<f64>,
    /// Prefill pool: KV held for the transfer.
    pub source_held_ms: Option<f64>,
    /// Decode pool: blocks reserved.
    pub destination_reserved_ms: Option<f64>,
    /// Decode pool: KV arrived.
    pub destination_activated_ms: Option<f64>,
    /// Decode pool: first admission.
    pub decode_admit_ms: Option<f64>,
    /// Prefill pool: KV released.
    pub source_released_ms: Option<f64>,
    /// Decode pool: prompt tokens that were there already.
    pub decode_reused_input_tokens: Option<u32>,
    /// Overlap that the router saw on the prefill side.
    pub prefill_route_overlap_tokens: Option<u32>,
    /// Overlap that the router saw on the decode side.
    pub decode_route_overlap_tokens: Option<u32>,
    /// Output tokens inside the reasoning span, if the engine emits one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_output_tokens: Option<u32>,
    /// How it ended.
    pub terminal_status: TerminalStatus,
    /// Why it was rejected, or why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<String>,
}

impl Record {
    pub(crate) fn new(
        live: &Live,
        session_id: String,
        terminal_status: TerminalStatus,
        rejection: Option<String>,
        reasoning: Option<&Reasoning>,
    ) -> Self {
        let ms = |at: Nanos| at.as_ms();
        let first = (live.tokens > 0).then_some(live.first_token);
        let last = (live.tokens > 0).then_some(live.last_token);
        let more = live.tokens > 1;
        let Course { prefill_worker, prefill_overlap, held, reserved, activated, decode_admit, decode_cached, .. } =
            live.course;
        Self {
            session_id,
            turn_index: live.turn.turn,
            uuid: uuid_of(live.turn.row),
            arrival_time_ms: ms(live.arrival),
            first_admit_ms: live.first_admit.map(ms),
            first_token_ms: first.map(ms),
            last_token_ms: last.map(ms),
            ttft_ms: first.map(|at| ms(at - live.arrival)),
            ttst_ms: more.then(|| ms(live.second_token - live.first_token)),
            e2e_latency_ms: last.map(|at| ms(at - live.arrival)),
            itl_ms: more.then(|| ms(live.last_token - live.first_token) / f64::from(live.tokens - 1)),
            input_length: live.turn.input_tokens,
            output_length: live.tokens,
            reused_input_tokens: live.last_cached,
            prefill_worker_idx: prefill_worker,
            decode_worker_idx: live.worker.filter(|_| terminal_status != TerminalStatus::Rejected),
            prefill_admit_ms: prefill_worker.and(live.first_admit).map(ms),
            source_held_ms: held.map(ms),
            destination_reserved_ms: reserved.map(ms),
            destination_activated_ms: activated.map(ms),
            decode_admit_ms: decode_admit.map(ms),
            source_released_ms: activated.map(ms),
            decode_reused_input_tokens: decode_cached,
            prefill_route_overlap_tokens: prefill_overlap,
            decode_route_overlap_tokens: live.overlap,
            reasoning_output_tokens: reasoning.map(|reasoning| reasoning.thinking_tokens(live.tokens)),
            terminal_status,
            rejection,
        }
    }
}

/// The UUID of the `row`-th request of the input (version 8: the number is its content).
pub(crate) fn uuid_of(row: u64) -> String {
    let low = row & 0x3FFF_FFFF_FFFF_FFFF;
    format!("00000000-0000-8000-{:04x}-{:012x}", 0x8000 | (low >> 48), low & 0xFFFF_FFFF_FFFF)
}

/// The number of the request behind a UUID of [`Record::uuid`].
pub fn row_of_uuid(uuid: &str) -> Option<u64> {
    let low = uuid.strip_prefix("00000000-0000-8000-")?.split_once('-')?;
    let (high, low) = (u64::from_str_radix(low.0, 16).ok()?, u64::from_str_radix(low.1, 16).ok()?);
    let row = (high & 0x3FFF) << 48 | low;
    (uuid_of(row) == uuid).then_some(row)
}

/// Sorts rows by arrival, then UUID.
pub(crate) fn sort(records: &mut [Record]) {
    records.sort_by(|a, b| a.arrival_time_ms.total_cmp(&b.arrival_time_ms).then_with(|| a.uuid.cmp(&b.uuid)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_well_formed_and_keep_the_order_of_rows() {
        assert_eq!(uuid_of(0), "00000000-0000-8000-8000-000000000000");
        assert_eq!(uuid_of(255), "00000000-0000-8000-8000-0000000000ff");
        assert!(uuid_of(1 << 49) > uuid_of(3));
        for row in [0, 255, 1 << 49] {
            assert_eq!(row_of_uuid(&uuid_of(row)), Some(row));
        }
        assert_eq!(row_of_uuid("00000000-0000-8000-8000-0000000000FF"), None);
        assert_eq!(row_of_uuid("255"), None);
    }
}
