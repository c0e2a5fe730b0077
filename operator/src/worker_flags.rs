//! What the flags of a simulated worker mean for its pod.

use std::time::Duration;

use dynosim_api::flags::{has, value_of, worker_mode};
use serde_json::Value;

use crate::stagger::Rule;

/// Most ranks of a worker.
const RANKS_MAX: u16 = 1024;
/// Longest pause between workers in seconds.
const PAUSE_MAX_S: f64 = 86_400.0;
/// Flags that say how many GPUs the simulated engine would have, as published in this and earlier releases.
const GPU_FLAGS: [[&str; 3]; 2] = [
    ["--tensor-parallel-size", "--ais-tp-size", "--aic-tp-size"],
    ["--ais-attention-dp-size", "--aic-attention-dp-size", "--data-parallel-size"],
];

/// The part of a worker in a disaggregated graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Prefill and decode.
    #[default]
    Aggregated,
    /// Prefill.
    Prefill,
    /// Decode.
    Decode,
}

/// A flag that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFlag(pub String);

/// What the flags of a simulated worker mean for its pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerFlags {
    /// Its part.
    pub mode: Mode,
    /// Workers in the pod.
    pub workers: u16,
    /// Ranks of each.
    pub ranks: u16,
    /// First port of each worker for the handoff of KV, if the flags name them.
    pub bootstrap: Vec<u16>,
    /// The engine hands KV over, and its settings do not name the port elsewhere.
    pub wants_bootstrap: bool,
    /// First port of each worker for vLLM-style KV events.
    pub events: Vec<u16>,
    /// First port of each worker for their replay.
    pub replay: Vec<u16>,
    /// How replicas are staggered.
    pub stagger: Rule,
    /// The pauses of more than one worker are within the pod, so the flag stays with the worker.
    pub has_stagger: bool,
    /// Name of the model for clients.
    pub model_name: Option<String>,
    /// Dynamo component that it serves as.
    pub component: String,
    /// GPUs that the simulated engine would have, if the flags say so.
    pub gpus: Option<u32>,
}

impl WorkerFlags {
    /// Reads all flags that matter, with all that is wrong with them.
    pub fn read(flags: &[String]) -> Result<Self, Vec<BadFlag>> {
        let mut bad = Vec::new();
        let extra = extra_engine_args(flags);
        let mode = or_bad(mode(flags, extra.as_ref()), &mut bad);
        let workers = or_bad(count(flags, "--num-workers", 1, 4096), &mut bad);
        let ranks = match extra.as_ref().and_then(|extra| extra.get("dp_size")).and_then(Value::as_u64) {
            Some(ranks) => u16::try_from(ranks).unwrap_or(RANKS_MAX).clamp(1, RANKS_MAX),
            None => or_bad(count(flags, "--data-parallel-size", 1, RANKS_MAX), &mut bad),
        };
        let mut list = |name| or_bad(ports(flags, name, workers, ranks), &mut bad);
        let (bootstrap, events, replay) =
            (list("--bootstrap-ports"), list("--zmq-kv-events-ports"), list("--zmq-replay-ports"));
        let stagger = or_bad(stagger(flags), &mut bad);
        if !has(flags, "--model-path") {
            bad.push(BadFlag("--model-path: missing, a worker needs a model folder or name".to_owned()));
        }
        if !bad.is_empty() {
            return Err(bad);
        }
        let set = |name: &str| extra.as_ref().and_then(|extra| find(extra, name)).is_some_and(|value| !value.is_null());
        let engine = value_of(flags, "--engine-type")
            .or_else(|| extra.as_ref().and_then(|extra| find(extra, "engine_type")).and_then(Value::as_str));
        Ok(Self {
            mode,
            workers,
            ranks,
            wants_bootstrap: mode == Mode::Prefill
                && bootstrap.is_empty()
                && !set("bootstrap_port")
                && engine != Some("trtllm"),
            bootstrap,
            events,
            replay,
            stagger,
            has_stagger: has(flags, "--stagger-delay"),
            model_name: ["--model-name", "--model-path"]
                .into_iter()
                .find_map(|name| value_of(flags, name))
                .map(str::to_owned),
            component: component(flags, mode),
            gpus: gpus(flags),
        })
    }
}

