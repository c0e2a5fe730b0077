//! Published options of parts that this frontend does not have. Each is known by name; set to anything but its default it
//! is refused with the reason, so that nothing is ignored in silence.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::failure::Failure;
use crate::live::Env;

const KV: &str = "this version's KV router cannot do that";
const IDLE: &str = "has no effect on choices, as in Dynamo 1.6.1";
const SIZE: &str = "the size of KV blocks comes from the workers' model cards";
const AIS: &str =
    "the AISimulate performance model belongs to --router-prefill-load-model, which this version does not have";
const TLS: &str = "this frontend speaks plain HTTP and TCP; let a proxy in front of it end TLS";
const GRPC: &str = "KServe over gRPC is not served; use the OpenAI API";
const PYTHON: &str = "this frontend runs no Python";
const TEXT: &str = "this frontend has one tokenizer and one output format";
const CARD: &str = "models and their files come from the workers' model cards";
const PATH: &str = "the paths of this frontend are fixed";

/// An option that others have.
#[derive(Debug)]
struct Elsewhere {
    /// Without `--`; empty: only a variable.
    flag: &'static str,
    variable: &'static str,
    /// What it may be set to, because that is what happens; empty: nothing.
    default: &'static str,
    reason: &'static str,
}

const fn of(flag: &'static str, variable: &'static str, default: &'static str, reason: &'static str) -> Elsewhere {
    Elsewhere { flag, variable, default, reason }
}

