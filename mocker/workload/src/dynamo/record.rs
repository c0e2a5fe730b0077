//! Records of Dynamo's request traces and of its older agent traces.
//!
//! A line is a record, or an object whose `event` is one. Only requests that have ended and tools that have are read.

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;
use serde_json::Value;

use crate::error::RowError;
use crate::names::name_hash;
use crate::row::{check_block_tokens, check_total};
use crate::values::{get, ids, members, ms, object, required_ms, required_text, text, tokens};

const SCHEMAS: [&str; 2] = ["dynamo.request.trace.v1", "dynamo.agent.trace.v1"];
/// Sets the rest of a prompt after its full blocks apart from all blocks.
const TAIL: u64 = u64::from_be_bytes(*b"lastpart");

/// Who sent a request: one chain of reasoning and tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agent {
    /// The run that it belongs to; empty where sessions have no runs above them.
    pub(crate) run: String,
    pub(crate) name: String,
    /// The chain that started it.
    pub(crate) parent: Option<String>,
}

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) model: Option<String>,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens: u32,
    pub(crate) block_size: u32,
    pub(crate) agent: Option<Agent>,
}

/// A tool call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tool {
    pub(crate) agent: Agent,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

/// What a line holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Request(Request),
    Tool(Tool),
    /// Nothing that a replay needs.
    Other,
}

impl Record {
    /// Parses a line; `hashes` is cleared, and filled if it is a request.
    pub(crate) fn parse(line: &[u8], hashes: &mut Vec<u64>) -> Result<Self, RowError> {
        const KEYS: [&str; 6] = ["schema", "event_type", "event_time_unix_ms", "agent_context", "request", "tool"];
        hashes.clear();
        let [event] = members(line, ["event"])?;
        let [schema, kind, time, context, request, tool] = match object("event", &event)? {
            None => members(line, KEYS)?,
            Some(event) => KEYS.map(|key| get(event, key).clone()),
        };
        let schema = required_text("schema", &schema)?;
        if !SCHEMAS.contains(&schema) {
            return Err(RowError::range("schema", &format!("`{schema}`"), SCHEMAS.join(", ")));
        }
        match required_text("event_type", &kind)? {
            "request_end" => {
                let agent = agent(&context)?;
                let ended = required_ms("event_time_unix_ms", &time)?;
                Ok(Self::Request(parse_request(&request, ended, agent, hashes)?))
            }
            "tool_end" | "tool_error" => {
                let allowed = "an object with the names of the run and the trajectory";
                let agent = agent(&context)?.ok_or(RowError::Missing { field: "agent_context", allowed })?;
                let ended = required_ms("event_time_unix_ms", &time)?;
                parse_tool(&tool, ended, agent).map(Self::Tool)
            }
            _ => Ok(Self::Other),
        }
    }
}

impl Request {
    /// Parses a line that is known to be a request.
    pub(crate) fn parse(line: &[u8], hashes: &mut Vec<u64>) -> Result<Self, RowError> {
        match Record::parse(line, hashes)? {
            Record::Request(request) => Ok(request),
            _ => Err(RowError::Missing { field: "request", allowed: "an object" }),
        }
    }
}

fn agent(context: &Value) -> Result<Option<Agent>, RowError> {
    let Some(context) = object("agent_context", context)? else { return Ok(None) };
    let session = required_text("agent_context.session_id", get(context, "session_id"))?;
    let trajectory = text("agent_context.trajectory_id", get(context, "trajectory_id"))?;
    let parent_session = text("agent_context.parent_session_id", get(context, "parent_session_id"))?;
    let parent = text("agent_context.parent_trajectory_id", get(context, "parent_trajectory_id"))?;
    let owned = |name: Option<&str>| name.map(str::to_owned);
    Ok(Some(match trajectory {
        Some(name) => Agent { run: session.to_owned(), name: name.to_owned(), parent: owned(parent) },
        None => Agent { run: String::new(), name: session.to_owned(), parent: owned(parent_session) },
    }))
}

const BLOCK_SIZE: &str = "request.replay.trace_block_size";

