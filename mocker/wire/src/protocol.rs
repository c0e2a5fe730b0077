//! What a frontend asks of a worker and what it answers.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// When generation stops.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopConditions {
    /// Most output tokens.
    pub max_tokens: Option<u32>,
    /// Texts that end the output; the frontend watches for them.
    pub stop: Option<Vec<String>>,
    /// Further end tokens.
    pub stop_token_ids_hidden: Option<Vec<u32>>,
    /// Least output tokens.
    pub min_tokens: Option<u32>,
    /// Go on after an end token.
    pub ignore_eos: Option<bool>,
    /// Most reasoning tokens.
    pub max_thinking_tokens: Option<u32>,
}

/// How tokens are drawn. A simulated engine draws none, but peers want the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingOptions {
    /// Number of choices.
    pub n: Option<u8>,
    /// As in the `OpenAI` API.
    pub presence_penalty: Option<f32>,
    /// As in the `OpenAI` API.
    pub frequency_penalty: Option<f32>,
    /// As in the `OpenAI` API.
    pub temperature: Option<f32>,
    /// As in the `OpenAI` API.
    pub top_p: Option<f32>,
    /// As in vLLM.
    pub top_k: Option<i32>,
    /// As in the `OpenAI` API.
    pub seed: Option<i64>,
}

/// What the answer contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputOptions {
    /// Log probabilities per token.
    pub logprobs: Option<u32>,
    /// Of the prompt.
    pub prompt_logprobs: Option<u32>,
    /// Special tokens stay out of the text.
    pub skip_special_tokens: Option<bool>,
}

/// What the router decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoutingHints {
    /// The worker that decodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_instance_id: Option<u64>,
    /// The worker that prefills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_worker_id: Option<u64>,
    /// The worker that decodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_worker_id: Option<u64>,
    /// Rank of the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dp_rank: Option<u32>,
    /// Rank of the prefill worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_dp_rank: Option<u32>,
    /// Output tokens that the client expects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_output_tokens: Option<u32>,
    /// Scheduling priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Where prefill and decode meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapInfo {
    /// Host of the prefill worker.
    pub bootstrap_host: String,
    /// Its port.
    pub bootstrap_port: u16,
    /// Number of the meeting.
    pub bootstrap_room: u64,
    /// Name of the meeting: text in JSON, 16 bytes in `MessagePack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_id: Option<Uuid>,
}

/// What prefill gave, for a decode worker that was not told a meeting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrefillResult {
    /// Opaque parameters of the prefill worker.
    pub disaggregated_params: Value,
    /// Prompt tokens found in its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<Value>,
}

/// A request with its prompt as tokens. Fields that are not here are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PreprocessedRequest {
    /// Model name.
    pub model: String,
    /// The prompt.
    pub token_ids: Vec<u32>,
    /// When generation stops.
    pub stop_conditions: StopConditions,
    /// How tokens are drawn.
    pub sampling_options: SamplingOptions,
    /// What the answer contains.
    pub output_options: OutputOptions,
    /// End tokens of the model.
    pub eos_token_ids: Vec<u32>,
    /// Checksum of the model card.
    pub mdc_sum: Option<String>,
    /// Names of annotations that the client asked for.
    pub annotations: Vec<String>,
    /// What the router decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingHints>,
    /// Settings of the router for this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub router_config_override: Option<Value>,
    /// What prefill gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_result: Option<PrefillResult>,
    /// Where prefill and decode meet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_info: Option<BootstrapInfo>,
    /// When the frontend got it, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timestamp_ms: Option<f64>,
}

/// Token counts, as in the `OpenAI` API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionUsage {
    /// Prompt.
    pub prompt_tokens: u32,
    /// Output.
    pub completion_tokens: u32,
    /// Both.
    pub total_tokens: u32,
    /// How the prompt splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens_details: Option<PromptTokensDetails>,
    /// How the output splits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens_details: Option<CompletionTokensDetails>,
}

/// How the prompt splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptTokensDetails {
    /// Found in the prefix cache.
    #[serde(default)]
    pub cached_tokens: Option<u32>,
}

/// How the output splits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletionTokensDetails {
    /// Reasoning.
    #[serde(default)]
    pub reasoning_tokens: Option<u32>,
}

/// Why an output ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// An end token.
    Eos,
    /// The wanted number of tokens.
    Length,
    /// A stop text or token.
    Stop,
    /// It was cancelled.
    Cancelled,
    /// Content was filtered.
    #[serde(rename = "content_filter")]
    ContentFilter,
    /// It failed.
    Error(String),
}

/// What an output is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputType {
    /// Tokens of text.
    #[default]
    Text,
    /// Of another kind, which no simulated engine gives.
    #[serde(other)]
    Other,
}

/// Output tokens of a request, or its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EngineOutput {
    /// New tokens.
    pub token_ids: Vec<u32>,
    /// Their texts, if the worker detokenises.
    pub tokens: Option<Vec<Option<String>>>,
    /// Text, if the worker detokenises.
    pub text: Option<String>,
    /// What the output is.
    pub output_type: OutputType,
    /// Cumulative log probability.
    pub cum_log_probs: Option<f64>,
    /// Log probabilities.
    pub log_probs: Option<Vec<f64>>,
    /// Most likely tokens.
    pub top_logprobs: Option<Value>,
    /// Why it ended; none: it goes on.
    pub finish_reason: Option<FinishReason>,
    /// Choice.
    pub index: Option<u32>,
    /// What the prefill worker tells the decode worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disaggregated_params: Option<Value>,
    /// Token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_usage: Option<CompletionUsage>,
}

/// A value or what happened instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: serde::de::DeserializeOwned"))]
pub struct Annotated<T> {
    /// The value.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
    /// Number of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Kind of the event: `error`, or an annotation that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// Details of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<Vec<String>>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}

impl<T> Annotated<T> {
    /// A value.
    pub fn of(data: T) -> Self {
        Self { data: Some(data), id: None, event: None, comment: None, error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Codec;

    #[test]
    fn the_name_of_a_meeting_is_bytes_in_messagepack_and_text_in_json() {
        let handoff_id = Some(Uuid::from_u128(7));
        let info = BootstrapInfo { bootstrap_host: "h".into(), bootstrap_port: 1, bootstrap_room: 2, handoff_id };
        let packed = Codec::MessagePack.encode(&info).unwrap();
        let mut bytes = vec![0xc4, 16];
        bytes.extend(Uuid::from_u128(7).as_bytes());
        assert!(packed.windows(18).any(|window| window == bytes), "{packed:x?}");
        assert_eq!(Codec::MessagePack.decode::<BootstrapInfo>(&packed).unwrap(), info);
        let text = String::from_utf8(Codec::Json.encode(&info).unwrap()).unwrap();
        assert!(text.contains(r#""handoff_id":"00000000-0000-0000-0000-000000000007""#), "{text}");
        assert_eq!(Codec::Json.decode::<BootstrapInfo>(text.as_bytes()).unwrap(), info);
    }
}
