//! Measures how fast a trace is checked, streamed and rechunked: `read_speed <trace> [engine block size]`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement reads the clock and prints")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dynosim_workload::{Row, RowRules, Trace, TraceOptions, Workload};

/// The best of so many counts, as other work on the machine only ever adds time.
const ROUNDS: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read_speed <trace> [engine block size]")?;
    let engine_block_size = arguments.next().map_or(Ok(64), |text| text.parse())?;
    let bytes = std::fs::read(&path)?;
    let (mut parsed, mut opened, mut streamed) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        parsed = parsed.min(parse(&bytes)?);
        let (open, stream) = replay(Path::new(&path), engine_block_size)?;
        (opened, streamed) = (opened.min(open), streamed.min(stream));
    }
    println!("parse {:.1} ms, {:.0} MB/s", parsed * 1e3, bytes.len() as f64 / 1e6 / parsed);
    println!("open {:.1} ms, stream {:.1} ms", opened * 1e3, streamed * 1e3);
    Ok(())
}

/// Seconds to parse all lines.
fn parse(bytes: &[u8]) -> Result<f64, Box<dyn Error>> {
    let (mut ids, rules) = (Vec::new(), RowRules::default());
    let start = Instant::now();
    let mut rest = bytes;
    while let Some(end) = memchr::memchr(b'\n', rest) {
        std::hint::black_box(Row::parse(&rest[..end], &rules, &mut ids)?);
        rest = &rest[end + 1..];
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds to open a trace, and to take all its turns.
fn replay(path: &Path, engine_block_size: u32) -> Result<(f64, f64), Box<dyn Error>> {
    let start = Instant::now();
    let mut trace = Trace::open(path, &TraceOptions { engine_block_size, ..TraceOptions::default() })?;
    let opened = start.elapsed().as_secs_f64();
    let mut hashes = Vec::new();
    while let Some(mut turn) = trace.take(&mut hashes)? {
        while trace.next_delay(&turn).is_some() {
            turn = trace.take_next(turn.session, &mut hashes)?;
        }
    }
    Ok((opened, start.elapsed().as_secs_f64() - opened))
}