fn or_bad<T: Default>(read: Result<T, BadFlag>, bad: &mut Vec<BadFlag>) -> T {
    read.unwrap_or_else(|error| {
        bad.push(error);
        T::default()
    })
}

/// `--extra-engine-args` if it is JSON and no path.
fn extra_engine_args(flags: &[String]) -> Option<Value> {
    value_of(flags, "--extra-engine-args").and_then(|text| serde_json::from_str(text).ok())
}

/// A key of the flat form, or of the nested one.
fn find<'a>(extra: &'a Value, name: &str) -> Option<&'a Value> {
    ["", "/engine", "/dynamo"].into_iter().find_map(|at| extra.pointer(at)?.get(name))
}

fn mode(flags: &[String], extra: Option<&Value>) -> Result<Mode, BadFlag> {
    let (old_prefill, old_decode) = (has(flags, "--is-prefill-worker"), has(flags, "--is-decode-worker"));
    if old_prefill && old_decode {
        return Err(BadFlag("--is-prefill-worker and --is-decode-worker: a worker is one or the other".to_owned()));
    }
    if (old_prefill || old_decode) && has(flags, "--disaggregation-mode") {
        let old = if old_prefill { "--is-prefill-worker" } else { "--is-decode-worker" };
        return Err(BadFlag(format!("{old} and --disaggregation-mode: give the latter only")));
    }
    let named = extra.and_then(|extra| find(extra, "worker_type")).and_then(Value::as_str);
    let flagged = |name| extra.and_then(|extra| find(extra, name)) == Some(&Value::Bool(true));
    match named.unwrap_or_else(|| worker_mode(flags)) {
        "prefill" => Ok(Mode::Prefill),
        "decode" => Ok(Mode::Decode),
        "agg" | "aggregated" if flagged("is_prefill") => Ok(Mode::Prefill),
        "agg" | "aggregated" if flagged("is_decode") => Ok(Mode::Decode),
        "agg" | "aggregated" => Ok(Mode::Aggregated),
        other => {
            Err(BadFlag(format!("--disaggregation-mode: `{other}` cannot be used (allowed: agg, prefill, decode)")))
        }
    }
}

fn count(flags: &[String], name: &str, default: u16, most: u16) -> Result<u16, BadFlag> {
    let Some(text) = value_of(flags, name) else { return Ok(default) };
    let read = text.parse::<u16>().ok().filter(|count| (1..=most).contains(count));
    read.ok_or_else(|| BadFlag(format!("{name}: `{text}` cannot be used (allowed: 1 to {most})")))
}

fn ports(flags: &[String], name: &str, workers: u16, ranks: u16) -> Result<Vec<u16>, BadFlag> {
    let Some(list) = value_of(flags, name) else { return Ok(Vec::new()) };
    let most = u16::MAX - ranks.max(1) + 1;
    let port = |text: &str| {
        let port = text.trim().parse::<u16>().ok().filter(|port| (1..=most).contains(port));
        port.ok_or_else(|| {
            BadFlag(format!("{name}: `{}` cannot be used (allowed: ports from 1 to {most})", text.trim()))
        })
    };
    let read = list.split(',').map(port).collect::<Result<Vec<_>, _>>()?;
    if workers > 0 && read.len() != usize::from(workers) {
        return Err(BadFlag(format!(
            "{name}: {} ports for --num-workers {workers} (allowed: one per worker)",
            read.len()
        )));
    }
    Ok(read)
}

fn stagger(flags: &[String]) -> Result<Rule, BadFlag> {
    let Some(text) = value_of(flags, "--stagger-delay") else { return Ok(Rule::Auto) };
    match text.parse::<f64>() {
        Ok(seconds) if seconds.to_bits() == (-1f64).to_bits() => Ok(Rule::Auto),
        Ok(seconds) if (0.0..=PAUSE_MAX_S).contains(&seconds) => Ok(Rule::Every(Duration::from_secs_f64(seconds))),
        _ => Err(BadFlag(format!("--stagger-delay: `{text}` cannot be used (allowed: -1, or 0 to {PAUSE_MAX_S} s)"))),
    }
}

