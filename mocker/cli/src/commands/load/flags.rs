//! Flags of `dynosim load`: those of `dynosim replay` that say what is sent and what is reported, and the server's.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use clap::{ArgAction, Args, ValueEnum};
use dynosim_load::limits::CONNECTIONS_DEFAULT;

use crate::commands::run::{OutputFlags, SlaFlags, WorkloadFlags};

/// The route that requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EndpointKind {
    /// /v1/completions: prompts are exactly those of the workload
    Completions,
    /// /v1/chat/completions: the server's template adds tokens around the prompt
    Chat,
}

/// How prompts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PromptKind {
    /// Token ids: exact with any tokenizer
    Tokens,
    /// One letter per token: exact where a byte is a token
    Text,
}

/// Sends a trace, or a synthetic workload, to an OpenAI endpoint and reports latencies and throughput
#[derive(Debug, Args)]
#[command(after_help = "Either a trace file, or all of --input-tokens, --output-tokens, and --request-count")]
pub(crate) struct Flags {
    /// The server, as http://HOST:PORT; a path before /v1 may follow [env: DYNOSIM_URL]
    #[arg(long, help_heading = "Server")]
    pub(crate) url: Option<String>,
    /// Model that requests name [default: the first of /v1/models]
    #[arg(long, help_heading = "Server")]
    pub(crate) model: Option<String>,
    /// Route that requests go to
    #[arg(long, value_enum, default_value_t = EndpointKind::Completions, help_heading = "Server")]
    pub(crate) endpoint: EndpointKind,
    /// How prompts are written [default: tokens for completions, text for chat]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Server")]
    pub(crate) prompt_format: Option<PromptKind>,
    /// Token ids are below this [default: 256]
    #[arg(long, help_heading = "Server")]
    pub(crate) vocabulary: Option<u32>,
    /// Ask for answers token by token
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set, help_heading = "Server")]
    pub(crate) stream: bool,
    /// Header field for every request, may be repeated
    #[arg(long, value_name = "NAME: VALUE", help_heading = "Server")]
    pub(crate) header: Vec<String>,
    /// Most connections open at once, each with one request
    #[arg(long, default_value_t = CONNECTIONS_DEFAULT, help_heading = "Server")]
    pub(crate) connections: u32,
    /// A request that takes longer fails
    #[arg(long, default_value_t = 600.0, help_heading = "Server")]
    pub(crate) timeout_seconds: f64,
    /// Requests with prompts of their own before the run, not counted
    #[arg(long, default_value_t = 0, help_heading = "Server")]
    pub(crate) warmup_requests: u32,

    /// What is sent
    #[command(flatten)]
    pub(crate) workload: WorkloadFlags,
    /// Tokens per block, of which prefix groups share whole ones: that of the server [default: 64]
    #[arg(long, help_heading = "Workload: synthetic")]
    pub(crate) block_size: Option<u32>,

    /// Keep so many sessions in flight and ignore arrival times
    #[arg(long)]
    pub(crate) replay_concurrency: Option<u32>,
    /// Stop at this time, whatever is in flight
    #[arg(long, visible_alias = "max-time-seconds")]
    pub(crate) max_sim_time_seconds: Option<f64>,

    /// Limits of a good request
    #[command(flatten)]
    pub(crate) sla: SlaFlags,

    /// Report files
    #[command(flatten)]
    pub(crate) output: OutputFlags,
    /// Print errors only
    #[arg(long, short, help_heading = "Output")]
    pub(crate) quiet: bool,
}
