//! From flags and environment to the settings of all workers, everything checked before anything starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use dynosim_engine::args::EngineType;
use dynosim_engine::{EngineArgs, Role, Timing};
use dynosim_wire::card::ModelFiles;
use dynosim_wire::discovery::MemStore;
use dynosim_wire::{DiscoveryConfig, EndpointId, Runtime};
use dynosim_worker::{CacheTrace, ReplayedOutputs, SystemConfig, live_timing};

use super::flags::{Flags, KvDtype, Mode};
use super::{engine, system};
use crate::failure::Failure;
use crate::live::Env;
use crate::printer::{Printer, Verbosity};

/// Most workers of one process.
pub(super) const WORKERS_MAX: u32 = 4096;
/// Time that running requests have to end (as published).
const GRACE_S: u64 = 60;
/// Namespace without `DYN_NAMESPACE`.
const NAMESPACE: &str = "dynamo";
/// Longest start-up and stagger in seconds.
const DELAY_MAX_S: f64 = 86_400.0;

/// Settings of all workers of the process.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) runtime: Runtime,
    pub(crate) endpoint: EndpointId,
    /// Per worker.
    pub(crate) args: Vec<EngineArgs>,
    pub(crate) timing: Timing,
    pub(crate) model: Arc<ModelFiles>,
    pub(crate) model_name: String,
    pub(crate) source_path: String,
    pub(crate) replayed: Option<Arc<ReplayedOutputs>>,
    pub(crate) system: Option<SystemConfig>,
    pub(crate) stagger: Stagger,
    pub(crate) grace: Duration,
    pub(crate) cache_trace: CacheTrace,
    pub(crate) decision_log: Option<PathBuf>,
}

/// Pauses between the starts of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stagger {
    delay_s: f64,
}

impl Stagger {
    /// Workers after which there is a longer pause.
    const BATCH: usize = 32;
    /// That pause in seconds.
    const BATCH_PAUSE_S: f64 = 2.0;

    /// The published rule: -1 stands for 0 s up to 32 workers, 0.1 s up to 128, else 0.2 s.
    fn new(given: f64, workers: u32) -> Result<Self, Failure> {
        let delay_s = match (given, workers) {
            (given, _) if (0.0..=DELAY_MAX_S).contains(&given) => given,
            (given, ..=32) if given.to_bits() == (-1f64).to_bits() => 0.0,
            (given, ..=128) if given.to_bits() == (-1f64).to_bits() => 0.1,
            (given, _) if given.to_bits() == (-1f64).to_bits() => 0.2,
            _ => {
                return Err(Failure::input(format_args!(
                    "--stagger-delay: {given} is out of range (allowed: -1, or 0 to {DELAY_MAX_S})"
                )));
            }
        };
        Ok(Self { delay_s })
    }

    /// Pause before the worker with this number.
    pub(crate) fn before(self, worker: usize) -> Duration {
        if self.delay_s <= 0.0 || worker == 0 {
            return Duration::ZERO;
        }
        let pause = if worker.is_multiple_of(Self::BATCH) { Self::BATCH_PAUSE_S } else { 0.0 };
        Duration::from_secs_f64(self.delay_s + pause)
    }
}

