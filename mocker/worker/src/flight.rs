//! Requests inside the engine, by the slot that its scheduler gave them.

use std::sync::Arc;

use dynosim_engine::{Nanos, RequestId, Ticket};
use dynosim_wire::hash::BlockHash;
use rustc_hash::FxHashMap;

use crate::blocks;
use crate::progress::Reporter;
use crate::tokens::OutputTokens;

/// Steps after which nothing speaks of a request any more that has left: with async scheduling, the step in progress and
/// the one decided ahead.
const STEPS_OF_A_GHOST: u8 = 2;

/// Number of a request, never used again by its worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial(pub u64);

/// What a request's blocks hold.
#[derive(Clone, Debug, Default)]
pub struct Content {
    /// Hashes of all full blocks of prompt and planned output; empty without prefix caching.
    pub blocks: Box<[BlockHash]>,
    /// Prompt and output, if somebody wants tokens in KV events.
    pub tokens: Option<(Arc<[u32]>, OutputTokens)>,
}

impl Content {
    /// The blocks from `position` on that have these sequence hashes; none if they are another request's.
    pub(crate) fn find(&self, position: u32, sequence: &[u64]) -> Option<&[BlockHash]> {
        let start = position as usize;
        let blocks = self.blocks.get(start..start + sequence.len())?;
        blocks.iter().map(|block| block.sequence).eq(sequence.iter().copied()).then_some(blocks)
    }

    /// The tokens of `count` blocks from `position` on, if they were kept.
    pub(crate) fn tokens(&self, position: u32, count: u32, block_size: u32) -> Option<Vec<u32>> {
        let (prompt, output) = self.tokens.as_ref()?;
        Some(blocks::tokens_of(prompt, output, block_size, position..position + count))
    }
}

/// A request inside the engine.
#[derive(Debug)]
pub struct Flight {
    /// Its number.
    pub serial: Serial,
    /// When it arrived.
    pub arrival: Nanos,
    /// Prompt length.
    pub prompt_tokens: u32,
    /// Output tokens that it will have.
    pub planned: u32,
    /// Output tokens so far.
    pub tokens: u32,
    /// Prompt tokens found in the prefix cache when it was first admitted.
    pub cached_tokens: Option<u32>,
    /// When its newest token was made.
    pub last_token: Nanos,
    /// What its blocks hold.
    pub content: Content,
    pub(crate) reporter: Reporter,
    /// It has tokens that its task was not told of.
    pub(crate) untold: bool,
}

#[derive(Debug)]
struct Ghost {
    ticket: Ticket,
    content: Content,
    steps: u8,
}

/// All requests inside the engine.
#[derive(Debug)]
pub struct Flights {
    /// Per rank and slot.
    slots: Vec<Vec<Option<Flight>>>,
    tickets: FxHashMap<Serial, Ticket>,
    /// Requests that left in the middle of a step that still speaks of their blocks.
    ghosts: Vec<Ghost>,
}

impl Flights {
    pub(crate) fn new(ranks: u32) -> Self {
        Self { slots: (0..ranks).map(|_| Vec::new()).collect(), tickets: FxHashMap::default(), ghosts: Vec::new() }
    }

    pub(crate) fn insert(&mut self, ticket: Ticket, flight: Flight) {
        self.tickets.insert(flight.serial, ticket);
        let slots = &mut self.slots[ticket.rank as usize];
        if slots.len() <= ticket.request.index() {
            slots.resize_with(ticket.request.index() + 1, || None);
        }
        slots[ticket.request.index()] = Some(flight);
    }

    pub(crate) fn ticket(&self, serial: Serial) -> Option<Ticket> {
        self.tickets.get(&serial).copied()
    }

    pub(crate) fn get(&self, rank: u32, request: RequestId) -> Option<&Flight> {
        self.slots[rank as usize].get(request.index())?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, rank: u32, request: RequestId) -> Option<&mut Flight> {
        self.slots[rank as usize].get_mut(request.index())?.as_mut()
    }

    /// A request has ended; the engine may hold its KV on, so its ticket stays if told so.
    pub(crate) fn end(&mut self, ticket: Ticket, keeps_ticket: bool) -> Option<Flight> {
        let flight = self.slots[ticket.rank as usize].get_mut(ticket.request.index())?.take()?;
        if !keeps_ticket {
            self.tickets.remove(&flight.serial);
        }
        Some(flight)
    }

    pub(crate) fn forget(&mut self, serial: Serial) -> Option<Ticket> {
        self.tickets.remove(&serial)
    }

    pub(crate) fn haunt(&mut self, ticket: Ticket, content: Content) {
        if !content.blocks.is_empty() {
            self.ghosts.push(Ghost { ticket, content, steps: STEPS_OF_A_GHOST });
        }
    }

    /// A step is over.
    pub(crate) fn age_ghosts(&mut self) {
        self.ghosts.retain_mut(|ghost| {
            ghost.steps -= 1;
            ghost.steps > 0
        });
    }

    /// Whose blocks these are: the request in the slot, or one that has just left it.
    pub(crate) fn content(&self, ticket: Ticket, position: u32, sequence: &[u64]) -> Option<&Content> {
        let own = self.get(ticket.rank, ticket.request).map(|flight| &flight.content);
        let ghosts = self.ghosts.iter().rev().filter(|ghost| ghost.ticket == ticket).map(|ghost| &ghost.content);
        own.into_iter().chain(ghosts).find(|content| content.find(position, sequence).is_some())
    }

    /// Requests whose ticket is known: those that run or wait, and those whose KV is held.
    pub(crate) fn len(&self) -> usize {
        self.tickets.len()
    }
}
