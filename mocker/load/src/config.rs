//! Settings of a run.

use std::time::Duration;

use dynosim_engine::Nanos;
use dynosim_replay::{Admission, Sla};

use crate::target::Target;

/// The `OpenAI` route that requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `/v1/completions`: the prompt is exactly what the workload says.
    Completions,
    /// `/v1/chat/completions`: the server's chat template adds tokens around the prompt.
    Chat,
}

/// How prompts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptFormat {
    /// Token ids: exact lengths and block structure with any tokenizer. Only for [`Endpoint::Completions`].
    Tokens,
    /// Text of one byte per token: exact where a byte is a token, as in dynosim's built-in tokenizer.
    Text,
}

/// How answers come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// Token by token.
    Stream,
    /// In one piece: there is no time to first token then.
    Whole,
}

/// All settings of a run, checked by whoever makes them.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// The server.
    pub target: Target,
    /// The model that requests name.
    pub model: String,
    /// The route.
    pub endpoint: Endpoint,
    /// How prompts are written.
    pub format: PromptFormat,
    /// Token ids are below this; 2 or more.
    pub vocabulary: u32,
    /// How answers come.
    pub answering: Answering,
    /// Tokens per hash of the workload: the block size that it was opened with; 1 or more.
    pub block_size: u32,
    /// When requests are sent.
    pub admission: Admission,
    /// The run ends here, whatever is in flight.
    pub end: Option<Nanos>,
    /// A request that takes longer fails.
    pub timeout: Duration,
    /// Most connections open at once; 1 or more.
    pub connections: u32,
    /// Requests before the run, with prompts of their own, that count nowhere.
    pub warmup_requests: u32,
    /// Limits for goodput.
    pub sla: Sla,
    /// Keep a row per request.
    pub records: bool,
}
