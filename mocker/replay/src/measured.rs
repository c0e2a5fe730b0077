//! A report from what a client measured on a live server.
//!
//! The client tells of each request when it is sent, of each gap between two tokens as it is seen, and of each request
//! when it has ended. Nothing is kept per request in flight here; the samples and their summaries are those of a
//! simulated run, so that reports of both can be laid side by side.

use std::borrow::Cow;

use dynosim_engine::Nanos;
use dynosim_workload::Turn;

use crate::collector::Collector;
use crate::live::Live;
use crate::parts::Outcome;
use crate::records::{TerminalStatus, sort};
use crate::report::{Provision, Report};
use crate::samples::Samples;
use crate::sla::Sla;

/// What a client saw of one request. Times count from the start of the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// The request, with the prompt length to report.
    pub turn: Turn,
    /// When it was sent.
    pub sent: Nanos,
    /// When its first token came; of no meaning without tokens.
    pub first_token: Nanos,
    /// When its second token came; of no meaning with fewer than two.
    pub second_token: Nanos,
    /// When its last token came; of no meaning without tokens.
    pub last_token: Nanos,
    /// Output tokens that came.
    pub tokens: u32,
    /// Prompt tokens that the server found in its prefix cache, if it told.
    pub cached_tokens: Option<u32>,
}

impl Measured {
    fn live(&self) -> Live {
        let cached = self.cached_tokens.unwrap_or(0);
        Live {
            turn: self.turn,
            arrival: self.sent,
            first_token: self.first_token,
            second_token: self.second_token,
            last_token: self.last_token,
            tokens: self.tokens,
            first_cached: cached,
            last_cached: cached,
            ..Live::default()
        }
    }
}

/// A measured run in the making.
#[derive(Debug)]
pub struct Measurement {
    collector: Collector,
    lateness: Samples,
    failed: u64,
    canceled: u64,
    cached_tokens_seen: bool,
}

impl Measurement {
    /// An empty one; with `records`, a row per request is kept.
    pub fn new(sla: Sla, records: bool) -> Self {
        let collector = Collector { sla, records: records.then(Vec::new), ..Collector::default() };
        Self { collector, lateness: Samples::default(), failed: 0, canceled: 0, cached_tokens_seen: false }
    }

    /// A request was sent, so much later than it was due.
    pub fn sent(&mut self, lateness: Nanos) {
        self.collector.requests += 1;
        self.lateness.push(lateness);
    }

    /// So many times, a token came `gap` after the one before it in its request.
    #[inline]
    pub fn gap(&mut self, gap: Nanos, times: u32) {
        self.collector.itl.push(gap, times);
    }

    /// A request has got all its output, of at least one token.
    pub fn completed(&mut self, seen: &Measured, session: Cow<'_, str>) {
        self.cached_tokens_seen |= seen.cached_tokens.is_some();
        self.collector.completed(&seen.live(), || session.into_owned());
    }

    /// The server refused a request as one that it never could serve.
    pub fn rejected(&mut self, seen: &Measured, session: Cow<'_, str>, why: String) {
        self.collector.rejected += 1;
        self.collector.record(&seen.live(), || session.into_owned(), TerminalStatus::Rejected, Some(why));
    }

    /// A request broke off.
    pub fn failed(&mut self, seen: &Measured, session: Cow<'_, str>, why: String) {
        self.failed += 1;
        self.collector.record(&seen.live(), || session.into_owned(), TerminalStatus::Failed, Some(why));
    }

    /// The run ends while a request is in flight.
    pub fn canceled(&mut self, seen: &Measured, session: Cow<'_, str>) {
        self.canceled += 1;
        self.collector.record(&seen.live(), || session.into_owned(), TerminalStatus::Canceled, None);
    }

    /// Requests completed, rejected and failed so far.
    pub fn ended(&self) -> u64 {
        self.collector.completed + self.collector.rejected + self.failed
    }

    /// Requests completed so far.
    pub fn completed_requests(&self) -> u64 {
        self.collector.completed
    }

