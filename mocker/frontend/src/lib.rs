//! The `OpenAI` HTTP server in front of workers.
//!
//! ```text
//!   client ──HTTP──► http ──► text (template, tokenizer) ──► models ──► route ──► request plane ──► worker
//!          ◄──SSE── http ◄── text (detokenizer, stops) ◄── migration ◄── response plane ◄──────────┘
//! ```

#[doc(hidden)]
pub mod fuzzing;
mod generate;
mod http;
mod openai;
mod text;
