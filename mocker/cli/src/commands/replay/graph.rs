//! The simulated system from a manifest, the one that `dynosim up` and a cluster run.

mod keys;

use std::path::Path;

use dynosim_api::{Program, flags as words};
use dynosim_engine::Role;
use dynosim_router::RouterConfig;
use serde_json::Value;

use self::keys::KEYS;
use super::engines::{Engines, PoolArgs};
use super::flags::Flags;
use super::router::RouterArgs;
use crate::commands::mocker::{self, Simulated};
use crate::commands::up::{Part, planned, read_flags};
use crate::failure::Failure;
use crate::live::Env;
use crate::printer::Printer;

/// Workers and router of the graph in a manifest.
pub(crate) fn read(manifest: &Path, flags: &Flags, printer: Printer) -> Result<(Engines, RouterArgs), Failure> {
    refuse_flags(flags)?;
    let plan = planned(manifest)?;
    for note in &plan.notes {
        printer.note(note);
    }
    let (frontends, workers): (Vec<_>, Vec<_>) = plan.parts.iter().partition(|part| part.program == Program::Frontend);
    let Some(frontend) = frontends.first() else {
        return Err(Failure::input("--file: the graph has no frontend through which requests come"));
    };
    if frontends.len() > 1 {
        printer.note(format_args!("{} frontends act as one, which sees all requests", frontends.len()));
    }
    Ok((engines(&workers)?, router(frontend)?))
}

/// What the manifest says cannot be said again.
fn refuse_flags(flags: &Flags) -> Result<(), Failure> {
    let given = [
        (flags.extra_engine_args.is_some(), "--extra-engine-args"),
        (flags.num_workers.is_some(), "--num-workers"),
        (flags.prefill_engine_args.is_some(), "--prefill-engine-args"),
        (flags.decode_engine_args.is_some(), "--decode-engine-args"),
        (flags.num_prefill_workers.is_some(), "--num-prefill-workers"),
        (flags.num_decode_workers.is_some(), "--num-decode-workers"),
        (flags.router_mode.is_some(), "--router-mode"),
        (flags.router_config.is_some(), "--router-config"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => {
            Err(Failure::input(format_args!("{flag}: has no effect with --file, whose manifest says it")))
        }
        None => Ok(()),
    }
}

/// Workers of one role in the making.
#[derive(Default)]
struct Found {
    pools: [Option<PoolArgs>; 3],
    model: Option<(String, String)>,
}

fn engines(parts: &[&Part]) -> Result<Engines, Failure> {
    let mut found = Found::default();
    for part in parts {
        found.add(part)?;
    }
    let [aggregated, prefill, decode] = found.pools;
    match (aggregated, prefill, decode) {
        (Some(pool), None, None) => Ok(Engines::Aggregated(Box::new(pool))),
        (None, Some(prefill), Some(decode)) => Engines::pair(prefill, decode),
        (None, Some(pool), None) => Err(pool.refuse("prefill workers need decode workers beside them")),
        (None, None, Some(pool)) => Err(pool.refuse("decode workers need prefill workers beside them")),
        (None, None, None) => Err(Failure::input("--file: the graph has no mocker worker")),
        (Some(pool), ..) => Err(pool.refuse("does prefill and decode, others of the graph only one of them")),
    }
}

impl Found {
    fn add(&mut self, part: &Part) -> Result<(), Failure> {
        let flags: mocker::Flags = read_flags(part)?;
        let Simulated { args, timing, workers, model_name } =
            mocker::simulated(&flags).map_err(|failure| failure.within(&part.label))?;
        let component = part.label.rsplit_once('-').map_or(&*part.label, |(component, _)| component).to_owned();
        match &self.model {
            None => self.model = Some((model_name, component.clone())),
            Some((known, _)) if *known == model_name => {}
            Some((known, other)) => {
                return Err(Failure::input(format_args!(
                    "{component}: serves `{model_name}`, {other} serves `{known}`; one model is simulated at a time"
                )));
            }
        }
        let place = match args.worker_type {
            Role::Aggregated => 0,
            Role::Prefill => 1,
            Role::Decode => 2,
        };
        match &mut self.pools[place] {
            None => {
                let (source, count) = (component.clone(), component);
                let pool = PoolArgs { args, timing, workers, source, count };
                pool.refuse_given(
                    &["response_replay_trace_path"],
                    "outputs have no content in an offline run, remove it",
                )?;
                self.pools[place] = Some(pool);
            }
            Some(pool) if pool.args == args => pool.workers += workers,
            Some(pool) => {
                return Err(Failure::input(format_args!(
                    "{component}: its engine differs from that of {}; workers of one part of a graph are alike in a run",
                    pool.source
                )));
            }
        }
        Ok(())
    }
}

fn env_of(part: &Part) -> Env {
    Env::default().with(part.env.clone())
}

/// The router of a frontend: flags over variables over defaults, as a frontend reads them.
fn router(frontend: &Part) -> Result<RouterArgs, Failure> {
    let (label, flags, env) = (&frontend.label, &frontend.flags, env_of(frontend));
    let mode = words::value_of(flags, "--router-mode").or_else(|| env.get("DYN_ROUTER_MODE"));
    let kv = match mode {
        None | Some("round-robin") => false,
        Some("kv") => true,
        Some(mode) => {
            return Err(Failure::input(format_args!(
                "{label}: router mode `{mode}` cannot be simulated (allowed: round-robin, kv)"
            )));
        }
    };
    let mut config = RouterConfig::default();
    for key in KEYS {
        let Some(value) = given(key.flag, key.variable, flags, &env) else { continue };
        config.set(key.name, &value).map_err(|error| Failure::input(format_args!("{label}: {}: {error}", key.flag)))?;
    }
    Ok(RouterArgs { kv, config, source: label.clone() })
}

/// What a flag, its opposite, or a variable sets a key to.
fn given(flag: &str, variable: &str, flags: &[String], env: &Env) -> Option<Value> {
    if words::has(flags, flag) {
        let text = words::value_of(flags, flag).filter(|text| !text.starts_with("--"));
        return Some(text.map_or(Value::Bool(true), value_of));
    }
    if words::has(flags, &flag.replacen("--", "--no-", 1)) {
        return Some(Value::Bool(false));
    }
    (!variable.is_empty()).then(|| env.get(variable).map(value_of)).flatten()
}

/// Numbers and switches as such, all else as text.
fn value_of(text: &str) -> Value {
    match text {
        "None" | "" => Value::Null,
        text => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}
