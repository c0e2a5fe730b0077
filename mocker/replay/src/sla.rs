//! Which requests count as good.

use dynosim_engine::Nanos;

/// Latency limits in milliseconds. A request is good if it keeps every limit that is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sla {
    /// Arrival to first token.
    pub ttft_ms: Option<f64>,
    /// Mean time per output token after the first; a request of one token keeps it.
    pub itl_ms: Option<f64>,
    /// Arrival to last token.
    pub e2e_ms: Option<f64>,
}

impl Sla {
    /// At least one limit is set.
    pub fn is_set(&self) -> bool {
        self.ttft_ms.is_some() || self.itl_ms.is_some() || self.e2e_ms.is_some()
    }

    pub(crate) fn is_kept(&self, ttft: Nanos, e2e: Nanos, tokens: u32) -> bool {
        let kept = |limit: Option<f64>, value: f64| limit.is_none_or(|limit| value <= limit);
        let itl = if tokens > 1 { (e2e - ttft).as_ms() / f64::from(tokens - 1) } else { 0.0 };
        kept(self.ttft_ms, ttft.as_ms()) && kept(self.itl_ms, itl) && kept(self.e2e_ms, e2e.as_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_that_is_set_has_to_be_kept() {
        let (ttft, e2e) = (Nanos::from_ms(100.0), Nanos::from_ms(190.0));
        let sla = Sla { ttft_ms: Some(100.0), itl_ms: Some(10.0), e2e_ms: None };
        assert!(sla.is_kept(ttft, e2e, 10));
        assert!(!sla.is_kept(ttft, e2e, 9));
        assert!(sla.is_kept(ttft, ttft, 1));
        assert!(!Sla { e2e_ms: Some(189.9), ..sla }.is_kept(ttft, e2e, 10));
    }
}
