//! `dynosim up`: a serving graph from its manifest, on this machine.

use crate::failure::Failure;

/// Run the serving graphs of a manifest on this machine
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {}

/// Runs until told to stop.
pub(crate) fn run(_flags: &Flags) -> Result<(), Failure> {
    todo!()
}
