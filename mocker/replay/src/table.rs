//! The summary for people, in the layout that `AIPerf` made familiar.

use std::fmt;

use crate::report::{Clock, Report};
use crate::samples::Summary;

const COLUMNS: [&str; 8] = ["Metric", "avg", "min", "max", "p99", "p90", "p75", "std"];
const TITLE: &str = "NVIDIA AIPerf | LLM Metrics";

/// Renders a [`Report`].
#[derive(Debug)]
pub struct Table<'a> {
    /// The run.
    pub report: &'a Report,
    /// How long it took on the host.
    pub wall_time_ms: f64,
}

impl Table<'_> {
    fn rows(&self) -> Vec<[String; COLUMNS.len()]> {
        let report = self.report;
        let latencies = &report.latencies;
        let per_s = |amount: u64| if report.duration_ms > 0.0 { amount as f64 * 1e3 / report.duration_ms } else { 0.0 };
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        rows.push(full("Time to First Token (ms)", &latencies.ttft));
        rows.push(full("Time to Second Token (ms)", &latencies.ttst));
        rows.push(full("Request Latency (ms)", &latencies.e2e));
        rows.push(full("Inter Token Latency (ms)", &latencies.itl));
        rows.push(full("Output Token Throughput Per User (tokens/sec/user)", &latencies.throughput_per_user));
        rows.push(average("Output Token Throughput (tokens/sec)", per_s(report.output_tokens)));
        rows.push(average("Request Throughput (requests/sec)", per_s(report.completed)));
        rows.push(average("Request Count (requests)", report.completed as f64));
        rows
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows();
        let widths: Vec<usize> =
            (0..COLUMNS.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
        let rule = |f: &mut fmt::Formatter<'_>, ends: [char; 3]| {
            let line: Vec<_> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            writeln!(f, "{}{}{}", ends[0], line.join(&ends[1].to_string()), ends[2])
        };
        let total = widths.iter().sum::<usize>() + 3 * widths.len() + 1;
        writeln!(f, "{}", format!("{TITLE:^total$}").trim_end())?;
        rule(f, ['┌', '┬', '┐'])?;
        for (index, row) in rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "│ {cell:<width$} ")?,
                    _ => write!(f, "│ {cell:>width$} ")?,
                }
            }
            writeln!(f, "│")?;
            if index == 0 {
                rule(f, ['├', '┼', '┤'])?;
            }
        }
        rule(f, ['└', '┴', '┘'])?;
        if self.report.rejected > 0 {
            writeln!(f, "Rejected Requests: {}", self.report.rejected)?;
        }
        if let Some(share) = self.report.good_share() {
            writeln!(f, "Requests Within SLA: {:.2} %", share * 100.0)?;
        }
        let clock = if self.report.clock == Clock::Wall { "Measured" } else { "Simulated" };
        writeln!(f, "{clock} Time (ms): {}", number(self.report.duration_ms))?;
        writeln!(f, "Wall Time (ms): {}", number(self.wall_time_ms))?;
        if let Some(ratio) = self.report.reused_ratio {
            writeln!(f, "Prefix Cache Reused Ratio: {ratio:.4}")?;
        }
        if let Some(ratio) = self.report.first_reused_ratio {
            writeln!(f, "First Admission Prefix Cache Reused Ratio: {ratio:.4}")?;
        }
        Ok(())
    }
}

fn full(name: &str, summary: &Summary) -> [String; COLUMNS.len()] {
    let [_, p75, p90, _, p99] = summary.percentiles;
    let cells = [summary.mean, summary.min, summary.max, p99, p90, p75, summary.std].map(number);
    let mut cells = cells.into_iter();
    std::array::from_fn(|column| if column == 0 { name.to_owned() } else { cells.next().unwrap_or_default() })
}

fn average(name: &str, value: f64) -> [String; COLUMNS.len()] {
    std::array::from_fn(|column| match column {
        0 => name.to_owned(),
        1 => number(value),
        _ => "N/A".to_owned(),
    })
}

/// Two decimals, thousands separated by commas.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, "00"));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}.{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_decimals_and_thousands() {
        assert_eq!(number(1_234_567.891), "1,234,567.89");
        assert_eq!(number(0.0), "0.00");
        assert_eq!(number(-1234.5), "-1,234.50");
        assert_eq!(number(999.999), "1,000.00");
    }
}
