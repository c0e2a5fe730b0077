//! Metric families of a registry.

use prometheus::core::Collector;
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

/// Name and help text.
pub(super) type About<'a> = (&'a str, &'a str);

/// A family that is on the registry, or, without a name that its engine knows, on none.
pub(super) struct Families<'a> {
    pub(super) registry: &'a Registry,
    pub(super) prefix: &'a str,
}

impl Families<'_> {
    pub(super) fn gauge(&self, about: Option<About<'_>>, labels: &[&str]) -> Result<GaugeVec, prometheus::Error> {
        let (name, help) = about.unwrap_or(UNUSED);
        self.enter(GaugeVec::new(Opts::new(self.name(name), help), labels)?, about)
    }

    pub(super) fn counter(
        &self,
        about: Option<About<'_>>,
        labels: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        let (name, help) = about.unwrap_or(UNUSED);
        self.enter(IntCounterVec::new(Opts::new(self.name(name), help), labels)?, about)
    }

    pub(super) fn histogram(
        &self,
        (name, help): About<'_>,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(self.name(name), help).buckets(buckets.to_vec());
        self.enter(HistogramVec::new(options, labels)?, Some((name, help)))
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn enter<T: Collector + Clone + 'static>(
        &self,
        family: T,
        about: Option<About<'_>>,
    ) -> Result<T, prometheus::Error> {
        if about.is_some() {
            self.registry.register(Box::new(family.clone()))?;
        }
        Ok(family)
    }
}

const UNUSED: About<'static> = ("unused", "Not published by this engine.");
