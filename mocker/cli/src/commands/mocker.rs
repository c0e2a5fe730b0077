//! `dynosim mocker`: a simulated worker on Dynamo's wire contract.

mod elsewhere;
mod engine;
mod flags;
mod fleet;
mod settings;
mod simulated;
mod system;

pub(crate) use flags::Flags;
pub(crate) use simulated::{Simulated, simulated};

use dynosim_wire::discovery::MemStore;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::live::{Env, Running, run_component};

/// Runs until told to stop.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let env = Env::of_process();
    run_component(&env, async |stop| start(flags.clone(), &env, None, &stop).await)
}

/// Starts the workers in this process; `mem` is the store that they share with others, if there is one. What comes back
/// is when all of them can be found, or those that there are when it is told to stop.
pub(crate) async fn start(
    flags: Flags,
    env: &Env,
    mem: Option<&MemStore>,
    stop: &CancellationToken,
) -> Result<Box<dyn Running>, Failure> {
    let settings = settings::resolve(&flags, env, mem)?;
    Ok(Box::new(fleet::Fleet::start(settings, stop).await?))
}
