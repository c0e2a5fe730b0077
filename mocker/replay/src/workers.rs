//! The workers of a run: engines, who is in their slots, and who has something to do.

use dynosim_engine::{Engine, EngineConfig, Horizon, Nanos, Request, Ticket};

use crate::events::{Event, Events};
use crate::live::{LiveId, Seat};

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    /// Per rank and slot of its scheduler: the request in it.
    pub(crate) slots: Vec<Vec<LiveId>>,
    /// Its pool.
    pub(crate) pool: usize,
    /// Changes whenever the planned end of its step does.
    version: u32,
    ready: bool,
    /// It may have work that has not been looked at.
    dirty: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: Vec<Worker>,
    /// Those that are dirty.
    to_start: Vec<u32>,
}

impl Workers {
    /// Adds a worker that takes up work at once, or not before [`Workers::ready`].
    pub(crate) fn add(&mut self, engine: EngineConfig, pool: usize, ready: bool) {
        self.all.push(Worker {
            slots: vec![Vec::new(); engine.dp_size as usize],
            engine: Engine::new(engine),
            pool,
            version: 0,
            ready,
            dirty: false,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, index: u32) -> &Worker {
        &self.all[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Worker {
        &mut self.all[index as usize]
    }

    /// Whether a step that was announced still ends as announced.
    pub(crate) fn is_current(&self, index: u32, version: u32) -> bool {
        self.all[index as usize].version == version
    }

    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        index: u32,
        rank: Option<u32>,
        (id, request): (LiveId, Request),
        events: &mut Events,
    ) -> Seat {
        let ticket = self.change(index, events, |engine| engine.submit(now, rank, request));
        let slots = &mut self.all[index as usize].slots[ticket.rank as usize];
        if slots.len() <= ticket.request.index() {
            slots.resize(ticket.request.index() + 1, LiveId(u32::MAX));
        }
        slots[ticket.request.index()] = id;
        Seat { worker: index, ticket }
    }

    /// Decode role: the KV of a request has arrived.
    pub(crate) fn activate(&mut self, now: Nanos, seat: Seat, events: &mut Events) {
        self.change(seat.worker, events, |engine| engine.activate(now, seat.ticket));
    }

    /// Prefill role: the KV of a request was taken over.
    pub(crate) fn release(&mut self, now: Nanos, seat: Seat, events: &mut Events) {
        self.change(seat.worker, events, |engine| engine.release(now, seat.ticket));
    }

    /// Ends a request wherever it is.
    pub(crate) fn abort(&mut self, now: Nanos, seat: Seat, events: &mut Events) {
        self.change(seat.worker, events, |engine| engine.abort(now, seat.ticket));
    }

    /// Does something to an engine that may cut its run, or give it work.
    fn change<T>(&mut self, index: u32, events: &mut Events, does: impl FnOnce(&mut Engine) -> T) -> T {
        let engine = &mut self.all[index as usize].engine;
        let before = engine.busy_until();
        let result = does(engine);
        match engine.busy_until() {
            None => self.mark_dirty(index),
            Some(end) if before != Some(end) => self.announce_end(index, end, events),
            Some(_) => {}
        }
        result
    }

    /// A worker has started up.
    pub(crate) fn ready(&mut self, index: u32) {
        self.all[index as usize].ready = true;
        self.mark_dirty(index);
    }

    /// A worker's step is over, before the time that was announced or just then.
    pub(crate) fn ended(&mut self, index: u32) {
        let worker = &mut self.all[index as usize];
        worker.version = worker.version.wrapping_add(1);
        self.mark_dirty(index);
    }

    /// Idle workers with something to do begin their next step.
    pub(crate) fn start(&mut self, now: Nanos, horizon: Horizon, events: &mut Events) {
        let mut to_start = std::mem::take(&mut self.to_start);
        for &index in &to_start {
            let worker = &mut self.all[index as usize];
            worker.dirty = false;
            if worker.engine.busy_until().is_none()
                && let Some(end) = worker.engine.start(now, horizon)
            {
                self.announce_end(index, end, events);
            }
        }
        to_start.clear();
        self.to_start = to_start;
    }

    fn announce_end(&mut self, index: u32, end: Nanos, events: &mut Events) {
        let worker = &mut self.all[index as usize];
        worker.version = worker.version.wrapping_add(1);
        events.push(end, Event::StepEnds { worker: index, version: worker.version });
    }

    fn mark_dirty(&mut self, index: u32) {
        let worker = &mut self.all[index as usize];
        if !worker.dirty && worker.ready {
            worker.dirty = true;
            self.to_start.push(index);
        }
    }
}

impl Worker {
    /// Prompt tokens of a request whose KV was here when its blocks were reserved.
    pub(crate) fn reserved_tokens(&self, ticket: Ticket) -> u32 {
        self.engine.reserved_tokens(ticket)
    }
}
