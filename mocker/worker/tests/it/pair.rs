//! A prefill engine (the source) and a decode engine (the destination) in virtual time, with the handoffs between them in
//! the order of `docs/contract-handoff.md`. Messages take no time, transfers take theirs.
//!
//! ```text
//!   vLLM     arrival ─► source computes ─► held ─► destination reserves ─┐
//!                                                                        ├─► transfer ─► activate, release
//!   SGLang   arrival ─► destination reserves ─► source computes ─► held ─┘
//! ```
//!
//! At one instant steps end, then requests and transfers arrive, then idle engines start: as in a live worker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_engine::{
    Engine, EngineConfig, Horizon, KvTransfer, Nanos, Request, SchedulerConfig, Step, Ticket, TransferMode,
};

/// A request and when it comes.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) at: Nanos,
    pub(crate) request: Request,
}

/// What became of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// The source has computed its prompt.
    pub(crate) held: Nanos,
    /// The destination has taken blocks for it.
    pub(crate) reserved: Nanos,
    /// Its KV has arrived.
    pub(crate) activated: Nanos,
    /// When each output token was made.
    pub(crate) tokens: Vec<Nanos>,
}

/// Who takes a request first; follows from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    SourceFirst,
    DestinationFirst,
}

/// An engine and who is in its slots.
#[derive(Debug)]
struct Side {
    engine: Engine,
    /// Per rank and slot.
    slots: Vec<Vec<usize>>,
    tickets: Vec<Option<Ticket>>,
    changed: bool,
}

impl Side {
    fn new(config: EngineConfig, visits: usize) -> Self {
        let slots = vec![Vec::new(); config.dp_size as usize];
        Self { engine: Engine::new(config), slots, tickets: vec![None; visits], changed: false }
    }

    fn submit(&mut self, now: Nanos, number: usize, request: &Request) {
        let ticket = self.engine.submit(now, None, request.clone());
        let slots = &mut self.slots[ticket.rank as usize];
        slots.resize(slots.len().max(ticket.request.index() + 1), usize::MAX);
        slots[ticket.request.index()] = number;
        self.tickets[number] = Some(ticket);
        self.changed = true;
    }

    fn ticket(&self, number: usize) -> Ticket {
        self.tickets[number].expect("it was submitted")
    }

    /// The step that ends now.
    fn end_step(&mut self, now: Nanos) -> Option<Step> {
        if self.engine.busy_until() != Some(now) {
            return None;
        }
        self.changed = true;
        Some(self.engine.finish().clone())
    }

    fn start_if_idle(&mut self, now: Nanos) {
        if std::mem::take(&mut self.changed) && self.engine.busy_until().is_none() {
            self.engine.start(now, Horizon::Pass);
        }
    }

    fn is_empty(&self) -> bool {
        self.engine.unfinished() == 0 && self.engine.active_blocks() == 0
    }
}

/// Both engines.
#[derive(Debug)]
pub(crate) struct Pair<'v> {
    visits: &'v [Visit],
    courses: Vec<Course>,
    source: Side,
    destination: Side,
    order: Order,
    transfer: KvTransfer,
    block_size: u32,
    now: Nanos,
    /// When the KV of which request arrives, soonest first.
    transfers: BinaryHeap<Reverse<(Nanos, usize)>>,
}

impl<'v> Pair<'v> {
    /// Two idle engines. `visits` are in the order of their times, and both engines accept them.
    pub(crate) fn new(
        source: EngineConfig,
        destination: EngineConfig,
        transfer: KvTransfer,
        visits: &'v [Visit],
    ) -> Self {
        let (order, block_size) = match &destination.scheduler {
            SchedulerConfig::Vllm(config) => (Order::SourceFirst, config.block_size),
            SchedulerConfig::Sglang(config) => (Order::DestinationFirst, config.page_size),
        };
        Self {
            visits,
            courses: vec![Course::default(); visits.len()],
            source: Side::new(source, visits.len()),
            destination: Side::new(destination, visits.len()),
            order,
            transfer,
            block_size,
            now: Nanos::ZERO,
            transfers: BinaryHeap::new(),
        }
    }

    /// Runs until nothing is left to do.
    pub(crate) fn run(&mut self) {
        let visits = self.visits;
        let mut arrivals = visits.iter().enumerate().peekable();
        loop {
            let arrival = arrivals.peek().map(|(_, visit)| visit.at);
            let transfer = self.transfers.peek().map(|Reverse((at, _))| *at);
            let steps = [self.source.engine.busy_until(), self.destination.engine.busy_until()];
            let Some(now) = steps.into_iter().chain([arrival, transfer]).flatten().min() else { return };
            self.now = now;
            self.end_steps();
            while let Some((number, visit)) = arrivals.next_if(|(_, visit)| visit.at <= now) {
                match self.order {
                    Order::SourceFirst => self.source.submit(now, number, &visit.request),
                    Order::DestinationFirst => self.destination.submit(now, number, &visit.request),
                }
            }
            while let Some(&Reverse((at, number))) = self.transfers.peek()
                && at <= now
            {
                self.transfers.pop();
                self.kv_arrives(number);
            }
            self.source.start_if_idle(now);
            self.destination.start_if_idle(now);
        }
    }

    /// What became of the requests, in their order.
    pub(crate) fn courses(&self) -> &[Course] {
        &self.courses
    }

    /// No request and no used block is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.transfers.is_empty() && self.source.is_empty() && self.destination.is_empty()
    }

    fn end_steps(&mut self) {
        if let Some(step) = self.source.end_step(self.now) {
            for (rank, pass) in step.ranks.iter().enumerate() {
                for id in &pass.finished {
                    self.prompt_is_held(self.source.slots[rank][id.index()]);
                }
            }
        }
        if let Some(step) = self.destination.end_step(self.now) {
            for (rank, pass) in step.ranks.iter().enumerate() {
                for id in &pass.reserved {
                    // The step that reserves may also compute for others: the blocks are there when it ends.
                    self.blocks_are_reserved(self.destination.slots[rank][id.index()]);
                }
                for emission in &pass.emitted {
                    let course = &mut self.courses[self.destination.slots[rank][emission.request.index()]];
                    course.tokens.extend(std::iter::repeat_n(self.now, emission.tokens as usize));
                }
            }
        }
    }

    fn prompt_is_held(&mut self, number: usize) {
        self.courses[number].held = self.now;
        match self.order {
            Order::SourceFirst => self.destination.submit(self.now, number, &self.visits[number].request),
            Order::DestinationFirst => self.begin_transfer(number),
        }
    }

    fn blocks_are_reserved(&mut self, number: usize) {
        self.courses[number].reserved = self.now;
        match self.order {
            Order::SourceFirst => self.begin_transfer(number),
            Order::DestinationFirst => self.source.submit(self.now, number, &self.visits[number].request),
        }
    }

    fn begin_transfer(&mut self, number: usize) {
        let prompt = self.visits[number].request.prompt_tokens;
        let delay = match self.transfer.mode {
            TransferMode::FullPrompt => self.transfer.delay(prompt, 0),
            TransferMode::DestinationMissing => {
                let found = self.destination.engine.reserved_tokens(self.destination.ticket(number));
                self.transfer.delay(prompt.next_multiple_of(self.block_size), found)
            }
        };
        self.transfers.push(Reverse((self.now + delay, number)));
    }

    fn kv_arrives(&mut self, number: usize) {
        self.courses[number].activated = self.now;
        self.destination.engine.activate(self.now, self.destination.ticket(number));
        self.source.engine.release(self.now, self.source.ticket(number));
        self.destination.changed = true;
        self.source.changed = true;
    }
}
