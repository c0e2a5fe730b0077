//! To `agentic_mooncake`, flat or versioned.
//!
//! Rows that become versioned are one play, because hash ids of different plays would be different blocks.

use std::io::{self, Write};

use dynosim_engine::Nanos;
use dynosim_engine::hash::mix;
use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::Numbers;
use super::rows::{Ms, OutDependency, OutRow, write_header};
use super::{ConvertError, ConvertOptions, Converted, Fault, for_each_line};
use crate::agentic::row::{AgenticRow, Dependency, Form, Header, Relation};
use crate::delta::output_ids;
use crate::dynamo::record::Request;
use crate::dynamo::{Loaded, load};
use crate::error::{RowError, WorkloadError};
use crate::format::TraceFormat;
use crate::graph::Trigger;
use crate::graph_trace::NamedSource;
use crate::index::{previous_gap, unnamed};
use crate::names::name_hash;
use crate::row::{Excess, Row, RowRules};

/// The play of all rows.
const PLAY: &str = "play";
/// The model of rows that tell none.
const MODEL: &str = "unknown";

/// A request and what it waits for.
#[derive(Debug, Default)]
struct Out<'a> {
    row: OutRow<'a>,
    model: Option<&'a str>,
    waits: Vec<(&'a str, Relation)>,
    /// After all that it waits for.
    delay: Nanos,
    /// The part of it in which tools ran.
    tools: Nanos,
}

impl Out<'_> {
    fn write(self, versioned: bool, out: &mut dyn Write) -> io::Result<()> {
        let Self { mut row, model, waits, delay, tools } = self;
        if versioned {
            row.play_id = Some(PLAY);
            row.model = Some(model.unwrap_or(MODEL));
            row.session_id = row.session_id.or(row.request_id);
            row.not_before_ms = Some(row.timestamp.filter(|_| waits.is_empty()).unwrap_or(Ms(Nanos::ZERO)));
            (row.timestamp, row.delay, row.prefix_reset) = (None, None, false);
            row.branches.clear();
            let dependency = |&(name, relation): &(_, Relation)| OutDependency::new(name, delay, relation.name());
            row.dependencies = waits.iter().map(dependency).collect();
        } else {
            let given = |span: Nanos| (span > Nanos::ZERO).then_some(Ms(span));
            (row.delay, row.tool_wait_ms) = (given(delay.since(tools)), given(tools));
            row.wait_for = waits.into_iter().map(|(name, _)| name).collect();
        }
        row.write(out)
    }
}

/// `dynamo` to `agentic_mooncake`.
pub(super) fn from_dynamo(
    files: Vec<NamedSource>,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let loaded = load(files, options.trace_block_size)?;
    if loaded.agents.is_empty() {
        let why = "tells no agents here, so its requests wait for nothing (allowed: convert it to mooncake)";
        return Err(WorkloadError::Unfit { format: TraceFormat::Dynamo, why }.into());
    }
    let Loaded { files, block_size, requests, lowered, ids: names, agents } = &loaded;
    if options.versioned {
        let digest = requests.iter().fold(0, |digest, kept| {
            let name = names.name(kept.id).unwrap_or_default();
            mix(mix(digest, name_hash(name)), kept.span.start.0)
        });
        write_header(*block_size, TraceFormat::Dynamo.name(), &format!("{digest:016x}"), out)?;
    }
    let name = |request: u32| names.name(requests[request as usize].id).unwrap_or_default();
    let mut branches: FxHashMap<u32, Vec<&str>> = FxHashMap::default();
    for link in lowered.links.iter().filter(|link| link.relation == Relation::Spawn) {
        branches.entry(link.on).or_default().push(name(link.of));
    }
    let start = requests.iter().map(|request| request.span.start).min().unwrap_or_default();
    let (mut numbers, mut buffer, mut ids, mut links) =
        (Numbers::default(), Vec::new(), Vec::new(), &lowered.links[..]);
    let mut begun = FxHashSet::default();
    for (number, kept) in requests.iter().enumerate() {
        let (of, file) = (number as u32, &files[kept.place.file as usize]);
        file.read_at(kept.place, u64::from(of), &mut buffer)?;
        let request = Request::parse(&buffer, &mut ids).map_err(|_| file.changed(u64::from(of)))?;
        numbers.replace(&mut ids);
        let (own, rest) = links.split_at(links.partition_point(|link| link.of <= of));
        links = rest;
        let pause = lowered.pauses[number];
        let row = OutRow {
            request_id: Some(&request.id),
            session_id: agents.get(kept.span.agent as usize).map(|(_, name)| name.as_str()),
            timestamp: Some(Ms(kept.span.start.since(start))),
            input_length: request.input_tokens,
            output_length: request.output_tokens,
            hash_ids: &ids,
            branches: branches.remove(&of).unwrap_or_default(),
            prefix_reset: begun.insert(kept.span.agent),
            ..OutRow::default()
        };
        let waits = own.iter().map(|link| (name(link.on), link.relation)).collect();
        let model = request.model.as_deref();
        let delay = pause.tools + pause.other;
        Out { row, model, waits, delay, tools: pause.tools }.write(options.versioned, out)?;
    }
    Ok(Converted { rows: requests.len() as u64, block_size: *block_size })
}

