//! Rows of `agentic_mooncake`: Mooncake fields, and what a request waits for.

use dynosim_engine::Nanos;
use serde_json::Value;

use crate::error::RowError;
use crate::graph::Trigger;
use crate::row::{Excess, MAX_TIME_MS, Row, RowRules, check_block_tokens};
use crate::values::{flag, get, list, members, ms, object, required_ms, required_text, texts, tokens};

/// What the first line of the versioned form says it is.
pub(crate) const SCHEMA: &str = "dynamo.agentic_mooncake";
/// The version that is read and written.
pub(crate) const VERSION: u64 = 2;

/// The two forms of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Dynamo 1.3: `wait_for`, `delay` and `tool_wait_ms`.
    Flat,
    /// Dynamo 1.6: a header, plays and typed dependencies.
    Versioned,
}

/// The first line of the versioned form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) block_size: u32,
}

impl Header {
    /// Reads a line as a header; none if it is a row.
    pub(crate) fn parse(line: &[u8]) -> Result<Option<Self>, RowError> {
        let [schema, version, block_size, scope, source] =
            members(line, ["schema", "version", "block_size", "hash_id_scope", "source"])?;
        if schema.is_null() {
            return Ok(None);
        }
        exactly("schema", &schema, &Value::from(SCHEMA))?;
        exactly("version", &version, &Value::from(VERSION))?;
        exactly("hash_id_scope", &scope, &Value::from("local"))?;
        let source = object("source", &source)?;
        let source =
            source.ok_or(RowError::Missing { field: "source", allowed: "an object with format and digest" })?;
        required_text("source.format", get(source, "format"))?;
        required_text("source.digest", get(source, "digest"))?;
        let block_size = check_block_tokens("block_size", tokens("block_size", &block_size)?)?;
        Ok(Some(Self { block_size }))
    }
}

fn exactly(field: &'static str, value: &Value, allowed: &Value) -> Result<(), RowError> {
    if value == allowed { Ok(()) } else { Err(RowError::range(field, value, allowed.to_string())) }
}

/// How one request depends on another, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    Sequence,
    Spawn,
    Join,
    ReplayBarrier,
}

impl Relation {
    const ALL: [(&'static str, Self); 4] = [
        ("sequence", Self::Sequence),
        ("spawn", Self::Spawn),
        ("join", Self::Join),
        ("replay_barrier", Self::ReplayBarrier),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, relation)| *relation == self).map_or("", |(name, _)| name)
    }
}

/// What a request waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dependency {
    pub(crate) request_id: String,
    pub(crate) trigger: Trigger,
    pub(crate) delay: Nanos,
    pub(crate) relation: Relation,
}

/// One row of either form.
#[derive(Clone, Debug)]
pub(crate) struct AgenticRow<'a> {
    /// Has a request id.
    pub(crate) row: Row<'a>,
    pub(crate) dependencies: Vec<Dependency>,
    /// Not to be sent before, counted from the epoch of the trace.
    pub(crate) not_before: Nanos,
    /// In the versioned form.
    pub(crate) play_id: Option<String>,
    /// In the versioned form.
    pub(crate) model: Option<String>,
    /// In the flat form: requests that this one spawns.
    pub(crate) branches: Vec<String>,
    /// In the flat form: it begins a trajectory.
    pub(crate) prefix_reset: bool,
    /// In the flat form: the part of the delay in which tools ran.
    pub(crate) tool_wait: Nanos,
}

impl<'a> AgenticRow<'a> {
    /// Parses a line, without its line break; `hash_ids` is cleared and filled.
    pub(crate) fn parse(
        line: &'a [u8],
        form: Form,
        trace_block_size: u32,
        hash_ids: &mut Vec<u64>,
    ) -> Result<Self, RowError> {
        let rules = RowRules { trace_block_size, excess: Excess::Reject };
        let row = Row::parse(line, rules, hash_ids)?;
        if row.request_id.is_none() {
            return Err(RowError::Missing { field: "request_id", allowed: "a string that no other row has" });
        }
        match form {
            Form::Flat => Self::flat(line, row),
            Form::Versioned => Self::versioned(line, row),
        }
    }

    /// The name of the request.
    pub(crate) fn request_id(&self) -> &str {
        self.row.request_id.as_deref().unwrap_or_default()
    }

