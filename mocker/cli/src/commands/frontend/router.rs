//! Flags of the KV router.

use dynosim_frontend::{KvConfig, RoutingMode};
use dynosim_router::{ConfigError, RouterConfig};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::live::Env;

const SWITCH: &str = "true, 1, yes, on, false, 0, no, off";

/// With `--router-mode kv`.
#[derive(Clone, Debug, Default, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each flag and its opposite")]
#[command(next_help_heading = "KV router (--router-mode kv)")]
pub(super) struct Given {
    /// Weight of blocks that a worker has cached; 0: none count [env: DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT] [default: 1]
    #[arg(long, value_name = "WEIGHT", allow_hyphen_values = true)]
    router_kv_overlap_score_credit: Option<String>,
    /// How fast that fades where more is to be computed than elsewhere [env: DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY] [default: 0]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    router_kv_overlap_score_credit_decay: Option<String>,
    /// Weight of prompt tokens that are to be computed [env: DYN_ROUTER_PREFILL_LOAD_SCALE] [default: 1]
    #[arg(long, value_name = "WEIGHT", allow_hyphen_values = true)]
    router_prefill_load_scale: Option<String>,
    /// Cost of each open request, in blocks [env: DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT] [default: 0]
    #[arg(long, value_name = "BLOCKS", allow_hyphen_values = true)]
    router_decode_active_request_weight: Option<String>,
    /// Weight of blocks cached in host memory [env: DYN_ROUTER_HOST_CACHE_HIT_WEIGHT] [default: 0.75]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    router_host_cache_hit_weight: Option<String>,
    /// Weight of blocks cached on disk [env: DYN_ROUTER_DISK_CACHE_HIT_WEIGHT] [default: 0.25]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    router_disk_cache_hit_weight: Option<String>,
    /// 0: the cheapest wins; above: by lot, the cheaper the likelier [env: DYN_ROUTER_TEMPERATURE] [default: 0]
    #[arg(long, value_name = "TEMPERATURE", allow_hyphen_values = true)]
    router_temperature: Option<String>,
    /// Requests wait while all workers have more prompt tokens to compute than this share of a pass [env: DYN_ROUTER_QUEUE_THRESHOLD] [default: none wait]
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    router_queue_threshold: Option<String>,
    /// Order of waiting requests: fcfs, lcfs, wspt (least to compute first) [env: DYN_ROUTER_QUEUE_POLICY] [default: fcfs]
    #[arg(long, value_name = "POLICY")]
    router_queue_policy: Option<String>,
    /// Know what is cached from workers' events (default)
    #[arg(long, alias = "kv-events", overrides_with = "no_router_kv_events")]
    router_kv_events: bool,
    /// Guess what is cached from where requests went [env: DYN_ROUTER_USE_KV_EVENTS=false]
    #[arg(long, alias = "no-kv-events", overrides_with = "router_kv_events")]
    no_router_kv_events: bool,
    /// Seconds that such a guess holds [env: DYN_ROUTER_TTL_SECS] [default: 120]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    router_ttl_secs: Option<String>,
    /// Seconds that prompts count as cached where they went, before events tell [env: DYN_ROUTER_PREDICTED_TTL_SECS] [default: not at all]
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    router_predicted_ttl_secs: Option<String>,
    /// Equal blocks of a worker's requests count once (default)
    #[arg(long, alias = "assume-kv-reuse", overrides_with = "no_router_assume_kv_reuse")]
    router_assume_kv_reuse: bool,
    /// They count for each request [env: DYN_ROUTER_ASSUME_KV_REUSE=false]
    #[arg(long, alias = "no-assume-kv-reuse", overrides_with = "router_assume_kv_reuse")]
    no_router_assume_kv_reuse: bool,
    /// Prompt tokens count until they are computed (default)
    #[arg(long, overrides_with = "no_router_track_prefill_tokens")]
    router_track_prefill_tokens: bool,
    /// They do not count [env: DYN_ROUTER_TRACK_PREFILL_TOKENS=false]
    #[arg(long, overrides_with = "router_track_prefill_tokens")]
    no_router_track_prefill_tokens: bool,
    /// Blocks of outputs count as they fill [env: DYN_ROUTER_TRACK_OUTPUT_BLOCKS]
    #[arg(long, alias = "track-output-blocks", overrides_with = "no_router_track_output_blocks")]
    router_track_output_blocks: bool,
    /// They do not count (default)
    #[arg(long, alias = "no-track-output-blocks", overrides_with = "router_track_output_blocks")]
    no_router_track_output_blocks: bool,
}

