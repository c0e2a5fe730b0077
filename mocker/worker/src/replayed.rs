//! `response_replay_trace_path`: outputs that were recorded and are given again.
//!
//! A request names its output by the annotation `output_replay_id:KEY`. The key of a row is its `request_id`, else its
//! `session_id`, a colon and the number of the row among those of the session (from 0), else `line:` and the number of
//! the row (from 0) (`dynamo-mocker` 1.6.1). The output replaces what the request asks for, its length included.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::Deserialize;

/// Annotation by which a request names its output.
const ANNOTATION: &str = "output_replay_id:";
/// Longest row in bytes.
pub const MAX_ROW_BYTES: u64 = 64 * 1024 * 1024;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ReplayedError {
    /// Which.
    pub path: String,
    /// Why, with the line.
    pub reason: String,
}

#[derive(Deserialize)]
struct Row {
    #[serde(default)]
    request_id: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    output_token_ids: Option<Vec<u32>>,
    #[serde(default)]
    output_length: Option<u64>,
}

/// Outputs by key.
#[derive(Clone, Debug, Default)]
pub struct ReplayedOutputs {
    outputs: FxHashMap<String, Arc<[u32]>>,
}

impl ReplayedOutputs {
    /// Reads a trace of JSON lines. Rows without `output_token_ids` only count.
    pub fn open(path: &Path) -> Result<Self, ReplayedError> {
        let fault = |reason: String| ReplayedError { path: path.display().to_string(), reason };
        let file = File::open(path).map_err(|error| fault(error.to_string()))?;
        let mut reader = Rows { lines: BufReader::new(file), line: 0, buffer: Vec::new() };
        let mut replayed = Self::default();
        let mut turns: FxHashMap<String, u64> = FxHashMap::default();
        let mut index = 0;
        while let Some(row) = reader.next().map_err(fault)? {
            replayed.add(row, index, &mut turns).map_err(|reason| fault(format!("line {}: {reason}", reader.line)))?;
            index += 1;
        }
        if replayed.outputs.is_empty() {
            return Err(fault("no row has `output_token_ids`".to_owned()));
        }
        Ok(replayed)
    }

    fn add(&mut self, row: Row, index: u64, turns: &mut FxHashMap<String, u64>) -> Result<(), String> {
        let named = |name: Option<String>| {
            name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty())
        };
        let session = named(row.session_id).map(|session| {
            let turn = turns.entry(session.clone()).or_default();
            *turn += 1;
            format!("{session}:{}", *turn - 1)
        });
        let key = named(row.request_id).or(session).unwrap_or_else(|| format!("line:{index}"));
        let Some(tokens) = row.output_token_ids else { return Ok(()) };
        if tokens.is_empty() {
            return Err("`output_token_ids` is empty (allowed: one token or more)".to_owned());
        }
        if let Some(length) = row.output_length.filter(|&length| length != tokens.len() as u64) {
            return Err(format!("`output_length` is {length}, but `output_token_ids` has {}", tokens.len()));
        }
        match self.outputs.insert(key.clone(), tokens.into()) {
            Some(_) => Err(format!("the key `{key}` was there before")),
            None => Ok(()),
        }
    }

    /// The output that the annotations of a request name. None if they name none, or one that is not there, which is
    /// logged.
    pub(crate) fn find(replayed: Option<&Arc<Self>>, annotations: &[String]) -> Option<Arc<[u32]>> {
        let key = annotations.iter().find_map(|annotation| annotation.strip_prefix(ANNOTATION))?;
        let Some(replayed) = replayed else {
            tracing::warn!(key, "a request names an output, but there is no trace of outputs");
            return None;
        };
        let found = replayed.outputs.get(key).cloned();
        if found.is_none() {
            tracing::warn!(key, "a request names an output that the trace does not have");
        }
        found
    }
}

/// The rows of a file, of limited length.
struct Rows<R> {
    lines: R,
    line: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Rows<R> {
    fn next(&mut self) -> Result<Option<Row>, String> {
        loop {
            self.line += 1;
            self.buffer.clear();
            let mut limited = std::io::Read::take(&mut self.lines, MAX_ROW_BYTES + 1);
            let read = limited.read_until(b'\n', &mut self.buffer).map_err(|error| error.to_string())?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 > MAX_ROW_BYTES {
                return Err(format!("line {}: longer than {MAX_ROW_BYTES} bytes", self.line));
            }
            let row = self.buffer.trim_ascii();
            if !row.is_empty() {
                let row = serde_json::from_slice(row).map_err(|error| format!("line {}: {error}", self.line))?;
                return Ok(Some(row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn open(text: &str) -> Result<ReplayedOutputs, ReplayedError> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text.as_bytes()).expect("written");
        ReplayedOutputs::open(file.path())
    }

    #[test]
    fn rows_are_found_by_request_or_session_and_turn_or_line() {
        let text = r#"{"request_id":"r","session_id":"s","output_token_ids":[1]}
{"session_id":"s","output_length":2,"output_token_ids":[2,3]}

{"output_token_ids":[4]}
{"input_length":7}
{"request_id":" ","output_token_ids":[5]}"#;
        let replayed = Arc::new(open(text).expect("good"));
        let find = |key: &str| {
            ReplayedOutputs::find(Some(&replayed), &["other".to_owned(), format!("output_replay_id:{key}")])
        };
        for (key, tokens) in [("r", &[1][..]), ("s:1", &[2, 3]), ("line:2", &[4]), ("line:4", &[5])] {
            assert_eq!(find(key).as_deref(), Some(tokens), "{key}");
        }
        assert_eq!(find("s:0"), None, "a row with a request id has no other key");
    }

    #[test]
    fn bad_rows_are_refused_with_their_line() {
        for (text, reason) in [
            ("{}", "no row has `output_token_ids`"),
            ("{\"output_token_ids\":[1]}\n{\"output_token_ids\":[]}", "line 2: `output_token_ids` is empty"),
            ("{\"output_length\":2,\"output_token_ids\":[1]}", "line 1: `output_length` is 2"),
            ("{\"output_token_ids\":[-1]}", "line 1: invalid value"),
            ("\n[", "line 2: "),
            (
                "{\"request_id\":\"a\",\"output_token_ids\":[1]}\n{\"request_id\":\"a\",\"output_token_ids\":[1]}",
                "line 2: the key `a` was there before",
            ),
        ] {
            let error = open(text).expect_err("bad").to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