/// Options that take a value.
#[rustfmt::skip]
const VALUES: &[Elsewhere] = &[
    of("router-tracking-hash", "DYN_ROUTER_TRACKING_HASH", "public-xxh3-v1", KV),
    of("router-tracking-key-file", "DYN_ROUTER_TRACKING_KEY_FILE", "", KV),
    of("router-tracking-key-id", "DYN_ROUTER_TRACKING_KEY_ID", "", KV),
    of("router-prefill-load-model", "DYN_ROUTER_PREFILL_LOAD_MODEL", "none", KV),
    of("router-approximate-cache-policy", "DYN_ROUTER_APPROXIMATE_CACHE_POLICY", "ttl", IDLE),
    of("router-policy-config", "DYN_ROUTER_POLICY_CONFIG", "", KV),
    of("router-conditional-disagg-config", "DYN_ROUTER_CONDITIONAL_DISAGG_CONFIG", "", KV),
    of("router-prefill-policy", "DYN_ROUTER_PREFILL_POLICY", "", KV),
    of("router-decode-policy", "DYN_ROUTER_DECODE_POLICY", "", KV),
    of("router-event-threads", "DYN_ROUTER_EVENT_THREADS", "4", IDLE),
    of("shared-cache-multiplier", "DYN_SHARED_CACHE_MULTIPLIER", "", KV),
    of("shared-cache-type", "DYN_SHARED_CACHE_TYPE", "none", KV),
    of("router-session-affinity-ttl-secs", "DYN_ROUTER_SESSION_AFFINITY_TTL_SECS", "", KV),
    of("router-session-affinity-mode", "DYN_ROUTER_SESSION_AFFINITY_MODE", "hard", KV),
    of("active-decode-blocks-threshold", "DYN_ACTIVE_DECODE_BLOCKS_THRESHOLD", "None", KV),
    of("active-prefill-tokens-threshold", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD", "None", KV),
    of("active-prefill-tokens-threshold-frac", "DYN_ACTIVE_PREFILL_TOKENS_THRESHOLD_FRAC", "None", KV),
    of("kv-cache-block-size", "DYN_KV_CACHE_BLOCK_SIZE", "", SIZE),
    of("ais-perf-config", "DYN_AIS_PERF_CONFIG", "", AIS),
    of("ais-backend", "DYN_AIS_BACKEND", "", AIS),
    of("ais-system", "DYN_AIS_SYSTEM", "", AIS),
    of("ais-backend-version", "DYN_AIS_BACKEND_VERSION", "", AIS),
    of("ais-tp-size", "DYN_AIS_TP_SIZE", "", AIS),
    of("ais-model-path", "DYN_AIS_MODEL_PATH", "", AIS),
    of("ais-moe-tp-size", "DYN_AIS_MOE_TP_SIZE", "", AIS),
    of("ais-moe-ep-size", "DYN_AIS_MOE_EP_SIZE", "", AIS),
    of("ais-attention-dp-size", "DYN_AIS_ATTENTION_DP_SIZE", "", AIS),
    of("ais-nextn", "DYN_AIS_NEXTN", "", AIS),
    of("ais-nextn-accept-rates", "DYN_AIS_NEXTN_ACCEPT_RATES", "", AIS),
    of("ais-mtp-seed", "DYN_AIS_MTP_SEED", "", AIS),
    of("aic-backend", "", "", AIS),
    of("aic-system", "", "", AIS),
    of("aic-backend-version", "", "", AIS),
    of("aic-tp-size", "", "", AIS),
    of("aic-model-path", "", "", AIS),
    of("aic-moe-tp-size", "", "", AIS),
    of("aic-moe-ep-size", "", "", AIS),
    of("aic-attention-dp-size", "", "", AIS),
    of("aic-nextn", "", "", AIS),
    of("aic-nextn-accept-rates", "", "", AIS),
    of("aic-mtp-seed", "", "", AIS),
    of("tls-cert-path", "DYN_TLS_CERT_PATH", "", TLS),
    of("tls-key-path", "DYN_TLS_KEY_PATH", "", TLS),
    of("tls-client-ca-cert-path", "DYN_TLS_CLIENT_CA_CERT_PATH", "", TLS),
    of("tcp-tls-cert-path", "DYN_TCP_TLS_CERT_PATH", "", TLS),
    of("tcp-tls-key-path", "DYN_TCP_TLS_KEY_PATH", "", TLS),
    of("tcp-tls-ca-cert-path", "DYN_TCP_TLS_CA_CERT_PATH", "", TLS),
    of("tcp-tls-client-cert-path", "DYN_TCP_TLS_CLIENT_CERT_PATH", "", TLS),
    of("tcp-tls-client-key-path", "DYN_TCP_TLS_CLIENT_KEY_PATH", "", TLS),
    of("tcp-tls-client-ca-cert-path", "DYN_TCP_TLS_CLIENT_CA_CERT_PATH", "", TLS),
    of("nats-tls-ca-cert-path", "NATS_TLS_CA_CERT_PATH", "", TLS),
    of("nats-tls-client-cert-path", "NATS_TLS_CLIENT_CERT_PATH", "", TLS),
    of("nats-tls-client-key-path", "NATS_TLS_CLIENT_KEY_PATH", "", TLS),
    of("grpc-metrics-port", "DYN_GRPC_METRICS_PORT", "8788", GRPC),
    of("frontend-route-extension", "DYN_FRONTEND_ROUTE_EXTENSIONS", "", PYTHON),
    of("dyn-chat-processor", "DYN_CHAT_PROCESSOR", "dynamo", PYTHON),
    of("dyn-preprocess-workers", "DYN_PREPROCESS_WORKERS", "0", PYTHON),
    of("tokenizer", "DYN_TOKENIZER", "default", TEXT),
    of("reasoning-field-name", "DYN_REASONING_FIELD_NAME", "reasoning_content", TEXT),
    of("model-path", "DYN_MODEL_PATH", "", CARD),
    of("dump-config-to", "DYN_DUMP_CONFIG_TO", "", "the configuration is its flags and variables, and is not written anywhere"),
    of("", "DYN_HTTP_SVC_CHAT_PATH", "/v1/chat/completions", PATH),
    of("", "DYN_HTTP_SVC_CMP_PATH", "/v1/completions", PATH),
    of("", "DYN_HTTP_SVC_MODELS_PATH", "/v1/models", PATH),
    of("", "DYN_HTTP_SVC_HEALTH_PATH", "/health", PATH),
    of("", "DYN_HTTP_SVC_LIVE_PATH", "/live", PATH),
    of("", "DYN_HTTP_SVC_METRICS_PATH", "/metrics", PATH),
];

/// An option that is on or off.
#[derive(Debug)]
struct Switch {
    option: Elsewhere,
    /// Its `--no-` form.
    off: &'static str,
}

const fn switch(
    flag: &'static str,
    off: &'static str,
    variable: &'static str,
    default: &'static str,
    reason: &'static str,
) -> Switch {
    Switch { option: of(flag, variable, default, reason), off }
}

fn all() -> impl Iterator<Item = &'static Elsewhere> {
    VALUES.iter().chain(SWITCHES.iter().map(|switch| &switch.option))
}