pub(crate) fn resolve(flags: &Flags, env: &Env, mem: Option<&MemStore>) -> Result<Settings, Failure> {
    flags.elsewhere.refuse()?;
    warn_deprecated(flags);
    let mode = mode(flags)?;
    let args = engine::args(flags, mode)?;
    let workers = within("--num-workers", flags.num_workers.unwrap_or(1), WORKERS_MAX)?;
    check_effects(flags, &args)?;
    let source_path = flags.model_path.clone().ok_or_else(|| {
        Failure::input("--model-path: is needed (allowed: a model folder, or any name for the built-in model)")
    })?;
    let model =
        ModelFiles::open(&source_path).map_err(|error| Failure::input(format_args!("--model-path: {error}")))?;
    if model.built_in {
        let folder = model.folder.display();
        let note =
            format_args!("`{source_path}` is no local folder: the built-in byte-level model in {folder} stands in");
        Printer(Verbosity::Normal).note(note);
    }
    let read = &mut |path: &std::path::Path| std::fs::read(path);
    let timing =
        live_timing(&args, read).map_err(|error| Failure::input(format_args!("--planner-profile-data: {error}")))?;
    let replayed = match &args.response_replay_trace_path {
        Some(path) => Some(Arc::new(
            ReplayedOutputs::open(path)
                .map_err(|error| Failure::input(format_args!("--response-replay-trace-path: {error}")))?,
        )),
        None => None,
    };
    let grace = env.parse("DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", "whole seconds")?.unwrap_or(GRACE_S);
    check_startup(&args)?;
    let runtime = flags.runtime.resolve(env, mem)?;
    check_identities(&runtime, workers)?;
    Ok(Settings {
        runtime,
        endpoint: endpoint(flags, env, args.worker_type)?,
        args: per_worker(flags, &with_kv_bytes(args, flags, &model)?, workers)?,
        timing,
        model_name: flags.model_name.clone().unwrap_or_else(|| source_path.clone()),
        model: Arc::new(model),
        source_path,
        replayed,
        system: system::resolve(env)?,
        stagger: stagger(flags, workers)?,
        grace: Duration::from_secs(grace),
        cache_trace: cache_trace(env)?,
        decision_log: env.get("DYNOSIM_DECISION_LOG").map(PathBuf::from),
    })
}

fn warn_deprecated(flags: &Flags) {
    let given = [
        (flags.is_prefill_worker, "--is-prefill-worker", "--disaggregation-mode prefill"),
        (flags.is_decode_worker, "--is-decode-worker", "--disaggregation-mode decode"),
        (flags.engine.sglang_page_size.is_some(), "--sglang-page-size", "--block-size"),
        (
            flags.engine.sglang_schedule_policy.as_deref() == Some("fcfs"),
            "--sglang-schedule-policy fcfs",
            "--sglang-schedule-policy fifo",
        ),
    ];
    for (_, old, new) in given.into_iter().filter(|(given, ..)| *given) {
        Printer(Verbosity::Normal).note(format_args!("{old} is deprecated, use {new}"));
    }
}

pub(super) fn mode(flags: &Flags) -> Result<Option<Mode>, Failure> {
    let old = match (flags.is_prefill_worker, flags.is_decode_worker) {
        (true, true) => {
            return Err(Failure::input("--is-prefill-worker and --is-decode-worker: a worker is one or the other"));
        }
        (true, false) => Some(("--is-prefill-worker", Mode::Prefill)),
        (false, true) => Some(("--is-decode-worker", Mode::Decode)),
        (false, false) => None,
    };
    match (old, flags.disaggregation_mode) {
        (Some((flag, _)), Some(_)) => {
            Err(Failure::input(format_args!("{flag} and --disaggregation-mode: give the latter only")))
        }
        (old, mode) => Ok(mode.or(old.map(|(_, mode)| mode))),
    }
}

/// A pod has one identity: workers beside the first would take its place.
fn check_identities(runtime: &Runtime, workers: u32) -> Result<(), Failure> {
    match &runtime.discovery {
        DiscoveryConfig::Kubernetes { .. } if workers > 1 => Err(Failure::input(format_args!(
            "--num-workers: {workers} is out of range (allowed with discovery backend `kubernetes`: 1, since a pod is one \
             worker; run {workers} replicas)"
        ))),
        _ => Ok(()),
    }
}

