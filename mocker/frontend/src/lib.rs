//! The `OpenAI` HTTP server in front of workers.
//!
//! ```text
//!   client ──HTTP──► http ──► text (template, tokenizer) ──► models ──► route ──► request plane ──► worker
//!          ◄──SSE── http ◄── text (detokenizer, stops) ◄── migration ◄── response plane ◄──────────┘
//! ```

mod config;
mod frontend;
#[doc(hidden)]
pub mod fuzzing;
mod generate;
mod http;
mod kv;
mod metrics;
mod migrate;
mod models;
mod openai;
mod route;
mod serve;
mod text;

pub use config::{
    BucketRange, Buckets, DEFAULT_GRACE, DEFAULT_IDLE_LIMIT, DEFAULT_METRICS_PREFIX, DEFAULT_SEED, FrontendConfig,
    KvConfig, MAX_BUCKETS, MigrationConfig, NamespaceScope, RoutingMode,
};
pub use frontend::{Frontend, FrontendError};
