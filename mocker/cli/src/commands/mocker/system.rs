//! The system port's settings, from the environment.

use std::net::{IpAddr, Ipv4Addr};

use dynosim_worker::{Readiness, SystemConfig};

use crate::failure::Failure;
use crate::live::Env;

/// None if the port is off: unset or -1.
pub(crate) fn resolve(env: &Env) -> Result<Option<SystemConfig>, Failure> {
    let allowed = "-1 (off), or a port from 0 (any) to 65535";
    let Some(port) = env.parse::<i64>("DYN_SYSTEM_PORT", allowed)? else { return Ok(None) };
    if port == -1 {
        return Ok(None);
    }
    let port = u16::try_from(port)
        .map_err(|_| Failure::input(format_args!("DYN_SYSTEM_PORT: `{port}` cannot be used (allowed: {allowed})")))?;
    let host = env.parse("DYN_SYSTEM_HOST", "an IP address")?.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let path = |name: &str, default: &str| match env.get(name) {
        None => Ok(default.to_owned()),
        Some(path) if path.starts_with('/') && !path.contains(['{', '}']) => Ok(path.to_owned()),
        Some(path) => {
            Err(Failure::input(format_args!("{name}: `{path}` cannot be used (allowed: a path that begins with /)")))
        }
    };
    let health_path = path("DYN_SYSTEM_HEALTH_PATH", "/health")?;
    let live_path = path("DYN_SYSTEM_LIVE_PATH", "/live")?;
    for (at, taken) in ["/metrics", "/metadata"].into_iter().map(|taken| (&health_path, taken)).chain([
        (&live_path, "/metrics"),
        (&live_path, "/metadata"),
        (&live_path, &*health_path),
    ]) {
        if at == taken {
            return Err(Failure::input(format_args!(
                "DYN_SYSTEM_HEALTH_PATH, DYN_SYSTEM_LIVE_PATH: `{at}` is taken (allowed: a path of its own each)"
            )));
        }
    }
    Ok(Some(SystemConfig { host, port, health_path, live_path, required: required(env)?, starts: starts(env)? }))
}

/// A list of endpoint names as JSON.
fn required(env: &Env) -> Result<Vec<String>, Failure> {
    let name = "DYN_SYSTEM_USE_ENDPOINT_HEALTH_STATUS";
    let Some(text) = env.get(name) else { return Ok(Vec::new()) };
    serde_json::from_str(text)
        .map_err(|_| Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: [\"ENDPOINT\", …])")))
}

fn starts(env: &Env) -> Result<Readiness, Failure> {
    let name = "DYN_SYSTEM_STARTING_HEALTH_STATUS";
    match env.get(name) {
        None | Some("notready") => Ok(Readiness::NotReady),
        Some("ready") => Ok(Readiness::Ready),
        Some(text) => Err(Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: ready, notready)"))),
    }
}