/// Refuses flags that change nothing beside the others.
pub(super) fn check_effects(flags: &Flags, args: &EngineArgs) -> Result<(), Failure> {
    let role = match args.worker_type {
        Role::Aggregated => "agg",
        Role::Prefill => "prefill",
        Role::Decode => "decode",
    };
    let transfer = &flags.transfer;
    let aggregated = args.worker_type == Role::Aggregated;
    let in_mode = [
        (aggregated && transfer.bootstrap_ports.is_some(), "--bootstrap-ports"),
        (aggregated && transfer.kv_transfer_bandwidth.is_some(), "--kv-transfer-bandwidth"),
        (aggregated && transfer.kv_transfer_timing_mode.is_some(), "--kv-transfer-timing-mode"),
        (aggregated && transfer.kv_bytes_per_token.is_some(), "--kv-bytes-per-token"),
        (aggregated && transfer.kv_cache_dtype.is_some_and(|dtype| dtype != KvDtype::Auto), "--kv-cache-dtype"),
        (args.worker_type == Role::Decode && args.zmq_or(flags), "--zmq-kv-events-ports"),
        (args.worker_type == Role::Prefill && args.reasoning.is_some(), "--reasoning"),
        (
            args.worker_type == Role::Prefill && args.response_replay_trace_path.is_some(),
            "--response-replay-trace-path",
        ),
    ];
    let pages = flags.engine.sglang_page_size.is_some() && args.engine_type != EngineType::Sglang;
    let others = [
        (pages, "--sglang-page-size", format!("--engine-type {}", args.engine_type.name())),
        (
            !args.enable_prefix_caching && args.zmq_or(flags),
            "--zmq-kv-events-ports",
            "--no-enable-prefix-caching".to_owned(),
        ),
        (
            transfer.kv_bytes_per_token.is_some() && transfer.kv_cache_dtype.is_some(),
            "--kv-cache-dtype",
            "--kv-bytes-per-token".to_owned(),
        ),
    ];
    if flags.ports.zmq_replay_ports.is_some() && flags.ports.zmq_kv_events_ports.is_none() {
        return Err(Failure::input("--zmq-replay-ports: needs --zmq-kv-events-ports"));
    }
    let in_mode = in_mode.map(|(idle, flag)| (idle, flag, format!("--disaggregation-mode {role}")));
    match in_mode.into_iter().chain(others).find(|(idle, ..)| *idle) {
        Some((_, flag, other)) => Err(Failure::input(format_args!("{flag}: has no effect with {other}"))),
        None => Ok(()),
    }
}

/// Whether KV events are wanted in vLLM's form, by flag or JSON.
trait ZmqEvents {
    fn zmq_or(&self, flags: &Flags) -> bool;
}

impl ZmqEvents for EngineArgs {
    fn zmq_or(&self, flags: &Flags) -> bool {
        self.zmq_kv_events_port.is_some() || flags.ports.zmq_kv_events_ports.is_some()
    }
}

fn endpoint(flags: &Flags, env: &Env, role: Role) -> Result<EndpointId, Failure> {
    if let Some(text) = &flags.endpoint {
        return text.parse().map_err(|error| Failure::input(format_args!("--endpoint: {error}")));
    }
    let component = if role == Role::Prefill { "prefill" } else { "backend" };
    let namespace = env.get("DYN_NAMESPACE").unwrap_or(NAMESPACE);
    // The generation of this worker, so that a rolling update never mixes two of them.
    let (suffix, named) = match env.get("DYN_NAMESPACE_WORKER_SUFFIX") {
        Some(suffix) => (format!("-{suffix}"), "DYN_NAMESPACE, DYN_NAMESPACE_WORKER_SUFFIX"),
        None => (String::new(), "DYN_NAMESPACE"),
    };
    format!("{namespace}{suffix}.{component}.generate")
        .parse()
        .map_err(|error| Failure::input(format_args!("{named}: {error}")))
}

/// KV bytes per token from the model's configuration, where a transfer wants them and nobody gave them.
pub(super) fn with_kv_bytes(args: EngineArgs, flags: &Flags, model: &ModelFiles) -> Result<EngineArgs, Failure> {
    if args.worker_type == Role::Aggregated || args.kv_bytes_per_token.is_some() {
        return Ok(args);
    }
    let dtype = flags.transfer.kv_cache_dtype.unwrap_or_default();
    let name = dtype.to_possible_value().map_or_else(|| "auto".to_owned(), |value| value.get_name().to_owned());
    let bytes = model
        .kv_bytes_per_token(&name)
        .map_err(|error| Failure::input(format_args!("--kv-bytes-per-token: {error}")))?;
    Ok(EngineArgs { kv_bytes_per_token: bytes, ..args })
}