    fn flat(line: &[u8], row: Row<'a>) -> Result<Self, RowError> {
        let [wait_for, branches, prefix_reset, tool_wait] =
            members(line, ["wait_for", "branches", "prefix_reset", "tool_wait_ms"])?;
        let tool_wait = ms("tool_wait_ms", &tool_wait)?.unwrap_or_default();
        let waiting = texts("wait_for", &wait_for)?;
        let delay = row.delay.unwrap_or_default() + tool_wait;
        if delay.as_ms() > MAX_TIME_MS {
            let allowed = format!("up to {MAX_TIME_MS} ms with the delay");
            return Err(RowError::range("tool_wait_ms", &tool_wait.as_ms(), allowed));
        }
        let dependency = |request_id: &str| Dependency {
            request_id: request_id.to_owned(),
            trigger: Trigger::Completion,
            delay,
            relation: Relation::Sequence,
        };
        let dependencies: Vec<_> = waiting.into_iter().map(dependency).collect();
        let not_before = if dependencies.is_empty() { root_time(&row, tool_wait)? } else { Nanos::ZERO };
        Ok(Self {
            row,
            dependencies,
            not_before,
            play_id: None,
            model: None,
            branches: texts("branches", &branches)?.into_iter().map(str::to_owned).collect(),
            prefix_reset: flag("prefix_reset", &prefix_reset)?,
            tool_wait,
        })
    }

    fn versioned(line: &[u8], row: Row<'a>) -> Result<Self, RowError> {
        let [play_id, model, not_before, recorded, dependencies] =
            members(line, ["play_id", "model", "not_before_ms", "recorded_api_time_ms", "dependencies"])?;
        if row.session_id.is_none() {
            return Err(RowError::Missing { field: "session_id", allowed: "a string" });
        }
        ms("recorded_api_time_ms", &recorded)?;
        let dependencies = match &dependencies {
            Value::Null => Vec::new(),
            given => {
                list("dependencies", given, "a list of objects")?.iter().map(dependency).collect::<Result<_, _>>()?
            }
        };
        Ok(Self {
            row,
            dependencies,
            not_before: required_ms("not_before_ms", &not_before)?,
            play_id: Some(required_text("play_id", &play_id)?.to_owned()),
            model: Some(required_text("model", &model)?.to_owned()),
            branches: Vec::new(),
            prefix_reset: false,
            tool_wait: Nanos::ZERO,
        })
    }
}

/// The time of a request that waits for nothing.
fn root_time(row: &Row<'_>, tool_wait: Nanos) -> Result<Nanos, RowError> {
    const ALLOWED: &str = "0 on a request that waits for nothing";
    if let Some(delay) = row.delay.filter(|delay| *delay > Nanos::ZERO) {
        return Err(RowError::range("delay", &delay.as_ms(), ALLOWED));
    }
    if tool_wait > Nanos::ZERO {
        return Err(RowError::range("tool_wait_ms", &tool_wait.as_ms(), ALLOWED));
    }
    row.timestamp.ok_or(RowError::Missing {
        field: "timestamp",
        allowed: "a number of ms, 0 or more; only requests that wait for others do without",
    })
}

fn dependency(value: &Value) -> Result<Dependency, RowError> {
    const FIELD: &str = "dependencies";
    if !value.is_object() {
        let value = crate::mooncake::Scalar::from(value).to_string();
        return Err(RowError::WrongType { field: FIELD, value, allowed: "a list of objects" });
    }
    let request_id = required_text("dependencies.request_id", get(value, "request_id"))?.to_owned();
    let trigger = match required_text("dependencies.trigger", get(value, "trigger"))? {
        "dispatch" => Trigger::Dispatch,
        "completion" => Trigger::Completion,
        other => return Err(RowError::range("dependencies.trigger", &format!("`{other}`"), "dispatch, completion")),
    };
    let delay = required_ms("dependencies.delay_ms", get(value, "delay_ms"))?;
    let relation = required_text("dependencies.relation", get(value, "relation"))?;
    let known = Relation::ALL.iter().find(|(name, _)| *name == relation);
    let Some(&(_, relation)) = known else {
        let allowed = "sequence, spawn, join, replay_barrier";
        return Err(RowError::range("dependencies.relation", &format!("`{relation}`"), allowed));
    };
    Ok(Dependency { request_id, trigger, delay, relation })
}
