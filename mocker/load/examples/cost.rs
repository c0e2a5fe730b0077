//! What a request costs the load generator: runs a closed loop and prints processor time and memory.
//!
//! `cargo run --release -p dynosim-load --example cost -- URL REQUESTS CONCURRENCY [INPUT_TOKENS [OUTPUT_TOKENS]]`

use std::io::Write;
use std::time::Duration;

use dynosim_load::{Answering, Endpoint, LoadConfig, PromptFormat, Stop, Target, load};
use dynosim_replay::{Admission, Sla};
use dynosim_workload::{SessionArrivals, Synthetic, SyntheticOptions};

/// Processor time of this process so far, user and system, in microseconds.
fn processor_us() -> std::io::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields behind the name in parentheses; ticks of 10 ms.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = fields.get(11..13).unwrap_or(&[]).iter().filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks * 1e4)
}

fn peak_memory() -> std::io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let url = arguments.first().ok_or("give a URL")?;
    let number = |at: usize, other: u32| arguments.get(at).map_or(Ok(other), |text| text.parse());
    let (request_count, concurrency) = (number(1, 10_000)?, number(2, 64)?);
    let options = SyntheticOptions {
        input_tokens: number(3, 128)?,
        output_tokens: number(4, 32)?,
        request_count,
        arrivals: SessionArrivals::Interval { ms: 0.0 },
        ..SyntheticOptions::default()
    };
    let config = LoadConfig {
        target: Target::resolve(url)?,
        model: "fixed".to_owned(),
        endpoint: Endpoint::Completions,
        format: PromptFormat::Tokens,
        vocabulary: 256,
        answering: Answering::Stream,
        block_size: options.block_size,
        admission: Admission::Concurrency(concurrency),
        end: None,
        timeout: Duration::from_mins(1),
        connections: 65_536,
        warmup_requests: 0,
        sla: Sla::default(),
        records: false,
    };
    let mut workload = Synthetic::new(options)?;
    let before = processor_us()?;
    let ran = load(&config, &mut workload, &Stop::default(), &mut |_| ())?;
    let spent = processor_us()? - before;
    let report = ran.outcome.report.to_json(0.0);
    let mut out = std::io::stdout().lock();
    writeln!(out, "completed {} failed {} {:?}", ran.completed, report["failed_requests"], ran.failures)?;
    for key in [
        "request_throughput_rps",
        "p99_ttft_ms",
        "median_itl_ms",
        "p99_itl_ms",
        "p99_send_lateness_ms",
        "connections_opened",
    ] {
        writeln!(out, "{key} {}", report[key])?;
    }
    writeln!(out, "processor time per request: {:.1} us", spent / f64::from(request_count))?;
    writeln!(out, "{}", peak_memory()?)?;
    Ok(())
}
