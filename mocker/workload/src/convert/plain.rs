//! To plain `mooncake` rows.

use std::io::Write;

use super::numbers::Numbers;
use super::rows::{Ms, OutRow};
use super::{ConvertError, ConvertOptions, Converted, for_each_line};
use crate::applied::Session;
use crate::azure;
use crate::decode::{line_error, row_error};
use crate::dynamo::load;
use crate::dynamo::record::Request;
use crate::error::WorkloadError;
use crate::graph_trace::NamedSource;
use crate::lines::Lines;
use crate::row::DEFAULT_TRACE_BLOCK_SIZE;

/// `dynamo` to `mooncake`: every request at its own time, whoever sent it.
pub(super) fn from_dynamo(
    files: Vec<NamedSource>,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let loaded = load(files, options.trace_block_size)?;
    let start = loaded.requests.iter().map(|request| request.span.start).min().unwrap_or_default();
    let (mut numbers, mut buffer, mut ids) = (Numbers::default(), Vec::new(), Vec::new());
    for (number, kept) in loaded.requests.iter().enumerate() {
        let file = &loaded.files[kept.place.file as usize];
        file.read_at(kept.place, number as u64, &mut buffer)?;
        let request = Request::parse(&buffer, &mut ids).map_err(|_| file.changed(number as u64))?;
        numbers.replace(&mut ids);
        let row = OutRow {
            request_id: Some(&request.id),
            timestamp: Some(Ms(kept.span.start.since(start))),
            input_length: request.input_tokens,
            output_length: request.output_tokens,
            hash_ids: &ids,
            ..OutRow::default()
        };
        row.write(out)?;
    }
    Ok(Converted { rows: loaded.requests.len() as u64, block_size: loaded.block_size })
}

/// `applied_compute_agentic` to `mooncake`: sessions whose turns pause as long as the tools took.
pub(super) fn from_applied(
    file: &NamedSource,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let block_size = options.block_size();
    let (mut numbers, mut ids) = (Numbers::default(), Vec::new());
    let (mut sessions, mut rows) = (0u32, 0);
    for_each_line(file, |line| {
        let session = Session::parse(line.bytes)?;
        let name = format!("session_{}", u64::from(sessions) + 1);
        for (turn, &output_length) in session.outputs.iter().enumerate() {
            session.hash_ids(sessions, turn, block_size, options.shared_prefix, &mut ids);
            numbers.replace(&mut ids);
            let pause = turn.checked_sub(1).map(|before| Ms(session.pauses[before]));
            let row = OutRow {
                session_id: Some(&name),
                delay: pause,
                input_length: session.prompt(turn),
                output_length,
                hash_ids: &ids,
                ..OutRow::default()
            };
            row.write(out)?;
            rows += 1;
        }
        sessions += 1;
        Ok(())
    })?;
    Ok(Converted { rows, block_size })
}

/// `azure` to `mooncake`: no two prompts share anything.
pub(super) fn from_azure(file: &NamedSource, out: &mut dyn Write) -> Result<Converted, ConvertError> {
    let name = &file.name;
    let empty = || WorkloadError::Empty { file: name.clone() };
    let mut lines = Lines::new(file.source.stream());
    let header = lines.next().map_err(|error| line_error(name, error))?.ok_or_else(empty)?;
    azure::check_header(header.bytes).map_err(|error| row_error(name, header.number, error))?;
    let (mut start, mut rows, mut next) = (None, 0, 0u64);
    while let Some(line) = lines.next().map_err(|error| line_error(name, error))? {
        let row = azure::parse_row(line.bytes).map_err(|error| row_error(name, line.number, error))?;
        let blocks = u64::from(row.input_tokens.div_ceil(DEFAULT_TRACE_BLOCK_SIZE));
        let ids: Vec<u64> = (next..next + blocks).collect();
        next += blocks;
        let time = row.timestamp.unwrap_or_default();
        // The rows are in order but for some milliseconds, and no time is below zero.
        let start = *start.get_or_insert(dynosim_engine::Nanos(time.0 / DAY * DAY));
        OutRow { timestamp: Some(Ms(time.since(start))), ..OutRow::of(&row, &ids) }.write(out)?;
        rows += 1;
    }
    if rows == 0 { Err(empty().into()) } else { Ok(Converted { rows, block_size: DEFAULT_TRACE_BLOCK_SIZE }) }
}

/// Nanoseconds; times count from the midnight before the first row.
const DAY: u64 = 86_400_000_000_000;