fn parse_request(
    request: &Value,
    ended: Nanos,
    agent: Option<Agent>,
    hashes: &mut Vec<u64>,
) -> Result<Request, RowError> {
    let missing = |field, allowed| RowError::Missing { field, allowed };
    let request = object("request", request)?.ok_or_else(|| missing("request", "an object"))?;
    let id = required_text("request.request_id", get(request, "request_id"))?.to_owned();
    let model = text("request.model", get(request, "model"))?.map(str::to_owned);
    let replay = object("request.replay", get(request, "replay"))?;
    let replay = replay.ok_or_else(|| missing("request.replay", "an object; the trace was made without it"))?;
    let output_tokens = tokens("request.output_tokens", get(request, "output_tokens"))?;
    let input_tokens = tokens("request.replay.input_length", get(replay, "input_length"))?;
    check_total("request.output_tokens", input_tokens, output_tokens)?;
    let block_size = check_block_tokens(BLOCK_SIZE, tokens(BLOCK_SIZE, get(replay, "trace_block_size"))?)?;
    read_hashes(get(replay, "input_sequence_hashes"), input_tokens, block_size, &id, hashes)?;
    let received = ms("request.request_received_ms", get(request, "request_received_ms"))?;
    let total = ms("request.total_time_ms", get(request, "total_time_ms"))?;
    let start = received.unwrap_or_else(|| ended.since(total.unwrap_or_default()));
    let end = total.map_or(ended, |total| start + total).max(start);
    Ok(Request { id, model, start, end, input_tokens, output_tokens, block_size, agent })
}

/// One hash per block. The rest of a prompt after its full blocks may have one or not.
fn read_hashes(
    value: &Value,
    input_tokens: u32,
    block_size: u32,
    id: &str,
    hashes: &mut Vec<u64>,
) -> Result<(), RowError> {
    const FIELD: &str = "request.replay.input_sequence_hashes";
    ids(FIELD, value, hashes)?;
    let (full, all) = ((input_tokens / block_size) as usize, input_tokens.div_ceil(block_size) as usize);
    if hashes.len() == full && full < all {
        hashes.push(mix(TAIL, name_hash(id)));
    }
    if hashes.len() == all {
        return Ok(());
    }
    let allowed = format!("{all}, {input_tokens} tokens in blocks of {block_size}");
    Err(RowError::range(FIELD, &format!("{} hashes", hashes.len()), allowed))
}

fn parse_tool(tool: &Value, ended: Nanos, agent: Agent) -> Result<Tool, RowError> {
    let tool = object("tool", tool)?.ok_or(RowError::Missing { field: "tool", allowed: "an object" })?;
    let end = ms("tool.ended_at_unix_ms", get(tool, "ended_at_unix_ms"))?.unwrap_or(ended);
    let duration = ms("tool.duration_ms", get(tool, "duration_ms"))?.unwrap_or_default();
    let start = ms("tool.started_at_unix_ms", get(tool, "started_at_unix_ms"))?;
    Ok(Tool { agent, start: start.unwrap_or_else(|| end.since(duration)).min(end), end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_may_be_wrapped_and_an_older_one_tells_trajectories() {
        let line = r#"{"timestamp":1234,"event":{"schema":"dynamo.agent.trace.v1","event_type":"request_end",
            "event_time_unix_ms":1777312801000,"event_source":"dynamo","agent_context":{"session_type_id":"t",
            "session_id":"run","trajectory_id":"run:a","parent_trajectory_id":"run:p"},"request":{"request_id":"r",
            "x_request_id":"x","model":"m","output_tokens":16,"total_time_ms":250.5,"replay":{"trace_block_size":64,
            "input_length":130,"input_sequence_hashes":[14879255164371896291,7]}}}}"#;
        let mut hashes = vec![1];
        let Record::Request(request) = Record::parse(line.as_bytes(), &mut hashes).unwrap() else {
            panic!("no request")
        };
        let agent = Agent { run: "run".to_owned(), name: "run:a".to_owned(), parent: Some("run:p".to_owned()) };
        assert_eq!(request.agent, Some(agent));
        assert_eq!((request.input_tokens, request.output_tokens, request.block_size), (130, 16, 64));
        assert_eq!((request.start.as_ms(), request.end.as_ms()), (1_777_312_800_749.5, 1_777_312_801_000.0));
        assert_eq!((hashes.len(), &hashes[..2]), (3, &[14_879_255_164_371_896_291, 7][..]));
    }

    #[test]
    fn tools_have_spans_and_other_events_are_skipped() {
        let line = r#"{"schema":"dynamo.request.trace.v1","event_type":"tool_end","event_time_unix_ms":900,
            "agent_context":{"session_id":"s"},"tool":{"tool_call_id":"c","tool_class":"search","duration_ms":420.5}}"#;
        let Record::Tool(tool) = Record::parse(line.as_bytes(), &mut Vec::new()).unwrap() else { panic!("no tool") };
        assert_eq!((tool.start.as_ms(), tool.end.as_ms(), tool.agent.name.as_str()), (479.5, 900.0, "s"));
        let line = r#"{"schema":"dynamo.request.trace.v1","event_type":"request_payload"}"#;
        assert_eq!(Record::parse(line.as_bytes(), &mut Vec::new()), Ok(Record::Other));
    }
}
