//! Measures how fast a trace is checked, streamed and rechunked: `read_speed <trace> [engine block size]`.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a measurement reads the clock and prints")]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dynosim_workload::{Row, RowRules, Trace, TraceOptions, Workload};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: read_speed <trace> [engine block size]")?;
    let engine_block_size = arguments.next().map_or(Ok(64), |text| text.parse())?;
    for _ in 0..5 {
        parse(&path)?;
        replay(Path::new(&path), engine_block_size)?;
    }
    Ok(())
}

fn parse(path: &str) -> Result<(), Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let (mut ids, rules) = (Vec::new(), RowRules::default());
    let start = Instant::now();
    for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        std::hint::black_box(Row::parse(line, &rules, &mut ids)?);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("parse {:.1} ms, {:.0} MB/s", seconds * 1e3, bytes.len() as f64 / 1e6 / seconds);
    Ok(())
}

fn replay(path: &Path, engine_block_size: u32) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut trace = Trace::open(path, &TraceOptions { engine_block_size, ..TraceOptions::default() })?;
    let opened = start.elapsed().as_secs_f64();
    let (mut hashes, mut blocks, mut turns) = (Vec::new(), 0, 0);
    while let Some(mut turn) = trace.take(&mut hashes)? {
        loop {
            blocks += hashes.len();
            turns += 1;
            if trace.next_delay(&turn).is_none() {
                break;
            }
            turn = trace.take_next(turn.session, &mut hashes)?;
        }
    }
    let total = start.elapsed().as_secs_f64();
    println!(
        "open {:.1} ms, stream {:.1} ms, total {:.1} ms: {turns} turns, {blocks} blocks",
        opened * 1e3,
        (total - opened) * 1e3,
        total * 1e3
    );
    Ok(())
}