/// `mooncake` to `agentic_mooncake`: each turn of a session waits for the one before.
pub(super) fn from_mooncake(
    file: &NamedSource,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    let block_size = options.block_size();
    let rules = RowRules { trace_block_size: block_size, excess: Excess::Reject };
    let mut ids = Vec::new();
    let mut sessions: FxHashMap<String, (String, Option<Nanos>)> = FxHashMap::default();
    let mut names = FxHashSet::default();
    let mut number = 0;
    if options.versioned {
        write_header(block_size, TraceFormat::Mooncake.name(), &format!("{:016x}", name_hash(&file.name)), out)?;
    }
    let rows = for_each_line(file, |line| {
        let row = Row::parse(line.bytes, rules, &mut ids)?;
        let request = row.request_id.as_deref().map_or_else(|| unnamed(number), str::to_owned);
        number += 1;
        if !names.insert(request.clone()) {
            return Err(RowError::range("request_id", &format!("`{request}`"), "an id that no other row has").into());
        }
        let before = match row.session_id.as_deref() {
            Some(session) => sessions.insert(session.to_owned(), (request.clone(), row.timestamp)),
            None => None,
        };
        let output = output_ids(line.bytes)?;
        let plain = OutRow { output_token_ids: output.as_deref(), ..OutRow::of(&row, &ids) };
        let mut written = Out { row: OutRow { request_id: Some(&request), ..plain }, ..Out::default() };
        if let Some((name, time)) = &before {
            written.delay = previous_gap(&row, *time)?;
            written.waits.push((name, Relation::Sequence));
            if let (Some(session), None, Some(time)) = (row.session_id.as_deref(), row.timestamp, time) {
                // The next gap counts from the last time that the session told.
                sessions.insert(session.to_owned(), (request.clone(), Some(*time)));
            }
        } else if row.timestamp.is_none() {
            return Err(RowError::Missing { field: "timestamp", allowed: "a number of ms, 0 or more" }.into());
        } else if let Some(delay) = row.delay.filter(|&delay| delay > Nanos::ZERO) {
            return Err(RowError::range("delay", &delay.as_ms(), "0 on the first turn of a session").into());
        }
        Ok(written.write(options.versioned, out)?)
    })?;
    Ok(Converted { rows, block_size })
}

