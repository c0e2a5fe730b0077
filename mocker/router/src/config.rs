//! Settings of the router: the keys of Dynamo's `KvRouterConfig` (1.6.1), with its names and defaults.

mod check;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

use crate::request::Decision;

/// Why settings can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Not an object of keys and values, an unknown key, or a value of the wrong type. The message names what is allowed.
    #[error("router configuration: {0}")]
    Shape(String),
    /// A value that means nothing.
    #[error("router configuration: {key} is {value}, must be {allowed}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// A policy that can't work.
    #[error("router policy: {0}")]
    Policy(String),
}

/// The order of waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// First come, first served.
    #[default]
    Fcfs,
    /// Last come, first served.
    Lcfs,
    /// Weighted shortest processing time: the fewer uncached tokens, the earlier.
    Wspt,
}

/// How the load of prompts in computation is seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PrefillLoadModel {
    /// In full until it is done.
    #[default]
    None,
    /// The oldest prompt of a rank counts less and less, by an estimate of its duration.
    #[serde(alias = "ais")]
    Aic,
}

/// How the approximate index forgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CachePolicy {
    /// By time.
    #[default]
    Ttl,
    /// Accepted; by time as well, since the published one evicted nothing either.
    Lru,
}

/// A cache that all workers share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharedCache {
    /// None.
    #[default]
    None,
    /// `SGLang`'s.
    Hicache,
}

/// Settings of the router.
#[allow(clippy::struct_excessive_bools, reason = "the published keys")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouterConfig {
    /// Weight of blocks cached on the device; 0 drops all credit from the cost. At least 0; default 1.
    pub overlap_score_credit: f64,
    /// Old name of `prefill_load_scale`; 0 sets scale and credit to 0. Unset by default.
    pub overlap_score_weight: Option<f64>,
    /// How fast the device credit fades with prompt tokens that a rank has more than the least loaded. At least 0; default 0.
    pub overlap_score_credit_decay: f64,
    /// Weight of the prompt tokens to be computed, in blocks. At least 0; default 1.
    pub prefill_load_scale: f64,
    /// Cost per open request. At least 0; default 0.
    pub decode_active_request_weight: f64,
    /// Weight of blocks cached in host memory. 0 to 1; default 0.75.
    pub host_cache_hit_weight: f64,
    /// Weight of blocks cached on disk. 0 to 1; default 0.25.
    pub disk_cache_hit_weight: f64,
    /// 0: the cheapest wins; above: by softmax over costs. At least 0; default 0.
    pub router_temperature: f64,
    /// Index from workers' events; without, from the router's own decisions. Default true.
    pub use_kv_events: bool,
    /// Tell other routers of reservations. Default false. The router itself sends nothing.
    pub router_replica_sync: bool,
    /// No effect on choices, as measured. Default true.
    pub router_track_active_blocks: bool,
    /// No effect on choices, as measured: whoever drives the router says what output there is. Default false.
    pub router_track_output_blocks: bool,
    /// Equal blocks of a rank's open requests count once. Default true.
    pub router_assume_kv_reuse: bool,
    /// Prompt tokens count until they are computed. Default true.
    pub router_track_prefill_tokens: bool,
    /// How replicas name blocks to each other. Default `public-xxh3-v1`.
    pub router_tracking_hash: String,
    /// Key file of keyed names. Unset by default.
    pub router_tracking_key_file: Option<String>,
    /// Name of the key. Unset by default.
    pub router_tracking_key_id: Option<String>,
    /// How the load of prompts in computation is seen. Default none.
    pub router_prefill_load_model: PrefillLoadModel,
    /// Seconds that the approximate index believes in a block. Above 0; default 120.
    pub router_ttl_secs: f64,
    /// How the approximate index forgets. Default ttl.
    pub router_approximate_cache_policy: CachePolicy,
    /// Share of `max_num_batched_tokens` above which a rank is busy and requests wait. At least 0; unset: no queue.
    pub router_queue_threshold: Option<f64>,
    /// Path of a policy file. Unset by default. The router gets its content.
    pub router_policy_config: Option<String>,
    /// Threads of the published index. At least 1; default 4. Without effect here.
    pub router_event_threads: u32,
    /// Route before the first worker is known. Default false.
    pub skip_initial_worker_wait: bool,
    /// Order of waiting requests. Default fcfs.
    pub router_queue_policy: QueuePolicy,
    /// Ask another component's index. Default false.
    pub use_remote_indexer: bool,
    /// Answer others from this index. Default false.
    pub serve_indexer: bool,
    /// Not driven when measured. Default false.
    pub enable_session_prefix_index: bool,
    /// Weight of blocks in a shared cache. 0 to 1; unset by default.
    pub shared_cache_multiplier: Option<f64>,
    /// Kind of the shared cache. Default none.
    pub shared_cache_type: SharedCache,
    /// Seconds that reservations are believed beside events. Above 0; unset by default.
    pub router_predicted_ttl_secs: Option<f64>,
    /// Leave out the prefill pool where that is better. Default false.
    pub conditional_disagg_enabled: bool,
    /// How that is decided. Unset by default.
    pub conditional_disagg_policy: Option<String>,
    /// Uncached prompt tokens up to which prompts are computed where they are decoded. Unset by default.
    pub conditional_disagg_eff_isl_threshold: Option<u64>,
    /// The same as a share of the prompt. 0 to 1; unset by default.
    pub conditional_disagg_eff_isl_ratio_threshold: Option<f64>,
    /// Share of `max_num_batched_tokens` above which answers say busy. At least 0; unset by default.
    pub conditional_disagg_prefill_busy_threshold: Option<f64>,
    /// Share of `total_kv_blocks` above which answers say busy. At least 0; unset by default.
    pub conditional_disagg_decode_busy_threshold: Option<f64>,
}

