//! One row per request, for `--report-jsonl`.

use serde::Serialize;

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

/// The UUID of the `row`-th request of the input (version 8: the number is its content).
pub(crate) fn uuid_of(row: u64) -> String {
    let low = row & 0x3FFF_FFFF_FFFF_FFFF;
    format!("00000000-0000-8000-{:04x}-{:012x}", 0x8000 | (low >> 48), low & 0xFFFF_FFFF_FFFF)
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
    }
}
