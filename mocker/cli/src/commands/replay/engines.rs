//! Engines of all pools, from flags.

use std::path::Path;

use dynosim_engine::args::EngineType;
use dynosim_engine::{EngineArgs, Role, Timing};
use dynosim_replay::{Fleet, Pool};

use super::flags::Flags;
use crate::commands::run::{span, within};
use crate::failure::Failure;
use crate::printer::Printer;

/// Most workers of one run.
const WORKERS_MAX: u32 = 65_536;
/// Most KV blocks of all engines that keep a record per block (24 bytes).
const KV_BLOCKS_MAX: u64 = 1 << 28;

/// Engine arguments that mean something only to a live worker.
const LIVE: [&str; 7] = [
    "bootstrap_port",
    "emit_kv_events",
    "enable_local_indexer",
    "handoff_session_timeout_ms",
    "response_replay_trace_path",
    "zmq_kv_events_port",
    "zmq_replay_port",
];
/// Those about the way of KV, which the prefill worker knows.
const TRANSFER: [&str; 3] = ["kv_bytes_per_token", "kv_transfer_bandwidth", "kv_transfer_timing_mode"];

/// Workers of one kind.
#[derive(Clone, Debug)]
pub(crate) struct PoolArgs {
    pub(crate) args: EngineArgs,
    pub(crate) timing: Timing,
    pub(crate) workers: u32,
    /// What gave the arguments, for messages.
    pub(crate) source: String,
    /// What gave the number of workers, for messages.
    pub(crate) count: String,
}

/// All workers.
#[derive(Clone, Debug)]
pub(crate) enum Engines {
    Aggregated(Box<PoolArgs>),
    Disaggregated { prefill: Box<PoolArgs>, decode: Box<PoolArgs> },
}

impl Engines {
    /// What the flags say.
    pub(crate) fn of_flags(flags: &Flags, printer: Printer) -> Result<Self, Failure> {
        let staged = [
            ("--prefill-engine-args", flags.prefill_engine_args.is_some()),
            ("--decode-engine-args", flags.decode_engine_args.is_some()),
        ];
        match (&flags.prefill_engine_args, &flags.decode_engine_args) {
            (None, None) => Self::aggregated(flags),
            (Some(prefill), Some(decode)) => Self::disaggregated(flags, prefill, decode, printer),
            _ => {
                let given =
                    |wanted: bool| staged.iter().find(|(_, given)| *given == wanted).map_or("", |(flag, _)| flag);
                Err(Failure::input(format_args!("{}: needs {}", given(true), given(false))))
            }
        }
    }

    fn aggregated(flags: &Flags) -> Result<Self, Failure> {
        let staged =
            [("--num-prefill-workers", flags.num_prefill_workers), ("--num-decode-workers", flags.num_decode_workers)];
        if let Some((flag, _)) = staged.iter().find(|(_, given)| given.is_some()) {
            return Err(Failure::input(format_args!("{flag}: needs --prefill-engine-args and --decode-engine-args")));
        }
        let text = flags.extra_engine_args.as_deref().unwrap_or("{}");
        let pool = PoolArgs::read("--extra-engine-args", text, "--num-workers", flags.num_workers)?;
        if pool.args.worker_type != Role::Aggregated {
            return Err(pool.refuse("worker_type: workers of one pool do prefill and decode; for two pools give --prefill-engine-args and --decode-engine-args"));
        }
        pool.refuse_given(&LIVE, "has no effect in an offline run, remove it")?;
        pool.refuse_given(&TRANSFER, "has no effect in an offline run of aggregated workers, remove it")?;
        Ok(Self::Aggregated(Box::new(pool)))
    }

    fn disaggregated(flags: &Flags, prefill: &str, decode: &str, printer: Printer) -> Result<Self, Failure> {
        let whole = [
            ("--extra-engine-args", flags.extra_engine_args.is_some()),
            ("--num-workers", flags.num_workers.is_some()),
        ];
        if let Some((flag, _)) = whole.iter().find(|(_, given)| *given) {
            return Err(Failure::input(format_args!("{flag}: has no effect with --prefill-engine-args")));
        }
        let (counts, flag) = ((flags.num_prefill_workers, flags.num_decode_workers), "--prefill-engine-args");
        let prefill = PoolArgs::read(flag, prefill, "--num-prefill-workers", counts.0)?;
        let decode = PoolArgs::read("--decode-engine-args", decode, "--num-decode-workers", counts.1)?;
        for (pool, role, name) in [(&prefill, Role::Prefill, "prefill"), (&decode, Role::Decode, "decode")] {
            if pool.args.worker_type != role {
                return Err(pool.refuse(&format!("worker_type: must be \"{name}\"")));
            }
            pool.refuse_given(&LIVE, "has no effect in an offline run, remove it")?;
        }
        prefill.refuse_given(&["reasoning"], "has no effect with worker_type prefill, remove it")?;
        decode.refuse_given(&TRANSFER, "belongs to --prefill-engine-args, which says how KV leaves")?;
        let link = prefill.args.kv_transfer();
        if link.bandwidth_gb_s.is_some_and(|bandwidth| bandwidth > 0.0) && link.bytes_per_token.is_none() {
            printer.note("without kv_bytes_per_token in --prefill-engine-args, transfers of KV take no time");
        }
        Self::pair(prefill, decode)
    }

