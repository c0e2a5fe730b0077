//! Rows as they are written.

use std::io::{self, Write};

use dynosim_engine::Nanos;
use serde::{Serialize, Serializer};

use crate::agentic::row::{Dependency, SCHEMA, VERSION};
use crate::graph::Trigger;
use crate::row::Row;

/// Milliseconds, whole ones without a point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ms(pub(super) Nanos);

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const NANOS: u64 = 1_000_000;
        if self.0.0.is_multiple_of(NANOS) {
            serializer.serialize_u64(self.0.0 / NANOS)
        } else {
            serializer.serialize_f64(self.0.as_ms())
        }
    }
}

/// A row of any Mooncake format; what is none is left out.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct OutRow<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) play_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) not_before_ms: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delay: Option<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_wait_ms: Option<Ms>,
    pub(super) input_length: u32,
    pub(super) output_length: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_token_ids: Option<&'a [u64]>,
    pub(super) hash_ids: &'a [u64],
    #[serde(skip_serializing_if = "is_default")]
    pub(super) priority: i32,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) strict_priority: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy_class: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) wait_for: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) branches: Vec<&'a str>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) prefix_reset: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) dependencies: Vec<OutDependency<'a>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A dependency of the versioned form.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OutDependency<'a> {
    request_id: &'a str,
    trigger: &'static str,
    delay_ms: Ms,
    relation: &'static str,
}

impl<'a> OutDependency<'a> {
    pub(super) fn new(request_id: &'a str, delay: Nanos, relation: &'static str) -> Self {
        Self { request_id, trigger: "completion", delay_ms: Ms(delay), relation }
    }
}

impl<'a> From<&'a Dependency> for OutDependency<'a> {
    fn from(dependency: &'a Dependency) -> Self {
        let trigger = match dependency.trigger {
            Trigger::Dispatch => "dispatch",
            Trigger::Completion => "completion",
        };
        Self { trigger, ..Self::new(&dependency.request_id, dependency.delay, dependency.relation.name()) }
    }
}

impl<'a> OutRow<'a> {
    /// A row as it is, with its hash ids.
    pub(super) fn of(row: &'a Row<'_>, hash_ids: &'a [u64]) -> Self {
        Self {
            request_id: row.request_id.as_deref(),
            session_id: row.session_id.as_deref(),
            timestamp: row.timestamp.map(Ms),
            delay: row.delay.map(Ms),
            input_length: row.input_tokens,
            output_length: row.output_tokens,
            hash_ids,
            priority: row.priority,
            strict_priority: row.strict_priority,
            policy_class: row.policy_class.as_deref(),
            ..Self::default()
        }
    }

    /// Writes the row as a line.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        write_line(self, out)
    }
}

#[derive(Serialize)]
struct OutHeader<'a> {
    schema: &'static str,
    version: u64,
    block_size: u32,
    hash_id_scope: &'static str,
    source: OutSource<'a>,
}

#[derive(Serialize)]
struct OutSource<'a> {
    format: &'a str,
    digest: &'a str,
}

/// Writes the first line of the versioned form.
pub(super) fn write_header(block_size: u32, format: &str, digest: &str, out: &mut dyn Write) -> io::Result<()> {
    let source = OutSource { format, digest };
    let header = OutHeader { schema: SCHEMA, version: VERSION, block_size, hash_id_scope: "local", source };
    write_line(&header, out)
}

fn write_line<T: Serialize>(value: &T, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
