//! Calculates a trace on a prefill and a decode engine in virtual time and prints the latencies that clients would see, as
//! JSON with the keys of a report. `benches/live-offline` lays them beside a live run.
//!
//! ```text
//!   cargo bench --profile dev -p dynosim-worker --bench pair -- TRACE TRACE_BLOCK_SIZE PREFILL_ARGS DECODE_ARGS
//! ```
//!
//! Both arguments are engine arguments as JSON; `worker_type` is added.

#[path = "../tests/it/pair.rs"]
mod pair;

use std::error::Error;
use std::path::Path;

use dynosim_engine::hash::mix;
use dynosim_engine::{BlockHashes, EngineArgs, EngineConfig, Nanos, Request};
use dynosim_workload::{RowRules, Trace, TraceOptions, Workload};
use serde_json::{Map, Value, json};

use pair::{Course, Pair, Visit};

/// Names the stream that sets output blocks of different requests apart.
const OUTPUT_BLOCKS: u64 = u64::from_be_bytes(*b"outputkv");

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds a flag of its own.
    let given: Vec<_> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [trace, trace_block_size, prefill, decode] = &given[..] else {
        return Err("wanted: TRACE TRACE_BLOCK_SIZE PREFILL_ARGS DECODE_ARGS".into());
    };
    let (source, destination) = (engine(prefill, "prefill")?, engine(decode, "decode")?);
    let visits = visits(Path::new(trace), trace_block_size.parse()?, source.0.block_size)?;
    for Visit { request, .. } in &visits {
        source.1.check(request.prompt_tokens, request.max_output_tokens)?;
        destination.1.check(request.prompt_tokens, request.max_output_tokens)?;
    }
    let mut pair = Pair::new(source.1, destination.1, source.0.kv_transfer(), &visits);
    pair.run();
    assert!(pair.is_empty(), "something was left over");
    print(&report(&visits, pair.courses()))
}

fn engine(args: &str, role: &str) -> Result<(EngineArgs, EngineConfig), Box<dyn Error>> {
    let mut object: Map<String, Value> = serde_json::from_str(args)?;
    object.insert("worker_type".to_owned(), json!(role));
    let args = EngineArgs::from_json(&Value::Object(object).to_string())?;
    let timing = args.timing(&mut |path| std::fs::read(path))?;
    let config = args.engine_config(0, timing);
    Ok((args, config))
}

fn visits(path: &Path, trace_block_size: u32, engine_block_size: u32) -> Result<Vec<Visit>, Box<dyn Error>> {
    let rules = RowRules { trace_block_size, ..RowRules::default() };
    let mut trace = Trace::open(path, &TraceOptions { rules, engine_block_size, ..TraceOptions::default() })?;
    let mut visits = Vec::new();
    while let Some(at) = trace.peek()? {
        let mut known = Vec::new();
        let Some(turn) = trace.take(&mut known)? else { break };
        if trace.next_delay(&turn).is_some() {
            return Err("sessions of several turns: times of later ones depend on the run".into());
        }
        visits.push(Visit {
            at,
            request: Request {
                prompt_tokens: turn.input_tokens,
                max_output_tokens: turn.output_tokens,
                ignore_eos: true,
                hashes: BlockHashes { known, salt: mix(OUTPUT_BLOCKS, turn.row) },
                ..Request::default()
            },
        });
    }
    Ok(visits)
}

fn report(visits: &[Visit], courses: &[Course]) -> Map<String, Value> {
    let mut report = Map::new();
    let mut put = |name: &str, of: &dyn Fn(&Visit, &Course) -> Vec<Nanos>| {
        let samples = visits.iter().zip(courses).flat_map(|(visit, course)| of(visit, course));
        put_distribution(&mut report, name, samples.collect());
    };
    let first = |course: &Course| course.tokens[0];
    put("ttft_ms", &|visit, course| vec![first(course) - visit.at]);
    put("itl_ms", &|_, course| course.tokens.windows(2).map(|two| two[1] - two[0]).collect());
    put("e2e_latency_ms", &|visit, course| course.tokens.last().map(|&last| last - visit.at).into_iter().collect());
    // Where the time to the first token goes.
    put("held_ms", &|visit, course| vec![course.held - visit.at]);
    put("reserved_ms", &|visit, course| vec![course.reserved - visit.at]);
    put("transfer_ms", &|_, course| vec![course.activated - course.held.max(course.reserved)]);
    put("first_decode_ms", &|_, course| vec![first(course) - course.activated]);
    report
}

fn put_distribution(report: &mut Map<String, Value>, name: &str, mut samples: Vec<Nanos>) {
    samples.sort_unstable();
    let mean = samples.iter().map(|sample| sample.as_ms()).sum::<f64>() / samples.len() as f64;
    report.insert(format!("mean_{name}"), json!(mean));
    for (key, percent) in [("median", 50.0), ("p75", 75.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0)] {
        // The rank of reports.
        let rank = ((samples.len() - 1) as f64 * percent / 100.0).round() as usize;
        report.insert(format!("{key}_{name}"), json!(samples[rank].as_ms()));
    }
}

#[allow(clippy::print_stdout, reason = "what it is for")]
fn print(report: &Map<String, Value>) -> Result<(), Box<dyn Error>> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}