/// The middle of `namespace.component.endpoint`.
fn component(flags: &[String], mode: Mode) -> String {
    let endpoint = value_of(flags, "--endpoint").map(|text| text.trim_start_matches("dyn://"));
    let named = endpoint.and_then(|text| text.split('.').nth(1));
    named.unwrap_or(if mode == Mode::Prefill { "prefill" } else { "backend" }).to_owned()
}

fn gpus(flags: &[String]) -> Option<u32> {
    let of = |names: &[&str]| names.iter().find_map(|name| value_of(flags, name)?.parse::<u32>().ok());
    let [tensor, data] = GPU_FLAGS;
    of(&tensor).map(|tensor| tensor.saturating_mul(of(&data).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WorkerFlags, Vec<String>> {
        let flags: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        WorkerFlags::read(&flags).map_err(|bad| bad.into_iter().map(|BadFlag(text)| text).collect())
    }

    #[test]
    fn the_part_of_a_worker_is_in_its_flags() {
        for (text, mode, wants, component) in [
            ("", Mode::Aggregated, false, "backend"),
            ("--disaggregation-mode prefill", Mode::Prefill, true, "prefill"),
            ("--is-prefill-worker", Mode::Prefill, true, "prefill"),
            ("--disaggregation-mode decode", Mode::Decode, false, "backend"),
            ("--disaggregation-mode prefill --bootstrap-ports 7", Mode::Prefill, false, "prefill"),
            ("--disaggregation-mode prefill --engine-type trtllm", Mode::Prefill, false, "prefill"),
            ("--disaggregation-mode=prefill --endpoint dyn://a.b.c", Mode::Prefill, true, "b"),
            ("--extra-engine-args {\"worker_type\":\"prefill\",\"bootstrap_port\":9}", Mode::Prefill, false, "prefill"),
            (
                "--extra-engine-args {\"engine\":{\"worker_type\":\"prefill\"},\"dp_size\":2}",
                Mode::Prefill,
                true,
                "prefill",
            ),
            ("--extra-engine-args {\"is_decode\":true}", Mode::Decode, false, "backend"),
            ("--extra-engine-args /config/engine.json", Mode::Aggregated, false, "backend"),
        ] {
            let flags = read(&format!("--model-path m {text}")).expect(text);
            assert_eq!(
                (flags.mode, flags.wants_bootstrap, flags.component.as_str()),
                (mode, wants, component),
                "{text}"
            );
        }
    }

    #[test]
    fn all_bad_flags_are_told_at_once() {
        let bad =
            read("--num-workers 0 --data-parallel-size x --stagger-delay -2 --bootstrap-ports 1,a").expect_err("bad");
        assert_eq!(
            bad,
            [
                "--num-workers: `0` cannot be used (allowed: 1 to 4096)",
                "--data-parallel-size: `x` cannot be used (allowed: 1 to 1024)",
                "--bootstrap-ports: `a` cannot be used (allowed: ports from 1 to 65535)",
                "--stagger-delay: `-2` cannot be used (allowed: -1, or 0 to 86400 s)",
                "--model-path: missing, a worker needs a model folder or name",
            ]
        );
    }

    #[test]
    fn numbers_and_names_are_read() {
        let flags = read(
            "--model-path p --data-parallel-size 4 --stagger-delay 0.5 --zmq-kv-events-ports 5600 --ais-tp-size 2",
        )
        .expect("flags");
        assert_eq!((flags.ranks, flags.workers, flags.events.as_slice()), (4, 1, [5600].as_slice()));
        assert_eq!(flags.stagger, Rule::Every(Duration::from_millis(500)));
        assert_eq!((flags.model_name.as_deref(), flags.gpus), (Some("p"), Some(8)));
    }
}