    /// The report, and the rows if they were wanted. Beside the keys of a simulated run it has `failed_requests`,
    /// `canceled_requests` and the distribution `send_lateness_ms`; what a client cannot see is null.
    pub fn outcome(mut self) -> Outcome {
        let digest = self.collector.digest.value();
        let mut records = self.collector.records.take();
        if let Some(records) = &mut records {
            sort(records);
        }
        let provision = Provision::Unknown { cached_tokens_seen: self.cached_tokens_seen };
        let mut report = Report::new(provision, self.collector);
        report.put("failed_requests", self.failed);
        report.put("canceled_requests", self.canceled);
        report.put_distribution("send_lateness_ms", &self.lateness.summary_ms());
        Outcome { report, records, explanation: None, digest }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen(row: u64, sent_ms: f64, tokens: &[f64], cached_tokens: Option<u32>) -> Measured {
        let at = |index: usize| tokens.get(index).map_or(Nanos::ZERO, |&ms| Nanos::from_ms(ms));
        Measured {
            turn: Turn { row, input_tokens: 100, output_tokens: 3, ..Turn::default() },
            sent: Nanos::from_ms(sent_ms),
            first_token: at(0),
            second_token: at(1),
            last_token: at(tokens.len().saturating_sub(1)),
            tokens: tokens.len() as u32,
            cached_tokens,
        }
    }

    #[test]
    fn what_was_seen_is_summed_up_as_in_a_simulated_run() {
        let mut run = Measurement::new(Sla { ttft_ms: Some(25.0), ..Sla::default() }, true);
        (0..4).for_each(|late| run.sent(Nanos::from_ms(f64::from(late))));
        for gap in [10.0, 20.0, 40.0] {
            run.gap(Nanos::from_ms(gap), 1);
        }
        run.completed(&seen(0, 10.0, &[30.0, 40.0, 60.0], Some(64)), "a".into());
        run.completed(&seen(1, 20.0, &[50.0, 90.0], Some(0)), "b".into());
        run.failed(&seen(2, 30.0, &[35.0], None), "c".into(), "broken".to_owned());
        run.canceled(&seen(3, 40.0, &[], None), "d".into());
        assert_eq!((run.ended(), run.completed_requests()), (3, 2));

        let outcome = run.outcome();
        let report = outcome.report.to_json(100.0);
        for (key, expected) in [
            ("num_requests", json!(4)),
            ("completed_requests", json!(2)),
            ("failed_requests", json!(1)),
            ("canceled_requests", json!(1)),
            ("mean_ttft_ms", json!(25.0)),
            ("mean_ttst_ms", json!(25.0)),
            ("mean_tpot_ms", json!(27.5)),
            ("max_itl_ms", json!(40.0)),
            ("mean_e2e_latency_ms", json!(60.0)),
            ("duration_ms", json!(90.0)),
            ("total_output_tokens", json!(5)),
            ("prefix_cache_reused_ratio", json!(0.32)),
            ("goodput_completed_requests", json!(1)),
            ("max_send_lateness_ms", json!(3.0)),
            ("gpu_hours", json!(null)),
        ] {
            assert_eq!(report[key], expected, "{key}");
        }
        assert_eq!(outcome.report.good_share(), Some(0.25));
        let rows = serde_json::to_value(outcome.records).unwrap();
        let of = |key: &str| rows.as_array().unwrap().iter().map(|row| row[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("terminal_status"), ["completed", "completed", "failed", "canceled"]);
        assert_eq!((&rows[2]["rejection"], &rows[0]["decode_worker_idx"]), (&json!("broken"), &json!(null)));
    }

    #[test]
    fn without_a_word_of_the_cache_there_is_no_ratio() {
        let mut run = Measurement::new(Sla::default(), false);
        run.completed(&seen(0, 0.0, &[1.0], None), "a".into());
        assert_eq!(run.outcome().report.to_json(1.0)["prefix_cache_reused_ratio"], json!(null));
    }
}
