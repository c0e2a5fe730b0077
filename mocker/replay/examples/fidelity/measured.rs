//! The measured runs: what was sent, when, and when its tokens came.

use std::borrow::Cow;
use std::path::Path;

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;
use dynosim_workload::{Turn, Workload, WorkloadError};
use serde_json::Value;

/// One request of a measured run. Times in milliseconds on the engine's clock, counted from the first arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) arrival_ms: f64,
    pub(crate) first_token_ms: f64,
    pub(crate) last_token_ms: f64,
}

/// Reads `<name>__requests.jsonl` of a folder, sorted by arrival.
///
/// Arrivals are on the client's clock. They are moved to the engine's clock so that the request that was queued fastest
/// was queued at once.
pub(crate) fn read(folder: &Path, name: &str) -> Vec<Measured> {
    let path = folder.join(format!("{name}__requests.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{}: {key}", path.display()));
    let delay = |row: &Value| number(row, "queued_ts") - number(row, "arrival_time");
    let offset = rows.iter().map(delay).fold(f64::INFINITY, f64::min);
    let start = rows.iter().map(|row| number(row, "arrival_time")).fold(f64::INFINITY, f64::min);
    let mut requests: Vec<Measured> = rows
        .iter()
        .map(|row| Measured {
            input_tokens: number(row, "input_toks") as u32,
            output_tokens: number(row, "output_toks") as u32,
            arrival_ms: (number(row, "arrival_time") - start) * 1e3,
            first_token_ms: (number(row, "first_token_ts") - offset - start) * 1e3,
            last_token_ms: (number(row, "last_token_ts") - offset - start) * 1e3,
        })
        .collect();
    requests.sort_by(|a, b| a.arrival_ms.total_cmp(&b.arrival_ms));
    requests
}

/// The requests of a measured run as a workload. No two prompts have a block in common: the contents are not known.
pub(crate) struct Requests<'a> {
    rows: &'a [Measured],
    block_size: u32,
    next: usize,
}

impl<'a> Requests<'a> {
    pub(crate) fn new(rows: &'a [Measured], block_size: u32) -> Self {
        Self { rows, block_size, next: 0 }
    }
}

impl Workload for Requests<'_> {
    fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
        Ok(self.rows.get(self.next).map(|request| Nanos::from_ms(request.arrival_ms)))
    }

    fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
        let Some(request) = self.rows.get(self.next) else { return Ok(None) };
        let row = self.next as u64;
        self.next += 1;
        hashes.clear();
        hashes.extend((0..request.input_tokens / self.block_size).map(|block| mix(row, block.into())));
        Ok(Some(Turn {
            session: row as u32,
            row,
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            ..Turn::default()
        }))
    }

    fn next_delay(&mut self, _: &Turn) -> Option<Nanos> {
        None
    }

    fn take_next(&mut self, session: u32, _: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
        Err(WorkloadError::NoTurn { session })
    }

    fn total_requests(&self) -> u64 {
        self.rows.len() as u64
    }

    fn total_sessions(&self) -> u64 {
        self.total_requests()
    }

    fn session_name(&self, session: u32) -> Cow<'_, str> {
        Cow::Owned(session.to_string())
    }
}