/// Options that are on or off; each also has a `--no-` form.
#[rustfmt::skip]
const SWITCHES: &[Switch] = &[
    switch("load-aware", "no-load-aware", "DYN_ROUTER_LOAD_AWARE", "false", KV),
    switch("serve-indexer", "no-serve-indexer", "DYN_SERVE_INDEXER", "false", KV),
    switch("router-replica-sync", "no-router-replica-sync", "DYN_ROUTER_REPLICA_SYNC", "false", KV),
    switch("router-track-active-blocks", "no-router-track-active-blocks", "DYN_ROUTER_TRACK_ACTIVE_BLOCKS", "true", IDLE),
    switch("track-active-blocks", "no-track-active-blocks", "", "true", IDLE),
    switch("router-conditional-disagg", "no-router-conditional-disagg", "DYN_ROUTER_CONDITIONAL_DISAGG", "false", KV),
    switch("use-remote-indexer", "no-use-remote-indexer", "DYN_USE_REMOTE_INDEXER", "false", KV),
    switch("enable-session-prefix-index", "no-enable-session-prefix-index", "DYN_ENABLE_SESSION_PREFIX_INDEX", "false", KV),
    switch("interactive", "no-interactive", "DYN_INTERACTIVE", "false", "this frontend has no chat of its own; use an OpenAI client"),
    switch("nats-tls-insecure", "no-nats-tls-insecure", "NATS_TLS_INSECURE", "false", TLS),
    switch("kserve-grpc-server", "no-kserve-grpc-server", "DYN_KSERVE_GRPC_SERVER", "false", GRPC),
    switch("enable-anthropic-api", "no-enable-anthropic-api", "DYN_ENABLE_ANTHROPIC_API", "false", "only the OpenAI API is served"),
    switch("strip-anthropic-preamble", "no-strip-anthropic-preamble", "DYN_STRIP_ANTHROPIC_PREAMBLE", "true", "only the OpenAI API is served"),
    switch("enable-streaming-tool-dispatch", "no-enable-streaming-tool-dispatch", "DYN_ENABLE_STREAMING_TOOL_DISPATCH", "false", TEXT),
    switch("enable-streaming-reasoning-dispatch", "no-enable-streaming-reasoning-dispatch", "DYN_ENABLE_STREAMING_REASONING_DISPATCH", "false", TEXT),
    switch("exclude-tools-when-tool-choice-none", "no-exclude-tools-when-tool-choice-none", "DYN_EXCLUDE_TOOLS_WHEN_TOOL_CHOICE_NONE", "true", TEXT),
    switch("dyn-debug-perf", "no-dyn-debug-perf", "DYN_DEBUG_PERF", "false", PYTHON),
    switch("tokenizer-fallback", "no-tokenizer-fallback", "DYN_TOKENIZER_FALLBACK", "true", TEXT),
    switch("trust-remote-code", "no-trust-remote-code", "DYN_TRUST_REMOTE_CODE", "false", PYTHON),
];

/// The flags of such options that were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Given(Vec<(&'static str, String)>);

