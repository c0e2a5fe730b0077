//! `dynamo`: request traces that Dynamo's frontend writes, in one file or several, compressed or not.

pub(crate) mod lower;
pub(crate) mod record;

use dynosim_engine::Nanos;
use rustc_hash::FxHashMap;

use self::lower::{Chain, Lowered, Span, lower};
use self::record::{Agent, Record, Request};
use crate::agentic::agreed;
use crate::decode::{line_error, row_error};
use crate::error::{RowError, WorkloadError};
use crate::graph::{GraphBuilder, Trigger, Wait};
use crate::graph_trace::{GraphTrace, NamedSource, Place, Rows, Sessions};
use crate::index::unnamed;
use crate::lines::{Line, Lines};
use crate::names::Names;
use crate::open::OpenOptions;
use crate::progress::Progress;
use crate::rechunk::BlockSizes;
use crate::scan::MAX_ROWS;

/// A request, as far as it is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub(crate) span: Span,
    /// Number of its id.
    pub(crate) id: u32,
    pub(crate) place: Place,
}

/// All requests of a trace and who waits for whom.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) files: Vec<NamedSource>,
    pub(crate) block_size: u32,
    /// In the order in which they came.
    pub(crate) requests: Vec<Kept>,
    pub(crate) lowered: Lowered,
    pub(crate) ids: Names,
    /// Runs and names of agents; empty if requests do not tell who sent them.
    pub(crate) agents: Vec<(String, String)>,
}

/// Opens traces and checks every record.
pub(crate) fn open(files: Vec<NamedSource>, options: &OpenOptions) -> Result<GraphTrace, WorkloadError> {
    let loaded = load(files, options.trace_block_size)?;
    let Loaded { files, block_size, requests, lowered, agents, .. } = loaded;
    let scale = options.scale();
    let mut graph = GraphBuilder::default();
    let mut waits = vec![false; requests.len()];
    lowered.links.iter().for_each(|link| waits[link.of as usize] = true);
    for (request, waits) in requests.iter().zip(waits) {
        graph.node(if waits { Nanos::ZERO } else { request.span.start });
    }
    for link in &lowered.links {
        let pause = lowered.pauses[link.of as usize];
        let delay = scale.apply(pause.tools + pause.other);
        graph.wait(Wait { of: link.of, on: link.on, trigger: Trigger::Completion, delay });
    }
    let mut sessions = Sessions::default();
    let mut name = |number: usize, request: &Kept| match agents.get(request.span.agent as usize) {
        Some((run, name)) => sessions.add(run, name),
        None => sessions.add("", &unnamed(number as u64)),
    };
    let turns = requests.iter().enumerate().map(|(number, request)| name(number, request)).collect();
    let graph = graph.finish(scale).expect("all waits go from later requests to earlier ones");
    Ok(GraphTrace {
        files,
        rows: Rows::Dynamo,
        sizes: BlockSizes { trace: block_size, engine: options.engine_block_size },
        places: requests.iter().map(|request| request.place).collect(),
        turns,
        sessions,
        progress: Progress::new(graph, options.lanes),
        classes: Names::default(),
        buffer: Vec::new(),
        hash_ids: Vec::new(),
    })
}

/// Reads traces, finds the order of their requests and who waits for whom.
pub(crate) fn load(files: Vec<NamedSource>, block_size: Option<u32>) -> Result<Loaded, WorkloadError> {
    let mut scan = Scan::default();
    for (number, file) in files.iter().enumerate() {
        let mut lines = Lines::new(file.source.stream());
        while let Some(line) = lines.next().map_err(|error| line_error(&file.name, error))? {
            let read = scan.line(number as u32, &line);
            read.map_err(|error| row_error(&file.name, line.number, error))?;
        }
    }
    let names = || files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>().join(", ");
    let Some(told) = scan.block_size else { return Err(WorkloadError::Empty { file: names() }) };
    if scan.requests.len() as u64 > MAX_ROWS {
        return Err(WorkloadError::TooManyRows { file: names(), limit: MAX_ROWS });
    }
    let block_size = agreed(block_size, told)?;
    let Scan { mut requests, ids, mut chains, mut agents, told_agents, .. } = scan;
    if told_agents != Some(true) {
        // Tools alone tell nothing about requests.
        agents.clear();
    }
    requests.sort_by(|a, b| {
        let key = |request: &Kept| (request.span.start, request.span.end);
        key(a).cmp(&key(b)).then_with(|| ids.name(a.id).cmp(&ids.name(b.id)))
    });
    for (number, request) in requests.iter().enumerate() {
        if let Some(chain) = chains.get_mut(request.span.agent as usize) {
            chain.requests.push(number as u32);
        }
    }
    let spans: Vec<Span> = requests.iter().map(|request| request.span).collect();
    let lowered = if agents.is_empty() {
        Lowered { pauses: vec![lower::Pause::default(); spans.len()], ..Lowered::default() }
    } else {
        lower(&spans, &mut chains)
    };
    Ok(Loaded { files, block_size, requests, lowered, ids, agents })
}

#[derive(Debug, Default)]
struct Scan {
    requests: Vec<Kept>,
    ids: Names,
    block_size: Option<u32>,
    /// Whether requests tell who sent them.
    told_agents: Option<bool>,
    numbers: FxHashMap<(String, String), u32>,
    agents: Vec<(String, String)>,
    chains: Vec<Chain>,
    hashes: Vec<u64>,
}

impl Scan {
    fn line(&mut self, file: u32, line: &Line<'_>) -> Result<(), RowError> {
        match Record::parse(line.bytes, &mut self.hashes)? {
            Record::Other => Ok(()),
            Record::Tool(tool) => {
                let chain = self.agent(&tool.agent.run, &tool.agent.name) as usize;
                self.chains[chain].tools.push((tool.start, tool.end));
                Ok(())
            }
            Record::Request(request) => {
                let place = Place { file, offset: line.offset, length: line.bytes.len() as u32 };
                self.request(&request, place)
            }
        }
    }

    fn request(&mut self, request: &Request, place: Place) -> Result<(), RowError> {
        let Request { id, start, end, block_size, agent, .. } = request;
        let told = *self.block_size.get_or_insert(*block_size);
        if told != *block_size {
            let field = "request.replay.trace_block_size";
            return Err(RowError::range(field, block_size, format!("{told}, as in the requests before")));
        }
        let number = self.ids.number(id);
        if (number as usize) < self.requests.len() {
            let allowed = "an id that no other request has";
            return Err(RowError::range("request.request_id", &format!("`{id}`"), allowed));
        }
        if *self.told_agents.get_or_insert(agent.is_some()) != agent.is_some() {
            let found = if agent.is_some() { "an object" } else { "absent" };
            return Err(RowError::range("agent_context", &found, "there on all requests or on none"));
        }
        let agent = match agent {
            None => u32::MAX,
            Some(Agent { run, name, parent }) => {
                let number = self.agent(run, name);
                let parent = parent.as_ref().map(|parent| self.agent(run, parent));
                let chain = &mut self.chains[number as usize];
                chain.parent = chain.parent.or(parent.filter(|&parent| parent != number));
                number
            }
        };
        let span = Span { start: *start, end: *end, agent };
        self.requests.push(Kept { span, id: number, place });
        Ok(())
    }

    fn agent(&mut self, run: &str, name: &str) -> u32 {
        let key = (run.to_owned(), name.to_owned());
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let number = self.chains.len() as u32;
        self.chains.push(Chain::default());
        self.agents.push(key.clone());
        self.numbers.insert(key, number);
        number
    }
}
