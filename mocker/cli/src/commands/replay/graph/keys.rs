//! Keys of the router as a frontend is told them: by flags, or by variables.

/// A key with the flag and the variable of a frontend.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) flag: &'static str,
    pub(super) variable: &'static str,
}

const fn key(name: &'static str, flag: &'static str, variable: &'static str) -> Key {
    Key { name, flag, variable }
}

/// Those that routers of live graphs have and a calculation follows or refuses.
#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("overlap_score_credit", "--router-kv-overlap-score-credit", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT"),
    key("overlap_score_credit_decay", "--router-kv-overlap-score-credit-decay", "DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT_DECAY"),
    key("prefill_load_scale", "--router-prefill-load-scale", "DYN_ROUTER_PREFILL_LOAD_SCALE"),
    key("decode_active_request_weight", "--router-decode-active-request-weight", "DYN_ROUTER_DECODE_ACTIVE_REQUEST_WEIGHT"),
    key("host_cache_hit_weight", "--router-host-cache-hit-weight", "DYN_ROUTER_HOST_CACHE_HIT_WEIGHT"),
    key("disk_cache_hit_weight", "--router-disk-cache-hit-weight", "DYN_ROUTER_DISK_CACHE_HIT_WEIGHT"),
    key("router_temperature", "--router-temperature", "DYN_ROUTER_TEMPERATURE"),
    key("use_kv_events", "--router-kv-events", "DYN_ROUTER_USE_KV_EVENTS"),
    key("use_kv_events", "--kv-events", ""),
    key("router_replica_sync", "--router-replica-sync", "DYN_ROUTER_REPLICA_SYNC"),
    key("router_track_active_blocks", "--router-track-active-blocks", "DYN_ROUTER_TRACK_ACTIVE_BLOCKS"),
    key("router_track_active_blocks", "--track-active-blocks", ""),
    key("router_track_output_blocks", "--router-track-output-blocks", "DYN_ROUTER_TRACK_OUTPUT_BLOCKS"),
    key("router_track_output_blocks", "--track-output-blocks", ""),
    key("router_assume_kv_reuse", "--router-assume-kv-reuse", "DYN_ROUTER_ASSUME_KV_REUSE"),
    key("router_assume_kv_reuse", "--assume-kv-reuse", ""),
    key("router_track_prefill_tokens", "--router-track-prefill-tokens", "DYN_ROUTER_TRACK_PREFILL_TOKENS"),
    key("router_tracking_key_file", "--router-tracking-key-file", "DYN_ROUTER_TRACKING_KEY_FILE"),
    key("router_tracking_key_id", "--router-tracking-key-id", "DYN_ROUTER_TRACKING_KEY_ID"),
    key("router_prefill_load_model", "--router-prefill-load-model", "DYN_ROUTER_PREFILL_LOAD_MODEL"),
    key("router_ttl_secs", "--router-ttl-secs", "DYN_ROUTER_TTL_SECS"),
    key("router_approximate_cache_policy", "--router-approximate-cache-policy", "DYN_ROUTER_APPROXIMATE_CACHE_POLICY"),
    key("router_predicted_ttl_secs", "--router-predicted-ttl-secs", "DYN_ROUTER_PREDICTED_TTL_SECS"),
    key("router_queue_threshold", "--router-queue-threshold", "DYN_ROUTER_QUEUE_THRESHOLD"),
    key("router_queue_policy", "--router-queue-policy", "DYN_ROUTER_QUEUE_POLICY"),
    key("router_policy_config", "--router-policy-config", "DYN_ROUTER_POLICY_CONFIG"),
    key("router_event_threads", "--router-event-threads", "DYN_ROUTER_EVENT_THREADS"),
    key("use_remote_indexer", "--use-remote-indexer", "DYN_USE_REMOTE_INDEXER"),
    key("serve_indexer", "--serve-indexer", "DYN_SERVE_INDEXER"),
    key("enable_session_prefix_index", "--enable-session-prefix-index", "DYN_ENABLE_SESSION_PREFIX_INDEX"),
    key("shared_cache_multiplier", "--shared-cache-multiplier", "DYN_SHARED_CACHE_MULTIPLIER"),
    key("shared_cache_type", "--shared-cache-type", "DYN_SHARED_CACHE_TYPE"),
    key("conditional_disagg_enabled", "--router-conditional-disagg", "DYN_ROUTER_CONDITIONAL_DISAGG"),
];
