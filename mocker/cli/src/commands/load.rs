//! `dynosim load`: a workload against any OpenAI endpoint.

use crate::failure::Failure;

/// Send a trace or a synthetic workload to an OpenAI endpoint
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {}

/// Sends the workload and reports.
pub(crate) fn run(_flags: &Flags) -> Result<(), Failure> {
    todo!()
}
