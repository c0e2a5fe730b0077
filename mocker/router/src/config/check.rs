//! Which values mean something.

use super::{ConfigError, RouterConfig};

const NOT_NEGATIVE: &str = "a number of at least 0";
const SHARE: &str = "a number from 0 to 1";
const POSITIVE: &str = "a number above 0";

impl RouterConfig {
    /// Checks ranges.
    pub fn check(&self) -> Result<(), ConfigError> {
        let not_negative = [
            ("overlap_score_credit", Some(self.overlap_score_credit)),
            ("overlap_score_weight", self.overlap_score_weight),
            ("overlap_score_credit_decay", Some(self.overlap_score_credit_decay)),
            ("prefill_load_scale", Some(self.prefill_load_scale)),
            ("decode_active_request_weight", Some(self.decode_active_request_weight)),
            ("router_temperature", Some(self.router_temperature)),
            ("router_queue_threshold", self.router_queue_threshold),
            ("conditional_disagg_prefill_busy_threshold", self.conditional_disagg_prefill_busy_threshold),
            ("conditional_disagg_decode_busy_threshold", self.conditional_disagg_decode_busy_threshold),
        ];
        let shares = [
            ("host_cache_hit_weight", Some(self.host_cache_hit_weight)),
            ("disk_cache_hit_weight", Some(self.disk_cache_hit_weight)),
            ("shared_cache_multiplier", self.shared_cache_multiplier),
            ("conditional_disagg_eff_isl_ratio_threshold", self.conditional_disagg_eff_isl_ratio_threshold),
        ];
        let positive = [
            ("router_ttl_secs", Some(self.router_ttl_secs)),
            ("router_predicted_ttl_secs", self.router_predicted_ttl_secs),
            ("router_event_threads", Some(f64::from(self.router_event_threads))),
        ];
        within(&not_negative, NOT_NEGATIVE, |value| value >= 0.0 && value.is_finite())?;
        within(&shares, SHARE, |value| (0.0..=1.0).contains(&value))?;
        within(&positive, POSITIVE, |value| value > 0.0 && value.is_finite())?;
        if self.router_predicted_ttl_secs.is_some() && !self.use_kv_events {
            return Err(ConfigError::Range {
                key: "router_predicted_ttl_secs",
                value: "set".to_owned(),
                allowed: "unset without use_kv_events",
            });
        }
        Ok(())
    }
}

fn within(
    values: &[(&'static str, Option<f64>)],
    allowed: &'static str,
    good: impl Fn(f64) -> bool,
) -> Result<(), ConfigError> {
    for &(key, value) in values {
        if let Some(value) = value.filter(|&value| !good(value)) {
            return Err(ConfigError::Range { key, value: value.to_string(), allowed });
        }
    }
    Ok(())
}