    /// Two pools, if they go together.
    pub(crate) fn pair(prefill: PoolArgs, decode: PoolArgs) -> Result<Self, Failure> {
        let (ours, theirs) = (&decode.args, &prefill.args);
        if ours.block_size != theirs.block_size {
            let (ours, theirs) = (ours.block_size, theirs.block_size);
            return Err(decode.refuse(&format!("block_size: {ours} differs from the {theirs} of {}", prefill.source)));
        }
        if ours.engine_type != theirs.engine_type {
            let (ours, theirs) = (ours.engine_type.name(), theirs.engine_type.name());
            return Err(decode.refuse(&format!("engine_type: {ours} differs from the {theirs} of {}", prefill.source)));
        }
        Ok(Self::Disaggregated { prefill: Box::new(prefill), decode: Box::new(decode) })
    }

    /// The pool whose arguments hold where there is one answer for all: cache and blocks of prompts.
    pub(crate) fn first(&self) -> &PoolArgs {
        match self {
            Self::Aggregated(pool) => pool,
            Self::Disaggregated { prefill, .. } => prefill,
        }
    }

    /// The pool that makes output.
    pub(crate) fn last(&self) -> &PoolArgs {
        match self {
            Self::Aggregated(pool) => pool,
            Self::Disaggregated { decode, .. } => decode,
        }
    }

    /// The workers, if a machine can hold them.
    pub(crate) fn fleet(&self) -> Result<Fleet, Failure> {
        match self {
            Self::Aggregated(pool) => Ok(Fleet::Aggregated(pool.pool(0)?)),
            Self::Disaggregated { prefill, decode } => Ok(Fleet::Disaggregated {
                transfer: prefill.args.kv_transfer(),
                prefill: prefill.pool(0)?,
                decode: decode.pool(prefill.blocks())?,
            }),
        }
    }
}

impl PoolArgs {
    fn read(source: &str, text: &str, count: &str, workers: Option<u32>) -> Result<Self, Failure> {
        let prefix = |error: &dyn std::fmt::Display| Failure::input(format_args!("{source}: {error}"));
        let args = EngineArgs::from_json(text).map_err(|error| {
            let is_file = !text.is_empty() && Path::new(text).is_file();
            if is_file {
                prefix(&format_args!("`{text}` is a file; give the JSON in it, \"$(cat {text})\""))
            } else {
                prefix(&error)
            }
        })?;
        let timing = args
            .timing(&mut |path| std::fs::read(path))
            .map_err(|error| prefix(&format_args!("planner_profile_data: {error}")))?;
        let workers = within(count, workers.unwrap_or(1), 1, WORKERS_MAX)?;
        Ok(Self { args, timing, workers, source: source.to_owned(), count: count.to_owned() })
    }

    pub(crate) fn refuse(&self, why: &str) -> Failure {
        Failure::input(format_args!("{}: {why}", self.source))
    }

    /// Refuses arguments that change nothing.
    pub(crate) fn refuse_given(&self, keys: &[&str], why: &str) -> Result<(), Failure> {
        match keys.iter().find(|key| self.args.was_given(key)) {
            Some(key) => Err(self.refuse(&format!("{key}: {why}"))),
            None => Ok(()),
        }
    }

    /// The pool; `others` are KV blocks of other pools.
    fn pool(&self, others: u64) -> Result<Pool, Failure> {
        self.check_size(others)?;
        let Self { args, timing, workers, source, .. } = self;
        Ok(Pool {
            engines: (0..*workers).map(|worker| args.engine_config(u64::from(worker), timing.clone())).collect(),
            max_num_batched_tokens: args.max_num_batched_tokens,
            gpus_per_worker: u32::try_from(args.gpus()).unwrap_or(u32::MAX),
            startup: span(&format!("{source}: startup_time"), args.startup_time.unwrap_or(0.0))?,
        })
    }

    fn ranks(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.args.dp_size)
    }

    /// KV blocks that take memory here.
    fn blocks(&self) -> u64 {
        match self.args.engine_type {
            EngineType::Sglang => 0,
            EngineType::Vllm | EngineType::Trtllm => self.ranks().saturating_mul(self.args.num_gpu_blocks.into()),
        }
    }

    /// Fails for more ranks or blocks than a machine holds, before any memory is asked for.
    fn check_size(&self, others: u64) -> Result<(), Failure> {
        let (ranks, workers, dp_size) = (self.ranks(), self.workers, self.args.dp_size);
        if ranks > u64::from(WORKERS_MAX) {
            return Err(Failure::input(format_args!(
                "{}: {workers} workers of {dp_size} ranks are out of range (allowed: up to {WORKERS_MAX} ranks)",
                self.count
            )));
        }
        let blocks = self.blocks().saturating_add(others);
        if blocks > KV_BLOCKS_MAX {
            return Err(self.refuse(&format!(
                "num_gpu_blocks: {blocks} blocks on {ranks} ranks together are out of range \
                 (allowed: up to {KV_BLOCKS_MAX})"
            )));
        }
        Ok(())
    }
}