impl Default for RouterConfig {
    fn default() -> Self {
        Self {
            overlap_score_credit: 1.0,
            overlap_score_weight: None,
            overlap_score_credit_decay: 0.0,
            prefill_load_scale: 1.0,
            decode_active_request_weight: 0.0,
            host_cache_hit_weight: 0.75,
            disk_cache_hit_weight: 0.25,
            router_temperature: 0.0,
            use_kv_events: true,
            router_replica_sync: false,
            router_track_active_blocks: true,
            router_track_output_blocks: false,
            router_assume_kv_reuse: true,
            router_track_prefill_tokens: true,
            router_tracking_hash: "public-xxh3-v1".to_owned(),
            router_tracking_key_file: None,
            router_tracking_key_id: None,
            router_prefill_load_model: PrefillLoadModel::None,
            router_ttl_secs: 120.0,
            router_approximate_cache_policy: CachePolicy::Ttl,
            router_queue_threshold: None,
            router_policy_config: None,
            router_event_threads: 4,
            skip_initial_worker_wait: false,
            router_queue_policy: QueuePolicy::Fcfs,
            use_remote_indexer: false,
            serve_indexer: false,
            enable_session_prefix_index: false,
            shared_cache_multiplier: None,
            shared_cache_type: SharedCache::None,
            router_predicted_ttl_secs: None,
            conditional_disagg_enabled: false,
            conditional_disagg_policy: None,
            conditional_disagg_eff_isl_threshold: None,
            conditional_disagg_eff_isl_ratio_threshold: None,
            conditional_disagg_prefill_busy_threshold: None,
            conditional_disagg_decode_busy_threshold: None,
        }
    }
}

impl RouterConfig {
    /// Reads an object of keys; those that are missing have their defaults.
    pub fn from_json(value: &Value) -> Result<Self, ConfigError> {
        if !value.is_object() {
            return Err(ConfigError::Shape(format!("must be an object, is {value}")));
        }
        let config: Self = read(value).map_err(ConfigError::Shape)?;
        config.check()?;
        Ok(config)
    }

    /// Sets one key.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let mut all = self.to_json();
        all.insert(key.to_owned(), value.clone());
        *self = Self::from_json(&Value::Object(all))?;
        Ok(())
    }

    /// All keys with their values.
    pub fn to_json(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(all)) => all,
            // A struct of plain values is always an object.
            _ => Map::new(),
        }
    }

    /// The published names of all keys.
    pub fn keys() -> Vec<String> {
        Self::default().to_json().into_iter().map(|(key, _)| key).collect()
    }

    /// The factor of prompt tokens, by whichever name it is given.
    pub fn scale(&self) -> f64 {
        self.overlap_score_weight.unwrap_or(self.prefill_load_scale)
    }

    /// The weight of device blocks; an `overlap_score_weight` of 0 takes it away.
    pub fn credit(&self) -> f64 {
        if self.overlap_score_weight == Some(0.0) { 0.0 } else { self.overlap_score_credit }
    }

    /// Keys that are set and that change nothing here, so that whoever reads settings can say so.
    pub fn without_effect(&self) -> Vec<&'static str> {
        let default = Self::default();
        let mut keys = Vec::new();
        let mut add = |key, set: bool| {
            if set {
                keys.push(key);
            }
        };
        add("router_track_active_blocks", self.router_track_active_blocks != default.router_track_active_blocks);
        add("router_tracking_hash", self.router_tracking_hash != default.router_tracking_hash);
        add("router_tracking_key_file", self.router_tracking_key_file.is_some());
        add("router_tracking_key_id", self.router_tracking_key_id.is_some());
        add("router_approximate_cache_policy", self.router_approximate_cache_policy == CachePolicy::Lru);
        add("router_event_threads", self.router_event_threads != default.router_event_threads);
        add("use_remote_indexer", self.use_remote_indexer);
        add("serve_indexer", self.serve_indexer);
        add("enable_session_prefix_index", self.enable_session_prefix_index);
        add("shared_cache_multiplier", self.shared_cache_multiplier.is_some());
        add("shared_cache_type", self.shared_cache_type != SharedCache::None);
        add("conditional_disagg_policy", self.conditional_disagg_policy.is_some());
        keys
    }

    /// Whether a prompt is better computed where it is decoded, without the prefill pool (`conditional_disagg_*`): so little
    /// of it is left to compute that one of the thresholds holds, and the decode rank is not busy. `decision` is that of the
    /// decode pool.
    pub fn skips_prefill_pool(&self, decision: &Decision, tokens: u32) -> bool {
        let left = u64::from(decision.effective_prefill_tokens);
        let few = self.conditional_disagg_eff_isl_threshold.is_some_and(|most| left <= most);
        let share = left as f64 / f64::from(tokens.max(1));
        let little = self.conditional_disagg_eff_isl_ratio_threshold.is_some_and(|most| share <= most);
        self.conditional_disagg_enabled && (few || little) && decision.decode_busy != Some(true)
    }

    /// What a pool of prefill workers is routed by in offline runs.
    #[must_use]
    pub fn prefill_pool(&self) -> Self {
        Self { router_track_active_blocks: false, ..self.clone() }
    }

    /// What a pool of decode workers is routed by: prompts arrive computed, and nothing of them is looked up.
    #[must_use]
    pub fn decode_pool(&self) -> Self {
        Self {
            overlap_score_credit: 0.0,
            router_assume_kv_reuse: false,
            router_track_prefill_tokens: false,
            ..self.clone()
        }
    }
}

/// Reads a value; an error starts with the path to its place.
pub(crate) fn read<'v, T: Deserialize<'v>>(value: &'v Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    })
}
