//! Flags over environment over defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU64};
use std::time::Duration;

use dynosim_frontend::{
    BucketRange, Buckets, DEFAULT_GRACE, DEFAULT_IDLE_LIMIT, DEFAULT_METRICS_PREFIX, DEFAULT_SEED, FrontendConfig,
    MAX_BUCKETS, MigrationConfig, NamespaceScope, RoutingMode,
};
use dynosim_wire::discovery::MemStore;

use super::{Flags, RouterMode};
use crate::failure::Failure;
use crate::live::Env;

const DEFAULT_PORT: u16 = 8000;
/// Namespace of components that all graphs may use.
const GLOBAL_NAMESPACE: &str = "dynamo";
const MODES: &str = "round-robin, random, power-of-two, least-loaded, direct, kv";

/// What the frontend is told.
pub(super) fn resolve(flags: &Flags, env: &Env, mem: Option<&MemStore>) -> Result<FrontendConfig, Failure> {
    flags.elsewhere.check(env)?;
    if flags.enforce_disagg || env.parse("DYN_ENFORCE_DISAGG", "true, false")?.unwrap_or(false) {
        tracing::warn!("--enforce-disagg is deprecated and without effect: what a graph needs is told by its workers");
    }
    if let Some(name) = flags.model_name.as_deref().or_else(|| env.get("DYN_MODEL_NAME")) {
        tracing::warn!("--model-name {name} is without effect, as published: models are those of the workers' cards");
    }
    let host = pick(flags.http_host, env, "DYN_HTTP_HOST", "an IP address")?;
    let routing = routing(flags, env)?;
    let port = pick(flags.http_port, env, "DYN_HTTP_PORT", "a port")?;
    Ok(FrontendConfig {
        runtime: flags.runtime.resolve(env, mem)?,
        address: SocketAddr::new(host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port.unwrap_or(DEFAULT_PORT)),
        routing,
        kv: flags.router.resolve(routing, env)?,
        scope: scope(flags, env)?,
        migration: MigrationConfig {
            limit: pick(flags.migration_limit, env, "DYN_MIGRATION_LIMIT", "a whole number")?,
            max_sequence_tokens: pick(flags.migration_max_seq_len, env, "DYN_MIGRATION_MAX_SEQ_LEN", "1 or more")?
                .map(Into::into),
        },
        min_initial_workers: pick(
            flags.router_min_initial_workers,
            env,
            "DYN_ROUTER_MIN_INITIAL_WORKERS",
            "a whole number",
        )?
        .unwrap_or(0),
        metrics_prefix: metrics_prefix(flags, env),
        buckets: buckets(env)?,
        seed: DEFAULT_SEED,
        body_limit: body_limit(env)?,
        idle_limit: seconds(env, &["DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS"])?.unwrap_or(DEFAULT_IDLE_LIMIT),
        grace: seconds(
            env,
            &["DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS"],
        )?
        .unwrap_or(DEFAULT_GRACE),
    })
}

fn pick<T: std::str::FromStr>(flag: Option<T>, env: &Env, name: &str, allowed: &str) -> Result<Option<T>, Failure> {
    flag.map_or_else(|| env.parse(name, allowed), |value| Ok(Some(value)))
}

fn seconds(env: &Env, names: &[&str]) -> Result<Option<Duration>, Failure> {
    for name in names {
        if let Some(seconds) = env.parse::<NonZeroU64>(name, "whole seconds, 1 or more")? {
            return Ok(Some(Duration::from_secs(seconds.get())));
        }
    }
    Ok(None)
}

fn body_limit(env: &Env) -> Result<Option<usize>, Failure> {
    let megabytes: Option<NonZeroU16> = env.parse("DYN_HTTP_BODY_LIMIT_MB", "1 to 65535")?;
    Ok(megabytes.map(|count| usize::from(count.get()) << 20))
}

