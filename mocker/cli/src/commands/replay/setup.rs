//! From flags to a workload and a configuration, everything checked before anything runs.

use dynosim_engine::Horizon;
use dynosim_replay::ReplayConfig;
use dynosim_workload::{Workload, WorkloadError};

use super::engines::Engines;
use super::flags::Flags;
use super::graph;
use super::router::{RouterArgs, explained};
use crate::commands::run::{BlockSize, admission, span};
use crate::failure::Failure;
use crate::printer::Printer;

/// All that a run needs.
pub(crate) struct Setup {
    pub(crate) config: ReplayConfig,
    pub(crate) workload: Box<dyn Workload>,
}

impl Setup {
    pub(crate) fn new(flags: &Flags, printer: Printer) -> Result<Self, Failure> {
        let (engines, router) = match &flags.file {
            Some(manifest) => graph::read(manifest, flags, printer)?,
            None => (Engines::of_flags(flags, printer)?, RouterArgs::of_flags(flags)?),
        };
        let fleet = engines.fleet()?;
        let args = &engines.first().args;
        let admission = admission(flags.replay_concurrency)?;
        let end = flags.max_sim_time_seconds.map(|s| span("--max-sim-time-seconds", s)).transpose()?;
        let config = ReplayConfig {
            fleet,
            routing: router.routing(flags, engines.first())?,
            admission,
            end,
            sla: flags.sla.check()?,
            records: flags.output.report_jsonl.is_some(),
            kv_eviction_policy: args.eviction_name(),
            reasoning: engines.last().args.reasoning,
            horizon: Horizon::Run,
            explain: explained(flags)?,
        };
        if flags.check_determinism && flags.workload.is_pipe() {
            return Err(Failure::input("--check-determinism: reads the trace twice, so it needs a file and no pipe"));
        }
        let block_size = BlockSize { trace: args.block_size, synthetic: args.block_size };
        let workload = flags.workload.open(block_size, config.admission, printer, refused)?;
        Ok(Self { config, workload })
    }
}

/// The block size is the one option of a workload that is no flag of its own here.
fn refused(error: WorkloadError) -> Failure {
    match error {
        WorkloadError::Option(error) if error.name == "block_size" => {
            Failure::input(format_args!("--extra-engine-args: {error}"))
        }
        error => error.into(),
    }
}
