//! `agentic_mooncake`: Mooncake rows that wait for other rows, in the flat and the versioned form.

pub(crate) mod row;

use dynosim_engine::Nanos;

use crate::decode::{line_error, row_error};
use crate::error::{OptionError, RowError, WorkloadError};
use crate::graph::{Cycle, GraphBuilder, Trigger, Wait};
use crate::graph_trace::{GraphTrace, NamedSource, Place, Rows, Sessions};
use crate::index::unnamed;
use crate::lines::{Line, Lines};
use crate::names::Names;
use crate::open::OpenOptions;
use crate::progress::Progress;
use crate::rechunk::BlockSizes;
use crate::row::DEFAULT_TRACE_BLOCK_SIZE;
use crate::scan::MAX_ROWS;
use row::{AgenticRow, Form, Header};

const NONE: u32 = u32::MAX;

/// Opens a trace and checks every row, every name that is waited for, and that no rows wait for each other.
pub(crate) fn open(file: NamedSource, options: &OpenOptions) -> Result<GraphTrace, WorkloadError> {
    let NamedSource { name, source } = &file;
    let mut lines = Lines::new(source.stream());
    let mut scan = Scan { file: name.clone(), ..Scan::default() };
    let mut form = Form::Flat;
    let mut block_size = options.trace_block_size;
    let mut first = true;
    while let Some(line) = lines.next().map_err(|error| line_error(name, error))? {
        if std::mem::take(&mut first) {
            let header = Header::parse(line.bytes).map_err(|error| row_error(name, line.number, error))?;
            if let Some(header) = header {
                form = Form::Versioned;
                block_size = Some(agreed(block_size, header.block_size)?);
                continue;
            }
        }
        let trace_block_size = block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE);
        scan.row(&line, form, trace_block_size)?;
    }
    if scan.rows.is_empty() {
        return Err(WorkloadError::Empty { file: name.clone() });
    }
    let sizes = BlockSizes { trace: block_size.unwrap_or(DEFAULT_TRACE_BLOCK_SIZE), engine: options.engine_block_size };
    scan.finish(file, form, sizes, options)
}

/// The block size of a trace that tells it itself.
pub(crate) fn agreed(given: Option<u32>, told: u32) -> Result<u32, OptionError> {
    match given {
        Some(given) if given != told => Err(OptionError {
            name: "trace_block_size",
            value: given.to_string(),
            allowed: "what the trace says itself; leave it out",
        }),
        _ => Ok(told),
    }
}

/// A row, as long as the trace is being read.
#[derive(Clone, Copy, Debug)]
struct SeenRow {
    line: u64,
    request: u32,
}

/// A wait whose other end may come later in the file.
#[derive(Clone, Copy, Debug)]
struct Open {
    row: u32,
    request: u32,
    trigger: Trigger,
    delay: Nanos,
}

#[derive(Debug, Default)]
struct Scan {
    file: String,
    graph: GraphBuilder,
    rows: Vec<SeenRow>,
    places: Vec<Place>,
    turns: Vec<(u32, u32)>,
    sessions: Sessions,
    requests: Names,
    /// The row of each name; [`NONE`] if it has only been waited for so far.
    defined: Vec<u32>,
    open: Vec<Open>,
    plays: Names,
    /// The first row of each play, or of each session if plays have no names.
    first_rows: Vec<u32>,
    hash_ids: Vec<u64>,
}

impl Scan {
    fn row(&mut self, line: &Line<'_>, form: Form, trace_block_size: u32) -> Result<(), WorkloadError> {
        if self.rows.len() as u64 == MAX_ROWS {
            return Err(WorkloadError::TooManyRows { file: self.file.clone(), limit: MAX_ROWS });
        }
        let mut hash_ids = std::mem::take(&mut self.hash_ids);
        let judged = AgenticRow::parse(line.bytes, form, trace_block_size, &mut hash_ids)
            .and_then(|row| self.add(&row, form, line));
        self.hash_ids = hash_ids;
        judged.map_err(|error| row_error(&self.file, line.number, error))
    }