/// `agentic_mooncake` from one form to the other.
pub(super) fn between_forms(
    file: &NamedSource,
    options: &ConvertOptions,
    out: &mut dyn Write,
) -> Result<Converted, ConvertError> {
    // Names, and that no rows wait for each other, are checked before anything is written.
    let checked = NamedSource { name: file.name.clone(), source: file.source.clone() };
    let open = crate::open::OpenOptions { trace_block_size: options.trace_block_size, ..Default::default() };
    let sizes = crate::agentic::open(checked, &open)?.sizes;
    let (mut form, mut first, mut ids, mut rows) = (Form::Flat, true, Vec::new(), 0);
    let mut numbers = Numbers::default();
    for_each_line(file, |line| {
        if std::mem::take(&mut first) {
            let header = Header::parse(line.bytes)?;
            if header.is_some() {
                form = Form::Versioned;
            }
            if options.versioned {
                let digest = format!("{:016x}", name_hash(&file.name));
                write_header(sizes.trace, TraceFormat::AgenticMooncake.name(), &digest, out)?;
            }
            if header.is_some() {
                return Ok(());
            }
        }
        let row = AgenticRow::parse(line.bytes, form, sizes.trace, &mut ids)?;
        if let Some(play) = row.play_id.as_deref().filter(|_| !options.versioned) {
            let play = name_hash(play);
            ids = ids.iter().map(|id| numbers.of(mix(play, *id))).collect();
        }
        rows += 1;
        let output = output_ids(line.bytes)?;
        let plain = OutRow { output_token_ids: output.as_deref(), ..OutRow::of(&row.row, &ids) };
        rewrite(&row, plain, options.versioned, out)
    })?;
    Ok(Converted { rows, block_size: sizes.trace })
}

/// Writes a row of either form in one of them.
fn rewrite<'r>(row: &'r AgenticRow<'_>, plain: OutRow<'r>, versioned: bool, out: &mut dyn Write) -> Result<(), Fault> {
    let other_play = row.play_id.as_deref().filter(|play| !versioned && *play != PLAY);
    let session = row.row.session_id.as_deref().unwrap_or_default();
    let scoped = other_play.map(|play| format!("{play}:{session}"));
    let mut plain =
        OutRow { branches: row.branches.iter().map(String::as_str).collect(), prefix_reset: row.prefix_reset, ..plain };
    plain.session_id = scoped.as_deref().or(plain.session_id);
    if row.play_id.is_some() {
        // These fields belong to the flat form.
        plain.timestamp = row.dependencies.is_empty().then_some(Ms(row.not_before)).filter(|_| !versioned);
        plain.delay = None;
    }
    if versioned && row.play_id.is_some() {
        let written = OutRow {
            play_id: row.play_id.as_deref(),
            model: row.model.as_deref(),
            not_before_ms: Some(Ms(row.not_before)),
            dependencies: row.dependencies.iter().map(OutDependency::from).collect(),
            ..plain
        };
        return Ok(written.write(out)?);
    }
    let delay = if versioned { shared_delay(&row.dependencies) } else { flat_delay(row)? };
    let waits = row.dependencies.iter().map(|wait| (wait.request_id.as_str(), wait.relation)).collect();
    let model = row.model.as_deref();
    Ok(Out { row: plain, model, waits, delay, tools: row.tool_wait.min(delay) }.write(versioned, out)?)
}

fn shared_delay(dependencies: &[Dependency]) -> Nanos {
    dependencies.first().map_or(Nanos::ZERO, |dependency| dependency.delay)
}

/// The delay of a row of either form in the flat one, which has only one and counts it from completions.
fn flat_delay(row: &AgenticRow<'_>) -> Result<Nanos, RowError> {
    let delay = shared_delay(&row.dependencies);
    for dependency in &row.dependencies {
        if dependency.trigger != Trigger::Completion {
            let allowed = "completion, the only trigger of the flat form";
            return Err(RowError::range("dependencies.trigger", &"dispatch", allowed));
        }
        if dependency.delay != delay {
            let allowed = format!("{} as in the row's other dependencies, the flat form has one", delay.as_ms());
            return Err(RowError::range("dependencies.delay_ms", &dependency.delay.as_ms(), allowed));
        }
    }
    if !row.dependencies.is_empty() && row.not_before > Nanos::ZERO {
        let allowed = "0 on a row with dependencies, the flat form has no earliest time";
        return Err(RowError::range("not_before_ms", &row.not_before.as_ms(), allowed));
    }
    Ok(delay)
}