fn routing(flags: &Flags, env: &Env) -> Result<RoutingMode, Failure> {
    let mode = match flags.router_mode {
        Some(mode) => mode,
        None => env.choose("DYN_ROUTER_MODE")?.unwrap_or(RouterMode::RoundRobin),
    };
    Ok(match mode {
        RouterMode::RoundRobin => RoutingMode::RoundRobin,
        RouterMode::Random => RoutingMode::Random,
        RouterMode::PowerOfTwo => RoutingMode::PowerOfTwo,
        RouterMode::LeastLoaded => RoutingMode::LeastLoaded,
        RouterMode::Direct => RoutingMode::Direct,
        RouterMode::Kv => RoutingMode::Kv,
        RouterMode::DeviceAwareWeighted => {
            return Err(Failure::input(format_args!(
                "router mode `device-aware-weighted`: simulated workers are all of one device type (allowed: {MODES})"
            )));
        }
    })
}

fn scope(flags: &Flags, env: &Env) -> Result<NamespaceScope, Failure> {
    let strict = strict(env)?;
    let prefix = flags.namespace_prefix.as_deref().or_else(|| env.get("DYN_NAMESPACE_PREFIX"));
    let namespace = flags.namespace.as_deref().or_else(|| env.get("DYN_NAMESPACE"));
    let some = |text: &&str| !text.is_empty();
    // The prefix wins, and the namespace that graphs share means all of them, as published.
    Ok(match (prefix.filter(some), namespace.filter(some)) {
        (Some(GLOBAL_NAMESPACE), _) | (None, Some(GLOBAL_NAMESPACE) | None) => NamespaceScope::All,
        (Some(prefix), _) if strict => NamespaceScope::Generations(prefix.to_owned()),
        (Some(prefix), _) => NamespaceScope::Prefix(prefix.to_owned()),
        (None, Some(namespace)) => NamespaceScope::Exact(namespace.to_owned()),
    })
}

/// Whether namespaces beside the prefix and its generations stay out.
fn strict(env: &Env) -> Result<bool, Failure> {
    let name = "DYN_NAMESPACE_PREFIX_STRICT";
    match env.get(name).map(str::to_ascii_lowercase).as_deref() {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("true" | "1" | "yes") => Ok(true),
        Some(text) => {
            Err(Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: true, 1, yes, false, 0, no)")))
        }
    }
}

/// The prefix with everything that a name may not contain replaced.
fn metrics_prefix(flags: &Flags, env: &Env) -> String {
    let wanted = flags.metrics_prefix.as_deref().or_else(|| env.get("DYN_METRICS_PREFIX"));
    let wanted = wanted.filter(|prefix| !prefix.is_empty()).unwrap_or(DEFAULT_METRICS_PREFIX);
    let good = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let prefix: String = wanted.chars().map(good).collect();
    if prefix.starts_with(|c: char| c.is_ascii_digit()) { format!("_{prefix}") } else { prefix }
}

fn buckets(env: &Env) -> Result<Buckets, Failure> {
    let published = Buckets::default();
    Ok(Buckets {
        request_duration: range(env, "DYN_METRICS_REQUEST_DURATION", published.request_duration)?,
        input_sequence: range(env, "DYN_METRICS_INPUT_SEQUENCE", published.input_sequence)?,
        output_sequence: range(env, "DYN_METRICS_OUTPUT_SEQUENCE", published.output_sequence)?,
        ttft: range(env, "DYN_METRICS_TTFT", published.ttft)?,
        itl: range(env, "DYN_METRICS_ITL", published.itl)?,
    })
}

/// `<name>_MIN`, `<name>_MAX` and `<name>_COUNT`.
fn range(env: &Env, name: &str, published: BucketRange) -> Result<BucketRange, Failure> {
    let bound = |end: &str, default| {
        let value: f64 = env.parse(&format!("{name}_{end}"), "a number above 0")?.unwrap_or(default);
        Ok::<_, Failure>(value)
    };
    let range = BucketRange {
        min: bound("MIN", published.min)?,
        max: bound("MAX", published.max)?,
        count: env.parse(&format!("{name}_COUNT"), "a whole number")?.unwrap_or(published.count),
    };
    if range.min > 0.0 && range.min < range.max && range.max.is_finite() && (2..=MAX_BUCKETS).contains(&range.count) {
        return Ok(range);
    }
    Err(Failure::input(format_args!(
        "{name}_MIN, _MAX, _COUNT: {} to {} in {} bounds cannot be used (allowed: 0 < min < max, 2 to {MAX_BUCKETS} bounds)",
        range.min, range.max, range.count
    )))
}
