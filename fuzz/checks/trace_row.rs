//! Rows of traces never panic, accepted ones keep the limits that the replay relies on, and every accepted trace can be
//! read to its end.
//!
//! The first byte picks the way in: a Mooncake row, an Azure row, or a whole trace of either format.

use dynosim_workload::row::{MAX_REQUEST_TOKENS, MAX_TIME_MS};
use dynosim_workload::{Arrivals, Excess, Row, RowRules, Trace, TraceFormat, TraceOptions, Turn, Workload, azure};

/// Longer prompts are not hashed here: a row of 30 bytes can ask for hundreds of megabytes.
const HASHED_TOKENS_MAX: u32 = 1 << 20;

pub(crate) fn check(data: &[u8]) {
    let Some((way, data)) = data.split_first() else { return };
    match way % 6 {
        0 => mooncake_row(data),
        1 => drop(azure::parse_row(data).map(|row| limits(&row))),
        2 => trace(data, TraceFormat::Mooncake, Arrivals::Timestamps, Excess::Reject),
        3 => trace(data, TraceFormat::Mooncake, Arrivals::InOrder, Excess::Clamp),
        4 => trace(data, TraceFormat::Azure, Arrivals::Timestamps, Excess::Reject),
        _ => trace(data, TraceFormat::Azure, Arrivals::InOrder, Excess::Reject),
    }
}

fn mooncake_row(line: &[u8]) {
    let (mut ids, mut cut_ids) = (Vec::new(), Vec::new());
    let clamp = RowRules { excess: Excess::Clamp, ..RowRules::default() };
    let strict = Row::parse(line, RowRules::default(), &mut ids);
    let lenient = Row::parse(line, clamp, &mut cut_ids);
    if let Ok(row) = &lenient {
        limits(row);
        assert!(u64::from(row.input_tokens) <= cut_ids.len() as u64 * u64::from(clamp.trace_block_size));
    }
    match (strict, lenient) {
        (Ok(strict), lenient) => {
            assert_eq!(lenient.as_ref(), Ok(&strict));
            assert!(ids == cut_ids && !strict.clamped);
        }
        (Err(_), Ok(cut)) => assert!(cut.clamped),
        (Err(strict), Err(lenient)) => assert_eq!(strict, lenient),
    }
}

fn limits(row: &Row<'_>) {
    assert!(row.input_tokens > 0 && row.output_tokens > 0);
    assert!(u64::from(row.input_tokens) + u64::from(row.output_tokens) <= MAX_REQUEST_TOKENS);
    for time in [row.timestamp, row.delay].into_iter().flatten() {
        assert!(time.as_ms() <= MAX_TIME_MS);
    }
}

fn trace(text: &[u8], format: TraceFormat, arrivals: Arrivals, excess: Excess) {
    let rules = RowRules { excess, ..RowRules::default() };
    let options = TraceOptions { format, arrivals, rules, ..TraceOptions::default() };
    let Ok(mut trace) = Trace::from_bytes("trace", text.to_vec(), &options) else { return };
    let long = |line: &[u8]| {
        let row = match format {
            TraceFormat::Azure => azure::parse_row(line),
            _ => Row::parse(line, rules, &mut Vec::new())
                .map(|row| Row { input_tokens: row.input_tokens, ..Row::default() }),
        };
        row.is_ok_and(|row| row.input_tokens > HASHED_TOKENS_MAX)
    };
    if text.split(|byte| *byte == b'\n').any(long) {
        return;
    }
    let (mut hashes, mut seen) = (Vec::new(), 0);
    while let Some(mut turn) = trace.take(&mut hashes).expect("an accepted trace is readable") {
        let session = turn.session;
        loop {
            seen += 1;
            assert_eq!(hashes.len() as u32, turn.input_tokens / options.engine_block_size);
            if trace.next_delay(&turn).is_none() {
                break;
            }
            turn = next(&mut trace, session, &mut hashes);
        }
    }
    assert_eq!(seen, trace.total_requests());
}

fn next(trace: &mut Trace, session: u32, hashes: &mut Vec<u64>) -> Turn {
    trace.take_next(session, hashes).expect("an announced turn is there")
}
