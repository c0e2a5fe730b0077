//! Trace formats, synthetic generators and sessions.

pub mod azure;
pub mod error;
pub mod format;
mod lines;
mod mooncake;
mod prompt;
pub mod rechunk;
pub mod row;
mod source;

pub use error::{OptionError, RowError, WorkloadError};
pub use format::TraceFormat;
pub use lines::MAX_LINE_BYTES;
pub use rechunk::{BlockSizes, rechunk};
pub use row::{Excess, Row, RowRules};
