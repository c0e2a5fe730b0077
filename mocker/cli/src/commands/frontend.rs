//! `dynosim frontend`: an OpenAI server in front of workers.

use dynosim_wire::discovery::MemStore;

use crate::failure::Failure;
use crate::live::{Env, Running, run_component};

/// Serve the OpenAI API in front of workers
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    runtime: crate::live::RuntimeFlags,
}

/// Runs until told to stop.
pub(crate) fn run(flags: Flags) -> Result<(), Failure> {
    let env = Env::of_process();
    run_component(&env, start(flags, &env, None))
}

/// Starts the server in this process; `mem` is the store that it shares with others, if there is one.
pub(crate) async fn start(_flags: Flags, _env: &Env, _mem: Option<&MemStore>) -> Result<Box<dyn Running>, Failure> {
    todo!()
}