/// A setting as it was given.
struct Said {
    /// `--flag` or the variable.
    name: String,
    text: String,
    key: &'static str,
    value: Value,
}

impl Given {
    /// What the router is told. What would have no effect is an error.
    pub(super) fn resolve(&self, mode: RoutingMode, env: &Env) -> Result<KvConfig, Failure> {
        let mut router = RouterConfig::default();
        let mut said = Vec::new();
        for (flag, variable, key, text) in self.values() {
            said.extend(value(flag, variable, key, text, env)?);
        }
        for (flag, variable, key, on, off) in self.switches() {
            said.extend(switch(flag, variable, key, (on, off), env)?);
        }
        let defaults = router.to_json();
        // By key, so that a setting is there before those that depend on it.
        said.sort_by_key(|one| one.key != "use_kv_events");
        for one in said.iter().filter(|one| !equal(&defaults[one.key], &one.value)) {
            if mode != RoutingMode::Kv {
                return Err(Failure::input(format_args!("{}: has no effect without --router-mode kv", one.name)));
            }
            let needs = match one.key {
                "router_ttl_secs" if router.use_kv_events => Some("without --no-router-kv-events"),
                "router_predicted_ttl_secs" if !router.use_kv_events => Some("with --no-router-kv-events"),
                "router_queue_policy" if said.iter().all(|other| other.key != "router_queue_threshold") => {
                    Some("without --router-queue-threshold")
                }
                _ => None,
            };
            if let Some(needs) = needs {
                return Err(Failure::input(format_args!("{}: has no effect {needs}", one.name)));
            }
            router.set(one.key, &one.value).map_err(|error| refusal(one, &error))?;
        }
        Ok(KvConfig { router, policy: None })
    }

