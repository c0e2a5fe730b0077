//! What commands that run a workload have in common.

mod output;
mod range;
mod sla;
mod workload;

pub(crate) use output::OutputFlags;
pub(crate) use range::{admission, out_of_range, span, within};
pub(crate) use sla::SlaFlags;
pub(crate) use workload::{BlockSize, NO_HASH_IDS, WorkloadFlags};
