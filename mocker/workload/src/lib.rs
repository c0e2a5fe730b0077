//! Trace formats, synthetic generators and sessions.

pub mod azure;
mod decode;
pub mod error;
pub mod format;
mod index;
mod lines;
mod mooncake;
mod prompt;
pub mod rechunk;
pub mod row;
mod scan;
mod source;
pub mod trace;
pub mod workload;

pub use error::{OptionError, RowError, WorkloadError};
pub use format::TraceFormat;
pub use index::Arrivals;
pub use lines::MAX_LINE_BYTES;
pub use rechunk::{BlockSizes, rechunk};
pub use row::{Excess, Row, RowRules};
pub use trace::{Trace, TraceOptions};
pub use workload::{Turn, Workload};