    fn add(&mut self, row: &AgenticRow<'_>, form: Form, line: &Line<'_>) -> Result<(), RowError> {
        let number = self.graph.node(row.not_before);
        let request = self.request(row.request_id());
        let other = std::mem::replace(&mut self.defined[request as usize], number);
        if other != NONE {
            let (name, line) = (row.request_id(), self.rows[other as usize].line);
            return Err(RowError::range("request_id", &format!("`{name}`"), format!("unlike that of line {line}")));
        }
        self.rows.push(SeenRow { line: line.number, request });
        self.places.push(Place { file: 0, offset: line.offset, length: line.bytes.len() as u32 });
        for dependency in &row.dependencies {
            let on = self.request(&dependency.request_id);
            if on == request {
                let value = format!("`{}`", dependency.request_id);
                return Err(RowError::range(field(form), &value, "other requests than the row's own"));
            }
            let (trigger, delay) = (dependency.trigger, dependency.delay);
            self.open.push(Open { row: number, request: on, trigger, delay });
        }
        let unnamed = || unnamed(u64::from(number)).into();
        let name = row.row.session_id.clone().unwrap_or_else(unnamed);
        let (session, turn) = self.sessions.add(row.play_id.as_deref().unwrap_or_default(), &name);
        let group = match &row.play_id {
            Some(play) => self.plays.number(play),
            None => session,
        };
        match self.first_rows.get(group as usize) {
            Some(&other) => self.graph.group(other, number),
            None => self.first_rows.push(number),
        }
        self.turns.push((session, turn));
        Ok(())
    }

    fn request(&mut self, name: &str) -> u32 {
        let number = self.requests.number(name);
        if number as usize == self.defined.len() {
            self.defined.push(NONE);
        }
        number
    }

    fn finish(
        mut self,
        file: NamedSource,
        form: Form,
        sizes: BlockSizes,
        options: &OpenOptions,
    ) -> Result<GraphTrace, WorkloadError> {
        let scale = options.scale();
        for open in &self.open {
            let on = self.defined[open.request as usize];
            if on == NONE {
                let name = self.requests.name(open.request).unwrap_or_default();
                let error = RowError::range(field(form), &format!("`{name}`"), "the request_id of a row");
                return Err(row_error(&self.file, self.rows[open.row as usize].line, error));
            }
            self.graph.wait(Wait { of: open.row, on, trigger: open.trigger, delay: scale.apply(open.delay) });
        }
        let graph = std::mem::take(&mut self.graph);
        let graph = graph.finish(scale).map_err(|cycle| self.cycle(&cycle, form))?;
        Ok(GraphTrace {
            files: vec![file],
            rows: Rows::Agentic(form),
            sizes,
            places: self.places,
            turns: self.turns,
            sessions: self.sessions,
            progress: Progress::new(graph, options.lanes),
            classes: Names::default(),
            buffer: Vec::new(),
            hash_ids: self.hash_ids,
        })
    }

    /// Says which rows wait for each other.
    fn cycle(&self, Cycle(nodes): &Cycle, form: Form) -> WorkloadError {
        const SHOWN: usize = 6;
        let name = |node: &u32| self.requests.name(self.rows[*node as usize].request).unwrap_or_default();
        let next = nodes.get(1).or(nodes.first()).map(name).unwrap_or_default();
        let mut chain: Vec<String> = nodes.iter().take(SHOWN).map(|node| format!("`{}`", name(node))).collect();
        if nodes.len() > SHOWN {
            chain.push(format!("{} more", nodes.len() - SHOWN));
        }
        chain.extend(nodes.first().map(|node| format!("`{}`", name(node))));
        let allowed = format!("no cycle; found {}, each waiting for the next", chain.join(", "));
        let line = nodes.first().map_or(0, |&node| self.rows[node as usize].line);
        row_error(&self.file, line, RowError::range(field(form), &format!("`{next}`"), allowed))
    }
}

/// Where a row says what it waits for.
fn field(form: Form) -> &'static str {
    match form {
        Form::Flat => "wait_for",
        Form::Versioned => "dependencies.request_id",
    }
}
