//! Workers that a request names.

use dynosim_wire::protocol::RoutingHints;
use http::HeaderMap;

use crate::generate::GenerateError;

/// Headers that name the worker that gives the output; the first that is there counts (as published).
const WORKER_HEADERS: [&str; 2] = ["x-dynamo-worker-instance-id", "x-worker-instance-id"];
/// Headers that name the worker that prefills.
const PREFILL_HEADERS: [&str; 2] = ["x-dynamo-prefill-instance-id", "x-prefill-instance-id"];
/// Headers that name the rank of the worker that gives the output.
const RANK_HEADERS: [&str; 3] = ["x-dynamo-dp-rank", "x-dp-rank", "x-data-parallel-rank"];
/// Headers that name the rank of the worker that prefills.
const PREFILL_RANK_HEADERS: [&str; 2] = ["x-dynamo-prefill-dp-rank", "x-prefill-dp-rank"];

/// Workers that a request names, in its body (`nvext`) or in headers, which win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    /// Gives the output.
    pub(crate) worker: Option<u64>,
    /// Prefills.
    pub(crate) prefill: Option<u64>,
    /// Rank of the worker that gives the output.
    pub(crate) rank: Option<u32>,
    /// Rank of the worker that prefills.
    pub(crate) prefill_rank: Option<u32>,
}

impl Pins {
    /// Reads hints and headers.
    pub(crate) fn read(hints: Option<&RoutingHints>, headers: &HeaderMap) -> Result<Self, GenerateError> {
        let none = RoutingHints::default();
        let hints = hints.unwrap_or(&none);
        Ok(Self {
            worker: header(headers, &WORKER_HEADERS)?.or(hints.decode_worker_id).or(hints.backend_instance_id),
            prefill: header(headers, &PREFILL_HEADERS)?.or(hints.prefill_worker_id),
            rank: header(headers, &RANK_HEADERS)?.or(hints.dp_rank),
            prefill_rank: header(headers, &PREFILL_RANK_HEADERS)?.or(hints.prefill_dp_rank),
        })
    }
}

fn header<T: std::str::FromStr>(headers: &HeaderMap, names: &[&'static str]) -> Result<Option<T>, GenerateError> {
    let Some((name, value)) = names.iter().find_map(|name| Some((name, headers.get(*name)?))) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| {
        let value = String::from_utf8_lossy(value.as_bytes());
        GenerateError::Invalid(format!("header {name}: `{value}` is no number (allowed: a worker's id or rank)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_win_over_the_body_and_must_be_numbers() {
        let hints =
            RoutingHints { backend_instance_id: Some(1), prefill_worker_id: Some(2), ..RoutingHints::default() };
        let mut headers = HeaderMap::new();
        let read = Pins::read(Some(&hints), &headers).unwrap();
        assert_eq!(read, Pins { worker: Some(1), prefill: Some(2), ..Pins::default() });
        headers.insert("x-worker-instance-id", "7".parse().unwrap());
        headers.insert("x-dp-rank", "3".parse().unwrap());
        let read = Pins::read(Some(&hints), &headers).unwrap();
        assert_eq!(read, Pins { worker: Some(7), prefill: Some(2), rank: Some(3), prefill_rank: None });
        headers.insert("x-dynamo-worker-instance-id", "f".parse().unwrap());
        assert!(Pins::read(None, &headers).unwrap_err().to_string().contains("x-dynamo-worker-instance-id: `f`"));
    }
}
