//! What the HTTP side asks of the serving side.

use std::time::{Duration, Instant};

use ::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use dynosim_wire::protocol::PreprocessedRequest;

use crate::generate::{GenerateError, Outputs};
use crate::text::TextModel;

/// Which of the two generating routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
}

impl Endpoint {
    /// Name in metrics, as published.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat_completions",
            Self::Completions => "completions",
        }
    }
}

/// How the client wants its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// One body at the end.
    Unary,
    /// Server-sent events.
    Stream,
}

impl Delivery {
    /// Name in metrics, as published.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Unary => "unary",
            Self::Stream => "stream",
        }
    }
}

/// One entry of `/v1/models`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedModel {
    /// Name that clients use.
    pub(crate) id: String,
    /// When it was first seen, seconds since 1970.
    pub(crate) created_s: u64,
    /// Tokens; 0: not limited.
    pub(crate) context_window: u32,
}

/// A page that the serving side writes: health, liveness, metrics.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Status.
    pub(crate) status: StatusCode,
    /// `Content-Type`.
    pub(crate) content_type: &'static str,
    /// Content.
    pub(crate) body: Bytes,
}

/// What goes with a request to the serving side.
#[derive(Debug)]
pub(crate) struct Call {
    /// The client's `x-request-id`, or a fresh UUID: the request's name on the wire and in logs.
    pub(crate) request_id: String,
    /// All headers of the client's request (tracing, and what routing may read).
    pub(crate) headers: HeaderMap,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The answer was complete.
    Complete,
    /// The request was refused before any work: status 400 to 422.
    Refused,
    /// The model is not known: 404.
    NotFound,
    /// No worker served it: 503.
    Unavailable,
    /// It failed at the workers: 500, or an error event in a stream that had begun.
    Failed,
    /// The client went away.
    Cancelled,
}

/// Watches one request; made when its body was read, dropped when it is over. Calls come in the order of the methods.
/// Dropped without `finish`, the client has gone (as [`Outcome::Cancelled`]).
pub(crate) trait Observer: Send + 'static {
    /// The prompt is ready for the workers.
    fn prepared(&mut self, prompt: Prepared);
    /// `count` tokens have come, at least 1. Called once per wake-up: the first call marks the first token.
    fn tokens(&mut self, count: u32, at: Instant);
    /// The request is over.
    fn finish(&mut self, end: Finished);
}

/// How a prompt was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Tokens of the prompt.
    pub(crate) prompt_tokens: u32,
    /// Time for the chat template; zero for a plain prompt.
    pub(crate) template: Duration,
    /// Time for the tokenizer.
    pub(crate) tokenize: Duration,
}

/// How a request ended, with its counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// How.
    pub(crate) outcome: Outcome,
    /// Tokens that came.
    pub(crate) output_tokens: u32,
    /// Prompt tokens that the worker's cache had, if it said so.
    pub(crate) cached_tokens: Option<u32>,
    /// Time spent on making text of tokens.
    pub(crate) detokenize: Duration,
}

/// The serving side: models, workers, metrics.
pub(crate) trait Service: Send + Sync + 'static {
    /// A model that can be asked now, cheap to clone (an `Arc`).
    type Model: AsRef<TextModel> + Clone + Send + Sync + 'static;
    /// Outputs of one request.
    type Outputs: Outputs + Send + 'static;
    /// Watcher of one request.
    type Observer: Observer;

    /// The model of that name, if it is served (or was: then `generate` says that no worker is there).
    fn model(&self, name: &str) -> Option<Self::Model>;
    /// What `/v1/models` lists, in order of names.
    fn models(&self) -> Vec<ListedModel>;
    /// A request to `model` begins; `received` is when its head was read. The name is the client's: it may be unknown,
    /// in which case metrics must not keep it.
    fn observe(&self, model: &str, endpoint: Endpoint, delivery: Delivery, received: Instant) -> Self::Observer;
    /// Sends a request to the workers. `model`, `token_ids`, `stop_conditions`, `sampling_options`, `output_options`,
    /// `eos_token_ids`, `annotations`, the client's part of `routing` and `request_timestamp_ms` are set;
    /// `mdc_sum` and what the router decides are not. A missing `max_tokens` stays missing: the worker decides what it is.
    fn generate(
        &self,
        model: &Self::Model,
        request: PreprocessedRequest,
        call: Call,
    ) -> impl Future<Output = Result<Self::Outputs, GenerateError>> + Send;
    /// Where a request that was generated for went, and what else it could have cost; none if nobody knows.
    fn routed(&self, request_id: &str) -> Option<String>;
    /// `/routing/explain`.
    fn explain(&self, query: Option<&str>) -> Page;
    /// `/health`.
    fn health(&self) -> Page;
    /// `/live`.
    fn live(&self) -> Page;
    /// `/metrics`.
    fn metrics(&self) -> Page;
}
