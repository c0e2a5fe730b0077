//! What a frontend is told.

use std::net::SocketAddr;
use std::time::Duration;

use dynosim_router::{PolicyConfig, RouterConfig};
use dynosim_wire::Runtime;

/// How a worker is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutingMode {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Any, from a seeded stream.
    Random,
    /// The less busy of two drawn ones.
    PowerOfTwo,
    /// The one with the fewest requests of this frontend.
    LeastLoaded,
    /// The one that the request names.
    Direct,
    /// The cheapest by what it has cached and what it has to do.
    Kv,
}

impl RoutingMode {
    /// Load-based modes wait for prefill and hand its result on: only then is it known who decodes (as published).
    pub(crate) fn awaits_prefill(self) -> bool {
        matches!(self, Self::PowerOfTwo | Self::LeastLoaded)
    }
}

/// KV-aware routing.
#[derive(Clone, Debug, Default)]
pub struct KvConfig {
    /// Settings of the routers of aggregated workers; those of prefill and decode pools follow from them.
    pub router: RouterConfig,
    /// Content of the policy file.
    pub policy: Option<PolicyConfig>,
}

/// Namespaces whose models are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceScope {
    /// All.
    #[default]
    All,
    /// One.
    Exact(String),
    /// All that begin with it.
    Prefix(String),
    /// It, and its generations: it with a hyphen and a worker hash of 8 lower-case hex digits, or with `-legacy`. Others
    /// that begin alike stay out.
    Generations(String),
}

impl NamespaceScope {
    /// What discovery keys of the scope begin with.
    pub(crate) fn key_prefix(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Exact(namespace) => format!("{namespace}/"),
            Self::Prefix(prefix) | Self::Generations(prefix) => prefix.clone(),
        }
    }

    /// A namespace, which begins with the prefix of its key, is one of these.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All | Self::Prefix(_) => true,
            Self::Exact(only) => namespace == only,
            Self::Generations(base) => match namespace.strip_prefix(base.as_str()) {
                Some("") => true,
                Some(rest) => rest.strip_prefix('-').is_some_and(is_generation),
                None => false,
            },
        }
    }
}

/// A worker hash, or the word for workers from before there were hashes.
fn is_generation(suffix: &str) -> bool {
    const DIGITS: usize = 8;
    let digits = || suffix.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    suffix == "legacy" || (suffix.len() == DIGITS && digits())
}

/// When requests go on at another worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MigrationConfig {
    /// Times per request; none: what the model's card says.
    pub limit: Option<u32>,
    /// Tokens of prompt and output together above which a request stays where it is; none: not limited.
    pub max_sequence_tokens: Option<usize>,
}

/// What a frontend is told.
#[derive(Clone, Debug)]
pub struct FrontendConfig {
    /// How it takes part in the serving graph.
    pub runtime: Runtime,
    /// Where it listens for HTTP.
    pub address: SocketAddr,
    /// How a worker is chosen.
    pub routing: RoutingMode,
    /// How KV-aware routing chooses; without effect in other modes.
    pub kv: KvConfig,
    /// Namespaces whose models are served.
    pub scope: NamespaceScope,
    /// When requests go on at another worker.
    pub migration: MigrationConfig,
    /// A model is not ready before that many of its workers have been there.
    pub min_initial_workers: usize,
    /// What the names of the frontend's own metrics begin with.
    pub metrics_prefix: String,
    /// Buckets of histograms that differ from the published ones.
    pub buckets: Buckets,
    /// Seed of random routing.
    pub seed: u64,
    /// Largest body of a request in bytes, if it differs from the usual limit.
    pub body_limit: Option<usize>,
    /// A worker that gives nothing for that long is lost.
    pub idle_limit: Duration,
    /// Time that running requests get when the frontend stops.
    pub grace: Duration,
}

