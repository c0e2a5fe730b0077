//! A worker of a graph whose run is calculated.

use dynosim_engine::{EngineArgs, Role, Timing};
use dynosim_wire::card::ModelFiles;
use dynosim_worker::live_timing;

use super::engine;
use super::flags::Flags;
use super::settings::{WORKERS_MAX, check_effects, mode, with_kv_bytes, within};
use crate::failure::Failure;

/// What a calculation needs to know of the workers of a process.
pub(crate) struct Simulated {
    /// The same for all of them.
    pub(crate) args: EngineArgs,
    /// As live: a speed-up of 0 means that passes take no time.
    pub(crate) timing: Timing,
    pub(crate) workers: u32,
    pub(crate) model_name: String,
}

/// Reads flags as `dynosim mocker` does; those about the network decide nothing in a calculation.
pub(crate) fn simulated(flags: &Flags) -> Result<Simulated, Failure> {
    flags.elsewhere.refuse()?;
    let args = engine::args(flags, mode(flags)?)?;
    let workers = within("--num-workers", flags.num_workers.unwrap_or(1), WORKERS_MAX)?;
    check_effects(flags, &args)?;
    let Some(path) = &flags.model_path else { return Err(Failure::input("--model-path: is needed")) };
    let read = &mut |path: &std::path::Path| std::fs::read(path);
    let timing =
        live_timing(&args, read).map_err(|error| Failure::input(format_args!("--planner-profile-data: {error}")))?;
    let args = match args.worker_type {
        Role::Aggregated => args,
        Role::Prefill | Role::Decode => {
            let model =
                ModelFiles::open(path).map_err(|error| Failure::input(format_args!("--model-path: {error}")))?;
            with_kv_bytes(args, flags, &model)?
        }
    };
    let model_name = flags.model_name.clone().unwrap_or_else(|| path.clone());
    Ok(Simulated { args, timing, workers, model_name })
}