    /// Flag, variable, key and value of settings that have one.
    #[rustfmt::skip]
    fn values(&self) -> [(&'static str, &'static str, &'static str, Option<&str>); 11] {
        [
            ("router-kv-overlap-score-credit", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT", "overlap_score_credit", self.router_kv_overlap_score_credit.as_deref()),
            ("router-kv-overlap-score-credit-decay", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY", "overlap_score_credit_decay", self.router_kv_overlap_score_credit_decay.as_deref()),
            ("router-prefill-load-scale", "DYN_ROUTER_PREFILL_LOAD_SCALE", "prefill_load_scale", self.router_prefill_load_scale.as_deref()),
            ("router-decode-active-request-weight", "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT", "decode_active_request_weight", self.router_decode_active_request_weight.as_deref()),
            ("router-host-cache-hit-weight", "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT", "host_cache_hit_weight", self.router_host_cache_hit_weight.as_deref()),
            ("router-disk-cache-hit-weight", "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT", "disk_cache_hit_weight", self.router_disk_cache_hit_weight.as_deref()),
            ("router-temperature", "DYN_ROUTER_TEMPERATURE", "router_temperature", self.router_temperature.as_deref()),
            ("router-queue-threshold", "DYN_ROUTER_QUEUE_THRESHOLD", "router_queue_threshold", self.router_queue_threshold.as_deref()),
            ("router-queue-policy", "DYN_ROUTER_QUEUE_POLICY", "router_queue_policy", self.router_queue_policy.as_deref()),
            ("router-ttl-secs", "DYN_ROUTER_TTL_SECS", "router_ttl_secs", self.router_ttl_secs.as_deref()),
            ("router-predicted-ttl-secs", "DYN_ROUTER_PREDICTED_TTL_SECS", "router_predicted_ttl_secs", self.router_predicted_ttl_secs.as_deref()),
        ]
    }

    /// Flag, variable, key, and whether it was switched on or off.
    #[rustfmt::skip]
    fn switches(&self) -> [(&'static str, &'static str, &'static str, bool, bool); 4] {
        [
            ("router-kv-events", "DYN_ROUTER_USE_KV_EVENTS", "use_kv_events", self.router_kv_events, self.no_router_kv_events),
            ("router-assume-kv-reuse", "DYN_ROUTER_ASSUME_KV_REUSE", "router_assume_kv_reuse", self.router_assume_kv_reuse, self.no_router_assume_kv_reuse),
            ("router-track-prefill-tokens", "DYN_ROUTER_TRACK_PREFILL_TOKENS", "router_track_prefill_tokens", self.router_track_prefill_tokens, self.no_router_track_prefill_tokens),
            ("router-track-output-blocks", "DYN_ROUTER_TRACK_OUTPUT_BLOCKS", "router_track_output_blocks", self.router_track_output_blocks, self.no_router_track_output_blocks),
        ]
    }
}

fn value(
    flag: &str,
    variable: &'static str,
    key: &'static str,
    given: Option<&str>,
    env: &Env,
) -> Result<Option<Said>, Failure> {
    let (name, text) = match (given, env.get(variable)) {
        (Some(text), _) => (format!("--{flag}"), text),
        (None, Some(text)) => (variable.to_owned(), text),
        (None, None) => return Ok(None),
    };
    let text = text.trim().to_owned();
    let value = if key == "router_queue_policy" {
        if !["fcfs", "lcfs", "wspt"].contains(&text.as_str()) {
            return Err(bad(&name, &text, "fcfs, lcfs, wspt"));
        }
        json!(text)
    } else if text.eq_ignore_ascii_case("none") && key == "router_queue_threshold" {
        // The published default, spelled out.
        Value::Null
    } else {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        json!(number.ok_or_else(|| bad(&name, &text, allowed(key)))?)
    };
    Ok(Some(Said { name, text, key, value }))
}

fn allowed(key: &str) -> &'static str {
    match key {
        "host_cache_hit_weight" | "disk_cache_hit_weight" => "a number from 0 to 1",
        "router_ttl_secs" | "router_predicted_ttl_secs" => "a number above 0",
        _ => "a number of at least 0",
    }
}

fn switch(
    flag: &str,
    variable: &'static str,
    key: &'static str,
    (on, off): (bool, bool),
    env: &Env,
) -> Result<Option<Said>, Failure> {
    if on || off {
        let name = if on { format!("--{flag}") } else { format!("--no-{flag}") };
        return Ok(Some(Said { name, text: on.to_string(), key, value: json!(on) }));
    }
    let Some(text) = env.get(variable) else { return Ok(None) };
    let value = match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => true,
        "false" | "0" | "no" | "off" => false,
        _ => return Err(bad(variable, text, SWITCH)),
    };
    Ok(Some(Said { name: variable.to_owned(), text: text.to_owned(), key, value: json!(value) }))
}

fn bad(name: &str, text: &str, allowed: &str) -> Failure {
    Failure::input(format_args!("{name}: `{text}` cannot be used (allowed: {allowed})"))
}

fn refusal(said: &Said, error: &ConfigError) -> Failure {
    match error {
        ConfigError::Range { allowed, .. } => bad(&said.name, &said.text, allowed),
        other => Failure::input(format_args!("{}: {other}", said.name)),
    }
}

/// The same number, whether or not it is written with a point.
fn equal(default: &Value, value: &Value) -> bool {
    default == value || (default.is_number() && default.as_f64() == value.as_f64())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Only {
        #[command(flatten)]
        given: Given,
    }

    /// The keys that differ from their defaults.
    fn told(config: &RouterConfig) -> String {
        let defaults = RouterConfig::default().to_json();
        let mut text = String::new();
        for (key, value) in config.to_json().iter().filter(|(key, value)| defaults.get(*key) != Some(*value)) {
            write!(text, " {key}={value}").unwrap();
        }
        text
    }

    fn resolve(mode: RoutingMode, flags: &[&str], variables: &[(&str, &str)]) -> Result<String, String> {
        let only = <Only as clap::Parser>::try_parse_from(["frontend"].iter().chain(flags)).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let resolved = only.given.resolve(mode, &Env::default().with(variables));
        resolved.map(|config| told(&config.router)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn flags_win_over_variables_and_reach_the_router() {
        let kv = |flags: &[&str], variables: &[(&str, &str)]| resolve(RoutingMode::Kv, flags, variables).unwrap();
        assert_eq!(kv(&[], &[]), "");
        assert_eq!(kv(&["--router-temperature", "0.5"], &[("DYN_ROUTER_TEMPERATURE", "1")]), " router_temperature=0.5");
        assert_eq!(
            kv(&["--no-kv-events", "--router-ttl-secs=60"], &[("DYN_ROUTER_ASSUME_KV_REUSE", "off")]),
            " router_assume_kv_reuse=false router_ttl_secs=60.0 use_kv_events=false"
        );
        assert_eq!(
            kv(&[], &[("DYN_ROUTER_QUEUE_THRESHOLD", "0.5"), ("DYN_ROUTER_QUEUE_POLICY", "wspt")]),
            " router_queue_policy=\"wspt\" router_queue_threshold=0.5"
        );
        assert_eq!(kv(&["--no-router-kv-events", "--router-kv-events", "--router-queue-threshold", "None"], &[]), "");
    }

    #[test]
    fn defaults_may_be_stated_in_every_mode_and_others_only_with_the_router() {
        let robin = |flags: &[&str], variables: &[(&str, &str)]| resolve(RoutingMode::RoundRobin, flags, variables);
        let stated = ["--router-temperature", "0", "--router-kv-events", "--router-queue-policy", "fcfs"];
        assert_eq!(robin(&stated, &[("DYN_ROUTER_TTL_SECS", "120")]), Ok(String::new()));
        let alone = "has no effect without --router-mode kv";
        assert_eq!(robin(&["--router-temperature", "1"], &[]), Err(format!("--router-temperature: {alone}")));
        assert_eq!(robin(&[], &[("DYN_ROUTER_USE_KV_EVENTS", "0")]), Err(format!("DYN_ROUTER_USE_KV_EVENTS: {alone}")));
        assert_eq!(robin(&["--no-router-kv-events"], &[]), Err(format!("--no-router-kv-events: {alone}")));
    }

    #[test]
    fn values_that_cannot_be_used_are_named_with_what_is_allowed() {
        let cannot = |name: &str, text: &str, allowed: &str| {
            Err(format!("{name}: `{text}` cannot be used (allowed: {allowed})"))
        };
        let kv = |flags: &[&str], variables: &[(&str, &str)]| resolve(RoutingMode::Kv, flags, variables);
        let not_negative = "a number of at least 0";
        for flag in [
            "--router-kv-overlap-score-credit",
            "--router-kv-overlap-score-credit-decay",
            "--router-prefill-load-scale",
            "--router-decode-active-request-weight",
            "--router-temperature",
            "--router-queue-threshold",
        ] {
            for text in ["-1", "x", "nan", "inf", ""] {
                assert_eq!(kv(&[flag, text], &[]), cannot(flag, text, not_negative));
            }
        }
        for flag in ["--router-host-cache-hit-weight", "--router-disk-cache-hit-weight"] {
            for text in ["-0.1", "1.1", "much"] {
                assert_eq!(kv(&[flag, text], &[]), cannot(flag, text, "a number from 0 to 1"));
            }
        }
        for text in ["0", "-5", "soon"] {
            let positive = "a number above 0";
            let flag = "--router-ttl-secs";
            assert_eq!(kv(&["--no-router-kv-events", flag, text], &[]), cannot(flag, text, positive));
            let flag = "--router-predicted-ttl-secs";
            assert_eq!(kv(&[flag, text], &[]), cannot(flag, text, positive));
        }
        assert_eq!(
            kv(&["--router-queue-policy", "best"], &[]),
            cannot("--router-queue-policy", "best", "fcfs, lcfs, wspt")
        );
        for variable in [
            "DYN_ROUTER_USE_KV_EVENTS",
            "DYN_ROUTER_ASSUME_KV_REUSE",
            "DYN_ROUTER_TRACK_PREFILL_TOKENS",
            "DYN_ROUTER_TRACK_OUTPUT_BLOCKS",
        ] {
            assert_eq!(kv(&[], &[(variable, "maybe")]), cannot(variable, "maybe", SWITCH));
        }
        assert_eq!(kv(&[], &[("DYN_ROUTER_TEMPERATURE", "-2")]), cannot("DYN_ROUTER_TEMPERATURE", "-2", not_negative));
    }

    #[test]
    fn what_would_have_no_effect_is_an_error() {
        let says = |flags: &[&str], message: &str| {
            assert_eq!(resolve(RoutingMode::Kv, flags, &[]), Err(message.to_owned()));
        };
        says(&["--router-ttl-secs", "60"], "--router-ttl-secs: has no effect without --no-router-kv-events");
        says(
            &["--no-router-kv-events", "--router-predicted-ttl-secs", "1"],
            "--router-predicted-ttl-secs: has no effect with --no-router-kv-events",
        );
        says(
            &["--router-queue-policy", "lcfs"],
            "--router-queue-policy: has no effect without --router-queue-threshold",
        );
    }
}
