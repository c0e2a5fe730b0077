//! How requests are routed, from flags.

use std::path::Path;

use dynosim_replay::{KvRouting, Routing, row_of_uuid};
use dynosim_router::{PolicyConfig, RouterConfig};
use serde_json::{Value, json};

use super::engines::PoolArgs;
use super::flags::{Flags, RouterMode};
use crate::commands::run::{out_of_range, span};
use crate::failure::Failure;

/// Seed of the router's draws.
const SEED: u64 = 42;
/// Keys of the router that mean something only to live ones, with the value that they may have.
const LIVE: [(&str, Value); 9] = [
    ("router_replica_sync", Value::Bool(false)),
    ("router_tracking_key_file", Value::Null),
    ("router_tracking_key_id", Value::Null),
    ("use_remote_indexer", Value::Bool(false)),
    ("serve_indexer", Value::Bool(false)),
    ("enable_session_prefix_index", Value::Bool(false)),
    ("shared_cache_multiplier", Value::Null),
    ("conditional_disagg_enabled", Value::Bool(false)),
    ("conditional_disagg_policy", Value::Null),
];

/// What the router is told, by flags or a manifest.
#[derive(Clone, Debug, Default)]
pub(crate) struct RouterArgs {
    pub(crate) kv: bool,
    pub(crate) config: RouterConfig,
    /// Where the keys come from, for messages.
    pub(crate) source: String,
}

impl RouterArgs {
    /// What the flags say.
    pub(crate) fn of_flags(flags: &Flags) -> Result<Self, Failure> {
        let kv = flags.router_mode == Some(RouterMode::KvRouter);
        if !kv && flags.router_config.is_some() {
            return Err(Failure::input("--router-config: has no effect without --router-mode kv_router"));
        }
        let source = "--router-config".to_owned();
        let text = flags.router_config.as_deref().unwrap_or("{}");
        let prefix = |error: &dyn std::fmt::Display| Failure::input(format_args!("{source}: {error}"));
        let value: Value = serde_json::from_str(text).map_err(|error| prefix(&error))?;
        let config = RouterConfig::from_json(&value).map_err(|error| prefix(&error))?;
        Ok(Self { kv, config, source })
    }

    /// The routing of a run whose router may be told more by flags.
    pub(crate) fn routing(self, flags: &Flags, pool: &PoolArgs) -> Result<Routing, Failure> {
        let Self { kv, mut config, source } = self;
        if !kv {
            refuse_kv_flags(flags)?;
            pool.refuse_given(&["router_queue_policy"], "has no effect without --router-mode kv_router, remove it")?;
            return Ok(Routing::RoundRobin);
        }
        refuse_live(&config, &source)?;
        if let Some(policy) = &pool.args.router_queue_policy {
            config
                .set("router_queue_policy", &json!(policy))
                .map_err(|error| pool.refuse(&format!("router_queue_policy: {error}")))?;
        }
        let policy = policy(flags, &mut config, &source)?;
        let lag = flags.kv_event_lag_ms.unwrap_or(0.0);
        let event_lag = span("--kv-event-lag-ms", lag / 1e3)
            .map_err(|_| out_of_range("--kv-event-lag-ms", &lag, "0 to 3200000000000"))?;
        let seed = flags.router_seed.unwrap_or(SEED);
        Ok(Routing::Kv(Box::new(KvRouting { config, policy, seed, event_lag })))
    }
}

/// Refuses what only the KV router has use for.
fn refuse_kv_flags(flags: &Flags) -> Result<(), Failure> {
    let given = [
        (flags.router_policy_config.is_some(), "--router-policy-config"),
        (flags.kv_event_lag_ms.is_some(), "--kv-event-lag-ms"),
        (flags.router_seed.is_some(), "--router-seed"),
        (flags.explain_request.is_some(), "--explain-request"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => Err(Failure::input(format_args!("{flag}: has no effect without --router-mode kv_router"))),
        None => Ok(()),
    }
}

fn refuse_live(config: &RouterConfig, source: &str) -> Result<(), Failure> {
    let all = config.to_json();
    match LIVE.iter().find(|(key, idle)| all.get(*key).is_some_and(|value| value != idle)) {
        Some((key, _)) => {
            Err(Failure::input(format_args!("{source}: {key}: has no effect in an offline run, remove it")))
        }
        None => Ok(()),
    }
}

/// The classes of the queue, from the file that a flag or a key names.
fn policy(flags: &Flags, config: &mut RouterConfig, source: &str) -> Result<Option<PolicyConfig>, Failure> {
    let named = config.router_policy_config.take();
    let (path, from) = match (&flags.router_policy_config, &named) {
        (Some(_), Some(_)) => {
            return Err(Failure::input(format_args!(
                "--router-policy-config and router_policy_config of {source}: give one of them"
            )));
        }
        (Some(path), None) => (path.as_path(), "--router-policy-config".to_owned()),
        (None, Some(path)) => (Path::new(path), format!("{source}: router_policy_config")),
        (None, None) => return Ok(None),
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::io(format_args!("{from}: {}: {error}", path.display())))?;
    let refuse = |error: &dyn std::fmt::Display| Failure::input(format_args!("{from}: {}: {error}", path.display()));
    let value: Value = serde_saphyr::from_str(&text).map_err(|error| refuse(&error))?;
    PolicyConfig::from_json(&value).map(Some).map_err(|error| refuse(&error))
}

/// The number of the request to be explained.
pub(crate) fn explained(flags: &Flags) -> Result<Option<u64>, Failure> {
    let Some(id) = &flags.explain_request else { return Ok(None) };
    match id.parse().ok().or_else(|| row_of_uuid(id)) {
        Some(row) => Ok(Some(row)),
        None => Err(Failure::input(format_args!(
            "--explain-request: `{id}` is no request (allowed: its number in the input, from 0, or the uuid of its row)"
        ))),
    }
}
