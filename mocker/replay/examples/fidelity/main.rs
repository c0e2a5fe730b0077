//! Compares simulated runs with runs measured on real GPUs; see `docs/fidelity.md`.
//!
//! ```text
//!   DYNOSIM_SHARED=<folder> cargo run --release -p dynosim-replay --example fidelity           the table
//!   DYNOSIM_SHARED=<folder> cargo run --release -p dynosim-replay --example fidelity -- --fit  new coefficients as well
//! ```
//!
//! Reads `traces/ground_truth_vllm` of the folder. Every run is simulated as a whole; coefficients are fitted to one half
//! of the requests, and the table is about the other one.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

mod fit;
mod measured;
mod runs;
mod simulate;

use std::path::PathBuf;

use dynosim_engine::timing::Linear;

use measured::Measured;
use runs::RUNS;
use simulate::{Half, METRICS, Run, STATISTICS, measured_latencies, statistics};

fn folder() -> Option<PathBuf> {
    std::env::var_os("DYNOSIM_SHARED").map(|shared| PathBuf::from(shared).join("traces/ground_truth_vllm"))
}

/// Measured and simulated statistics of the judged half, by latency and statistic.
fn compare(run: &Run, timing: &Linear, requests: &[Measured]) -> [[(f64, f64); STATISTICS.len()]; METRICS.len()] {
    let (truth, found) = (measured_latencies(requests), run.simulate(timing, requests));
    std::array::from_fn(|metric| {
        let truth = statistics(&truth, metric, Half::Judged);
        let found = statistics(&found, metric, Half::Judged);
        std::array::from_fn(|at| (truth[at], found[at]))
    })
}

/// Error in percent, to two digits.
fn error_percent((truth, found): (f64, f64)) -> f64 {
    (found / truth - 1.0) * 100.0
}

/// One line of the table: measured / simulated (error) per statistic.
fn row(title: &str, metric: &str, cells: &[(f64, f64); STATISTICS.len()]) -> String {
    let cell = |&pair: &(f64, f64)| format!("{:.1} / {:.1} ({:+.1} %)", pair.0, pair.1, error_percent(pair));
    let cells: Vec<String> = cells.iter().map(cell).collect();
    format!("| {title} | {metric} | {} |", cells.join(" | "))
}

fn main() {
    let folder = folder().expect("DYNOSIM_SHARED names the folder of the measured runs");
    let fit = std::env::args().any(|argument| argument == "--fit");
    println!("| run | latency (ms) | {} |\n|---|---|---|---|---|---|", STATISTICS.join(" | "));
    for run in RUNS {
        let requests = measured::read(&folder, run.name);
        let timing = if fit { fit::fit(&run, &requests).0 } else { run.timing };
        if fit {
            println!("<!-- {}: {timing:?} -->", run.name);
        }
        for (metric, cells) in METRICS.iter().zip(compare(&run, &timing, &requests)) {
            println!("{}", row(run.title, metric, &cells));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest difference between an error in percent and the one the document tells.
    const TOLERANCE: f64 = 0.2;

    /// The errors of one line of the table, in percent.
    fn told(document: &str, title: &str, metric: &str) -> Vec<f64> {
        let start = format!("| {title} | {metric} | ");
        let line = document.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("no {start}"));
        let errors = line.split('(').skip(1).filter_map(|rest| rest.split(" %)").next());
        errors.map(|error| error.parse().unwrap()).collect()
    }

    #[test]
    fn errors_are_those_of_the_document() {
        let Some(folder) = folder() else {
            // Straight to the stream: the test harness keeps what macros print to itself.
            let line = "SKIPPED: DYNOSIM_SHARED is not set, so docs/fidelity.md is not compared with measured runs\n";
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
            return;
        };
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fidelity.md");
        let document = std::fs::read_to_string(path).unwrap();
        for run in RUNS {
            let requests = measured::read(&folder, run.name);
            for (metric, cells) in METRICS.iter().zip(compare(&run, &run.timing, &requests)) {
                let told = told(&document, run.title, metric);
                let found = cells.map(error_percent);
                assert_eq!(told.len(), found.len());
                for (told, found) in told.iter().zip(found) {
                    assert!((told - found).abs() <= TOLERANCE, "{} {metric}: {told} {found}", run.title);
                }
            }
        }
    }
}