impl Given {
    /// Refuses whatever would have no effect; flags before variables.
    pub(super) fn check(&self, env: &Env) -> Result<(), Failure> {
        for (flag, value) in &self.0 {
            let known = all().find(|option| option.flag == *flag);
            if let Some(option) = known.filter(|option| !same(option.default, value)) {
                return Err(Failure::input(format_args!("--{flag}: `{value}`: {}", option.reason)));
            }
        }
        for option in all() {
            // A flag that states the default overrides the variable.
            let overridden = self.0.iter().any(|(flag, _)| *flag == option.flag);
            let set = env.get(option.variable).filter(|_| !option.variable.is_empty() && !overridden);
            if let Some(value) = set.filter(|value| !same(option.default, value)) {
                return Err(Failure::input(format_args!("{}: `{value}`: {}", option.variable, option.reason)));
            }
        }
        Ok(())
    }
}

/// Both say the same: as text, number or switch.
fn same(default: &str, value: &str) -> bool {
    let value = value.trim();
    let number = |text: &str| text.parse::<f64>().ok();
    let switch = |text: &str| match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    };
    let equal_numbers = number(default).is_some() && number(default) == number(value);
    let equal_switches = matches!(default, "true" | "false") && switch(default) == switch(value);
    default.eq_ignore_ascii_case(value) || equal_numbers || equal_switches
}

impl clap::Args for Given {
    fn augment_args(mut command: Command) -> Command {
        for option in VALUES.iter().filter(|option| !option.flag.is_empty()) {
            command = command.arg(Arg::new(option.flag).long(option.flag).hide(true).action(ArgAction::Append));
        }
        for Switch { option, off } in SWITCHES {
            let on = Arg::new(option.flag).long(option.flag).hide(true).action(ArgAction::SetTrue);
            let on = if option.flag == "interactive" { on.short('i') } else { on };
            let off = Arg::new(*off).long(*off).hide(true).action(ArgAction::SetTrue).overrides_with(option.flag);
            command = command.arg(on).arg(off);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for option in VALUES.iter().filter(|option| !option.flag.is_empty()) {
            let values = matches.get_many::<String>(option.flag).into_iter().flatten();
            given.extend(values.map(|value| (option.flag, value.clone())));
        }
        let named = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        for Switch { option, off } in SWITCHES {
            for (id, value) in [(option.flag, "true"), (*off, "false")] {
                given.extend(named(id).then(|| (option.flag, value.to_owned())));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Only {
        #[command(flatten)]
        given: Given,
    }

    fn check(flags: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
        let only = <Only as clap::Parser>::try_parse_from(["frontend"].iter().chain(flags)).unwrap();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        only.given.check(&Env::default().with(variables)).map_err(|failure| failure.to_string())
    }

    #[test]
    fn options_at_their_defaults_are_taken() {
        let flags = ["--router-event-threads", "4", "--no-load-aware", "--track-active-blocks", "--tokenizer=default"];
        assert_eq!(check(&flags, &[("DYN_ROUTER_EVENT_THREADS", "4"), ("DYN_INTERACTIVE", "0")]), Ok(()));
    }

    #[test]
    fn others_are_refused_by_name_with_a_reason() {
        let says = |flags: &[&str], variables: &[(&str, &str)], parts: [&str; 2]| {
            let error = check(flags, variables).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        };
        says(&["--router-replica-sync"], &[], ["--router-replica-sync: `true`", "KV router"]);
        says(&["--router-event-threads", "8"], &[], ["--router-event-threads: `8`", "no effect"]);
        says(&["--kv-cache-block-size", "16"], &[], ["--kv-cache-block-size: `16`", "model cards"]);
        says(&["-i"], &[], ["--interactive", "OpenAI client"]);
        says(&["--tls-cert-path", "x.pem"], &[], ["--tls-cert-path", "TLS"]);
        says(&[], &[("DYN_KSERVE_GRPC_SERVER", "true")], ["DYN_KSERVE_GRPC_SERVER", "gRPC"]);
        says(&[], &[("DYN_HTTP_SVC_LIVE_PATH", "/x")], ["DYN_HTTP_SVC_LIVE_PATH", "fixed"]);
    }
}