/// The published prefix of the frontend's own metrics.
pub const DEFAULT_METRICS_PREFIX: &str = "dynamo_frontend";
/// A worker that gives nothing for that long is lost, unless said otherwise. Generous: requests wait in its queue.
pub const DEFAULT_IDLE_LIMIT: Duration = Duration::from_mins(10);
/// Time that running requests get when the frontend stops, unless said otherwise.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// Seed of random routing unless said otherwise.
pub const DEFAULT_SEED: u64 = 42;

/// Logarithmic histogram buckets: the first is 0, the others grow evenly up to the largest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketRange {
    /// Where the logarithmic scale begins.
    pub min: f64,
    /// The largest bound.
    pub max: f64,
    /// Number of bounds, at least 2.
    pub count: usize,
}

/// Most bounds of a histogram (every bound is a line per model on `/metrics`).
pub const MAX_BUCKETS: usize = 512;

impl BucketRange {
    /// The bounds, to two significant digits.
    pub fn bounds(self) -> Vec<f64> {
        let step = (self.max / self.min).ln() / (self.count.max(2) - 1) as f64;
        let bound = |index: usize| two_digits(self.min * (step * index as f64).exp());
        let mut bounds = vec![0.0];
        bounds.extend((1..self.count).map(bound));
        bounds.dedup();
        bounds
    }
}

fn two_digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// Buckets of the frontend's histograms (`DYN_METRICS_*_MIN`, `_MAX`, `_COUNT`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Buckets {
    /// Whole requests, seconds.
    pub request_duration: BucketRange,
    /// Prompts, tokens.
    pub input_sequence: BucketRange,
    /// Outputs, tokens.
    pub output_sequence: BucketRange,
    /// Time to first token, seconds.
    pub ttft: BucketRange,
    /// Time between tokens, seconds.
    pub itl: BucketRange,
}

/// The published ones.
impl Default for Buckets {
    fn default() -> Self {
        let range = |min, max, count| BucketRange { min, max, count };
        Self {
            request_duration: range(1.0, 512.0, 10),
            input_sequence: range(50.0, 128_000.0, 12),
            output_sequence: range(50.0, 32_000.0, 10),
            ttft: range(0.001, 480.0, 18),
            itl: range(0.001, 80.0, 20),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_buckets_are_the_published_ones() {
        let buckets = Buckets::default();
        let ttft = [
            0.0, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1.0, 2.2, 4.7, 10.0, 22.0, 48.0, 100.0, 220.0,
            480.0,
        ];
        let itl = [
            0.0, 0.0018, 0.0033, 0.0059, 0.011, 0.02, 0.035, 0.064, 0.12, 0.21, 0.38, 0.69, 1.2, 2.3, 4.1, 7.4, 13.0,
            24.0, 44.0, 80.0,
        ];
        let input = [0.0, 100.0, 210.0, 430.0, 870.0, 1800.0, 3600.0, 7400.0, 15e3, 31e3, 63e3, 130e3];
        let output = [0.0, 100.0, 210.0, 430.0, 880.0, 1800.0, 3700.0, 7600.0, 16e3, 32e3];
        let duration = [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 130.0, 260.0, 510.0];
        assert_eq!(buckets.ttft.bounds(), ttft);
        assert_eq!(buckets.itl.bounds(), itl);
        assert_eq!(buckets.input_sequence.bounds(), input);
        assert_eq!(buckets.output_sequence.bounds(), output);
        assert_eq!(buckets.request_duration.bounds(), duration);
    }

    #[test]
    fn generations_of_a_namespace_are_told_from_namespaces_that_begin_alike() {
        let scope = NamespaceScope::Generations("probe-g".to_owned());
        // What the release keeps of these.
        for (namespace, covered) in [
            ("probe-g", true),
            ("probe-g-12345678", true),
            ("probe-g-abcdef01", true),
            ("probe-g-legacy", true),
            ("probe-g-ABCDEF02", false),
            ("probe-g-1234567", false),
            ("probe-gx", false),
            ("probe-g-foo", false),
            ("probe-g-12345678-x", false),
            ("probe-", false),
            ("dynamo", false),
            ("other", false),
        ] {
            assert_eq!(scope.covers(namespace), covered, "{namespace}");
        }
    }
}
