//! Policy classes: several queues in one router, by the length of prompts that is not cached.

use serde::Deserialize;
use serde_json::Value;

use crate::config::{ConfigError, QueuePolicy, read};

/// The content of a policy file (`router_policy_config`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyConfig {
    /// Family of requests that name none.
    pub default_policy_family: String,
    /// The queues.
    pub policy_classes: Vec<PolicyClass>,
    /// How prompts are told apart.
    pub uncached_isl_buckets: Vec<Bucket>,
}

/// One queue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyClass {
    /// Its name.
    pub name: String,
    /// Which requests it is for: those of this family,
    pub policy_family: String,
    /// and of this bucket.
    pub cache_bucket: String,
    /// Prompt tokens of a rank above which it is busy for this class.
    #[serde(default)]
    pub prefill_busy_threshold: Option<u64>,
    /// The same as a share of `max_num_batched_tokens`.
    #[serde(default)]
    pub prefill_busy_threshold_frac: Option<f64>,
    /// Tokens that the class may send per turn when several have requests to send. At least 1.
    pub quantum: u64,
    /// Order within the class; not lcfs.
    #[serde(default)]
    pub queue_policy: QueuePolicy,
    /// Requests that may wait, per schedulable worker; more are refused. Unset: any number.
    #[serde(default)]
    pub request_queue_limit_per_worker: Option<u64>,
}

/// Prompts from a length on.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bucket {
    /// Its name.
    pub bucket: String,
    /// Fewest uncached prompt tokens.
    pub min_tokens: u64,
}

impl PolicyConfig {
    /// Reads and checks a policy.
    pub fn from_json(value: &Value) -> Result<Self, ConfigError> {
        let policy: Self = read(value).map_err(ConfigError::Policy)?;
        policy.check()?;
        Ok(policy)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |text: String| Err(ConfigError::Policy(text));
        if !self.uncached_isl_buckets.iter().any(|bucket| bucket.min_tokens == 0) {
            return wrong("uncached_isl_buckets: one must have min_tokens 0".to_owned());
        }
        for class in &self.policy_classes {
            let name = &class.name;
            let share = class.prefill_busy_threshold_frac;
            if class.queue_policy == QueuePolicy::Lcfs {
                return wrong(format!("policy class {name}: queue_policy is lcfs, must be fcfs or wspt"));
            }
            if class.quantum == 0 {
                return wrong(format!("policy class {name}: quantum is 0, must be at least 1"));
            }
            if share.is_some() == class.prefill_busy_threshold.is_some() {
                return wrong(format!(
                    "policy class {name}: needs one of prefill_busy_threshold, prefill_busy_threshold_frac"
                ));
            }
            if share.is_some_and(|share| !(share >= 0.0 && share.is_finite())) {
                return wrong(format!("policy class {name}: prefill_busy_threshold_frac must be at least 0"));
            }
            if !self.uncached_isl_buckets.iter().any(|bucket| bucket.bucket == class.cache_bucket) {
                return wrong(format!("policy class {name}: no bucket {}", class.cache_bucket));
            }
        }
        for bucket in &self.uncached_isl_buckets {
            if self.position(&self.default_policy_family, &bucket.bucket).is_none() {
                let family = &self.default_policy_family;
                return wrong(format!("no policy class for family {family}, bucket {}", bucket.bucket));
            }
        }
        Ok(())
    }

    fn position(&self, family: &str, bucket: &str) -> Option<usize> {
        self.policy_classes.iter().position(|class| class.policy_family == family && class.cache_bucket == bucket)
    }

    /// The class of a request; families that are not told of are the default one.
    pub(crate) fn class(&self, family: Option<&str>, uncached_tokens: u64) -> usize {
        let fitting = self.uncached_isl_buckets.iter().filter(|bucket| bucket.min_tokens <= uncached_tokens);
        let Some(bucket) = fitting.max_by_key(|bucket| bucket.min_tokens) else { return 0 };
        family
            .and_then(|family| self.position(family, &bucket.bucket))
            .or_else(|| self.position(&self.default_policy_family, &bucket.bucket))
            .unwrap_or(0)
    }
}
