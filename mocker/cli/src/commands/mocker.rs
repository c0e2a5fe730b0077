//! `dynosim mocker`: a simulated worker on Dynamo's wire contract.

use dynosim_wire::discovery::MemStore;

use crate::failure::Failure;
use crate::live::{Env, Running};

/// Serve a model with a simulated engine
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) runtime: crate::live::RuntimeFlags,
}

/// Runs until told to stop.
pub(crate) fn run(_flags: &Flags) -> Result<(), Failure> {
    todo!()
}

/// Starts the worker in this process; `mem` is the store that it shares with others, if there is one.
pub(crate) async fn start(_flags: Flags, _env: &Env, _mem: Option<&MemStore>) -> Result<Box<dyn Running>, Failure> {
    todo!()
}