/// Ports are given per worker; each rank takes the next one.
fn per_worker(flags: &Flags, args: &EngineArgs, workers: u32) -> Result<Vec<EngineArgs>, Failure> {
    let ports = |flag: &str, list: &Option<String>, given: Option<u16>, name: &str| match list {
        None if given.is_some() && workers > 1 => Err(Failure::input(format_args!(
            "--extra-engine-args: `{name}` is one port for {workers} workers, give {flag}"
        ))),
        None => Ok(vec![given; workers as usize]),
        Some(_) if given.is_some() => {
            Err(Failure::input(format_args!("{flag} and `{name}` of --extra-engine-args: give one of them")))
        }
        Some(list) => port_list(flag, list, workers, args.dp_size),
    };
    let bootstrap = ports("--bootstrap-ports", &flags.transfer.bootstrap_ports, args.bootstrap_port, "bootstrap_port")?;
    let events = ports(
        "--zmq-kv-events-ports",
        &flags.ports.zmq_kv_events_ports,
        args.zmq_kv_events_port,
        "zmq_kv_events_port",
    )?;
    let replay = ports("--zmq-replay-ports", &flags.ports.zmq_replay_ports, args.zmq_replay_port, "zmq_replay_port")?;
    let one = |((bootstrap_port, zmq_kv_events_port), zmq_replay_port)| EngineArgs {
        bootstrap_port,
        zmq_kv_events_port,
        zmq_replay_port,
        ..args.clone()
    };
    Ok(bootstrap.into_iter().zip(events).zip(replay).map(one).collect())
}

fn port_list(flag: &str, list: &str, workers: u32, ranks: u32) -> Result<Vec<Option<u16>>, Failure> {
    let most = u32::from(u16::MAX) - (ranks - 1).min(u32::from(u16::MAX) - 1);
    let port = |text: &str| {
        let port = text.trim().parse::<u16>().ok().filter(|&port| port > 0 && u32::from(port) <= most);
        port.map(Some).ok_or_else(|| {
            Failure::input(format_args!("{flag}: `{}` cannot be used (allowed: ports from 1 to {most})", text.trim()))
        })
    };
    let ports = list.split(',').map(port).collect::<Result<Vec<_>, _>>()?;
    if ports.len() != workers as usize {
        return Err(Failure::input(format_args!(
            "{flag}: {} ports for --num-workers {workers} (allowed: one per worker)",
            ports.len()
        )));
    }
    Ok(ports)
}

fn stagger(flags: &Flags, workers: u32) -> Result<Stagger, Failure> {
    let given = flags.stagger_delay.unwrap_or(0.0);
    if workers == 1 && given > 0.0 {
        return Err(Failure::input("--stagger-delay: has no effect with --num-workers 1"));
    }
    Stagger::new(given, workers)
}

fn check_startup(args: &EngineArgs) -> Result<(), Failure> {
    match args.startup_time {
        Some(seconds) if seconds > DELAY_MAX_S => {
            Err(Failure::input(format_args!("--startup-time: {seconds} is out of range (allowed: 0 to {DELAY_MAX_S})")))
        }
        _ => Ok(()),
    }
}

fn cache_trace(env: &Env) -> Result<CacheTrace, Failure> {
    match env.get("DYN_MOCKER_KV_CACHE_TRACE").map(str::to_ascii_lowercase).as_deref() {
        None | Some("0" | "false" | "off") => Ok(CacheTrace::Off),
        Some("1" | "true" | "on") => Ok(CacheTrace::On),
        Some(text) => Err(Failure::input(format_args!(
            "DYN_MOCKER_KV_CACHE_TRACE: `{text}` cannot be used (allowed: 1, true, 0, false)"
        ))),
    }
}

pub(super) fn within(flag: &str, value: u32, most: u32) -> Result<u32, Failure> {
    if (1..=most).contains(&value) {
        Ok(value)
    } else {
        Err(Failure::input(format_args!("{flag}: {value} is out of range (allowed: 1 to {most})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_start_apart_by_the_published_rule() {
        let delay = |given, workers| Stagger::new(given, workers).map(|stagger| stagger.delay_s).ok();
        assert_eq!([32, 33, 128, 129].map(|workers| delay(-1.0, workers)), [0.0, 0.1, 0.1, 0.2].map(Some));
        assert_eq!(delay(-0.5, 2), None);
        let stagger = Stagger { delay_s: 0.1 };
        assert_eq!([0, 1, 32].map(|worker| stagger.before(worker).as_millis()), [0, 100, 2100]);
    }
}
