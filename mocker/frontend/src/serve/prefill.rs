//! The prefill half of a disaggregated request.

use std::time::Duration;

use dynosim_wire::protocol::{BootstrapInfo, EngineOutput, FinishReason, PrefillResult, PreprocessedRequest};
use serde_json::{Value, json};
use tokio::time::timeout;
use uuid::Uuid;

use super::dispatch::Sent;
use super::leg::{Item, item};
use crate::models::Worker;

/// A prefill that is awaited may take that long, its time in the worker's queue included.
const PREFILL_TIMEOUT: Duration = Duration::from_mins(10);
/// When decode has failed, prefill gets that long to say whether it was the cause.
const VERDICT_TIMEOUT: Duration = Duration::from_secs(1);
/// When decode is complete, prefill gets that long to end by itself.
const TAIL_TIMEOUT: Duration = Duration::from_secs(5);

/// A prefill at work beside its decode.
#[derive(Debug)]
pub(crate) struct Prefill {
    pub(crate) sent: Sent,
    /// Prompt tokens that its cache had, once it has said so.
    pub(crate) cached: Option<u32>,
}

impl Prefill {
    /// A prefill that a worker has taken.
    pub(crate) fn new(sent: Sent) -> Self {
        Self { sent, cached: None }
    }

    fn note(&mut self, output: EngineOutput) -> EngineOutput {
        let details = output.completion_usage.as_ref().and_then(|usage| usage.prompt_tokens_details.as_ref());
        self.cached = details.and_then(|details| details.cached_tokens).or(self.cached);
        output
    }

    /// Waits for its end; the reason if it failed.
    pub(crate) async fn ended(&mut self) -> Result<(), String> {
        loop {
            match item(self.sent.stream.next().await) {
                Item::Output(output) => match self.note(output).finish_reason {
                    Some(FinishReason::Error(reason)) => return Err(reason),
                    Some(FinishReason::Cancelled) => return Err("it was cancelled at the worker".to_owned()),
                    _ => {}
                },
                Item::Nothing => {}
                Item::End => return Ok(()),
                Item::Lost(reason) | Item::Failed(reason) => return Err(reason),
            }
        }
    }

    /// Its failure, if it was the cause of decode's.
    pub(crate) async fn verdict(&mut self) -> Option<String> {
        timeout(VERDICT_TIMEOUT, self.ended()).await.ok()?.err()
    }

    /// Lets it end by itself: to drop it now would look like a cancellation to the worker.
    pub(crate) fn end_later(mut self) {
        tokio::spawn(async move { timeout(TAIL_TIMEOUT, self.ended()).await });
    }

    /// Waits for what decode needs from it.
    pub(crate) async fn result(mut self) -> Result<PrefillResult, String> {
        let read = async {
            let mut result = None;
            loop {
                match item(self.sent.stream.next().await) {
                    Item::Output(output) => match output.finish_reason {
                        Some(FinishReason::Error(reason)) => return Err(reason),
                        _ => result = result.or_else(|| result_of(output)),
                    },
                    Item::Nothing => {}
                    Item::End => return result.ok_or_else(|| "it ended without a result".to_owned()),
                    Item::Lost(reason) | Item::Failed(reason) => return Err(reason),
                }
            }
        };
        let late = |_| format!("no result within {} s", PREFILL_TIMEOUT.as_secs());
        timeout(PREFILL_TIMEOUT, read).await.map_err(late)?
    }
}

fn result_of(output: EngineOutput) -> Option<PrefillResult> {
    let details = output.completion_usage.and_then(|usage| usage.prompt_tokens_details);
    Some(PrefillResult {
        disaggregated_params: output.disaggregated_params?,
        prompt_tokens_details: details.and_then(|details| serde_json::to_value(details).ok()),
    })
}

/// What prefill is asked: the same request, for one token. The prompt moves over; it must be given back.
pub(crate) fn prefill_request(request: &mut PreprocessedRequest) -> PreprocessedRequest {
    let token_ids = std::mem::take(&mut request.token_ids);
    let mut prefill = PreprocessedRequest { token_ids, ..request.clone() };
    prefill.stop_conditions.max_tokens = Some(1);
    prefill.stop_conditions.min_tokens = None;
    prefill.annotations.clear();
    prefill
}

/// Where a prefill worker and whoever decodes meet.
pub(crate) fn meeting(worker: &Worker) -> Option<BootstrapInfo> {
    let bootstrap = worker.bootstrap.as_ref()?;
    Some(BootstrapInfo {
        bootstrap_host: bootstrap.host.clone(),
        bootstrap_port: bootstrap.port,
        // Half of another unique number, positive for peers with signed numbers.
        bootstrap_room: Uuid::new_v4().as_u64_pair().1 >> 1,
        handoff_id: Some(Uuid::new_v4()),
    })
}

/// What the published router tells decode workers after a prefill: the prompt is not to be counted twice.
pub(crate) fn decode_override() -> Value {
    json!({
        "overlap_score_credit": 0.0,
        "prefill_load_scale": null,
        "router_temperature": null,
        "assume_kv_reuse": false,
        "track_prefill_tokens": false,
        "shared_cache_multiplier": null,
    })
}
