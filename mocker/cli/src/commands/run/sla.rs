//! Limits of a good request.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use clap::Args;
use dynosim_replay::{Report, Sla};

use super::range::out_of_range;
use crate::failure::Failure;

/// Limits of a good request
#[derive(Debug, Args)]
pub(crate) struct SlaFlags {
    /// Largest time to first token of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_ttft_ms: Option<f64>,
    /// Largest mean time per further token of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_itl_ms: Option<f64>,
    /// Largest latency of a good request
    #[arg(long, help_heading = "Service level")]
    pub(crate) sla_e2e_ms: Option<f64>,
    /// Exit with code 3 if a smaller share of the requests is good, 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "Service level")]
    pub(crate) fail_on_sla: Option<f64>,
}

impl SlaFlags {
    /// The limits, if they can be used.
    pub(crate) fn check(&self) -> Result<Sla, Failure> {
        let sla = Sla { ttft_ms: self.sla_ttft_ms, itl_ms: self.sla_itl_ms, e2e_ms: self.sla_e2e_ms };
        for (flag, limit) in
            [("--sla-ttft-ms", sla.ttft_ms), ("--sla-itl-ms", sla.itl_ms), ("--sla-e2e-ms", sla.e2e_ms)]
        {
            if let Some(limit) = limit.filter(|limit| !(limit.is_finite() && *limit >= 0.0)) {
                return Err(out_of_range(flag, &limit, "0 or more, finite"));
            }
        }
        if let Some(share) = self.fail_on_sla {
            if !(0.0..=1.0).contains(&share) {
                return Err(out_of_range("--fail-on-sla", &share, "0 to 1"));
            }
            if !sla.is_set() {
                return Err(Failure::input("--fail-on-sla: needs --sla-ttft-ms, --sla-itl-ms or --sla-e2e-ms"));
            }
        }
        Ok(sla)
    }

    /// Fails if fewer requests were good than `--fail-on-sla` asks for.
    pub(crate) fn hold(&self, report: &Report) -> Result<(), Failure> {
        let (Some(wanted), Some(share)) = (self.fail_on_sla, report.good_share()) else { return Ok(()) };
        if share >= wanted {
            return Ok(());
        }
        Err(Failure::sla(format_args!("{share:.4} of the requests keep the SLA, --fail-on-sla asks for {wanted}")))
    }
}
