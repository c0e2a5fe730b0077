//! Trace formats, synthetic generators and sessions.
//!
//! ```text
//!   file ──► Lines ──► Decoder ──► Scan (every row checked, index if needed)
//!                        │
//!                        └──► Trace ──┐ peek, take
//!                                     ├──────────────► Turn + hashes of its full engine blocks ──► replay
//!   SyntheticOptions ──► Synthetic ───┘ next_delay, take_next
//!
//!   GenerateOptions ──► generate ──► file          Workload ──► TraceStats
//!
//!   open: mooncake, mooncake-delta, azure ──► Trace        applied_compute_agentic ──► AppliedTrace
//!         agentic_mooncake, dynamo ──► Graph ──► GraphTrace (who waits for whom; Progress: what may be sent)
//! ```
//!
//! Invariants:
//! - a bad row is reported when a trace is opened, with file, line, field, value and what is allowed;
//! - memory is bounded by the index of a trace and the sessions in their pause, never by prompts;
//! - two prompts have equal hashes exactly as far as their tokens are equal, whatever the block sizes;
//! - equal options give equal requests: random draws come from streams named by seed and purpose.
//!
//! Not here: when a completed turn's successor is sent (the replay loop's clock), tokens, reports.

mod agentic;
mod applied;
pub mod azure;
pub mod convert;
mod decode;
mod delta;
mod dynamo;
pub mod error;
pub mod format;
pub mod generate;
mod graph;
mod graph_trace;
mod index;
mod lines;
mod mooncake;
mod names;
pub mod open;
mod progress;
mod prompt;
mod random;
pub mod rechunk;
pub mod row;
mod scan;
mod source;
pub mod stats;
pub mod synthetic;
pub mod trace;
mod values;
pub mod workload;

pub use convert::{ConvertError, ConvertOptions, Converted, convert, convert_bytes};
pub use error::{OptionError, RowError, WorkloadError};
pub use format::TraceFormat;
pub use generate::{GenerateError, GenerateOptions, LoopKind, generate};
pub use index::Arrivals;
pub use lines::MAX_LINE_BYTES;
pub use open::{OpenOptions, Opened, open, open_bytes};
pub use rechunk::{BlockSizes, rechunk};
pub use row::{Excess, Row, RowRules};
pub use stats::{LengthStats, TraceStats};
pub use synthetic::{SessionArrivals, SharedPrefix, Synthetic, SyntheticOptions};
pub use trace::{Trace, TraceOptions};
pub use workload::{Ending, Part, Turn, Workload};
