//! A request goes from a prefill to a decode worker.
//!
//! ```text
//!   vLLM     arrival ─► source computes ─► held ─► destination reserves ─┐
//!                                                                        ├─► transfer ─► activate, release
//!   SGLang   arrival ─► destination reserves ─► source computes ─► held ─┘
//! ```
//!
//! Messages take no time, transfers take theirs; the order is that of live workers (`docs/contract-handoff.md`). What the
//! prefill worker's pass makes beside the KV, a first token, is not seen by the client.

use dynosim_engine::{Nanos, TransferMode};

use crate::digest::Happened;
use crate::events::Event;
use crate::live::LiveId;
use crate::pools::{Order, Pools};
use crate::replay::Replay;

impl Replay<'_> {
    /// The prompt of a request is computed; its KV stays where it is until it was taken over.
    pub(crate) fn prompt_is_held(&mut self, id: LiveId) {
        let live = self.lives.get_mut(id);
        live.course.held = Some(self.now);
        self.collector.digest.add(self.now, Happened::Held, live.turn.row);
        self.leave_prefill(id);
        match self.order() {
            Order::SourceFirst => self.route(Pools::DECODE, id),
            Order::DestinationFirst => self.begin_transfer(id),
        }
    }

    /// A decode worker has blocks for the prompt of a request.
    pub(crate) fn blocks_are_reserved(&mut self, id: LiveId) {
        let live = self.lives.get_mut(id);
        let Some(seat) = live.course.destination else { return };
        live.course.reserved = Some(self.now);
        live.course.decode_cached = Some(self.workers.get(seat.worker).reserved_tokens(seat.ticket));
        self.collector.digest.add(self.now, Happened::Reserved, live.turn.row);
        match self.order() {
            Order::SourceFirst => self.begin_transfer(id),
            Order::DestinationFirst => self.route(Pools::PREFILL, id),
        }
    }

    /// The KV of a request has arrived: one worker decodes, the other lets go.
    pub(crate) fn kv_arrives(&mut self, id: LiveId) {
        let live = self.lives.get_mut(id);
        live.course.activated = Some(self.now);
        self.collector.digest.add(self.now, Happened::Activated, live.turn.row);
        let (Some(source), Some(destination)) = (live.course.source, live.course.destination) else { return };
        self.workers.activate(self.now, destination, &mut self.events);
        self.workers.release(self.now, source, &mut self.events);
    }

    /// The prefill pool's router counts a request no more.
    fn leave_prefill(&mut self, id: LiveId) {
        self.look_for_waiting(Pools::PREFILL);
        if let Some(router) = &mut self.pools.get_mut(Pools::PREFILL).router {
            router.prefill_complete(self.now, id);
        }
        self.leave_router(Pools::PREFILL, id);
    }

    fn begin_transfer(&mut self, id: LiveId) {
        let delay = self.transfer_time(id);
        self.events.push(self.now + delay, Event::KvArrives { request: id });
    }

    fn transfer_time(&self, id: LiveId) -> Nanos {
        let Some(handoff) = &self.pools.handoff else { return Nanos::ZERO };
        let live = self.lives.get(id);
        let prompt = live.turn.input_tokens;
        match handoff.transfer.mode {
            TransferMode::FullPrompt => handoff.transfer.delay(prompt, 0),
            // Whole blocks travel.
            TransferMode::DestinationMissing => {
                let here = live.course.decode_cached.unwrap_or(0);
                handoff.transfer.delay(prompt.next_multiple_of(handoff.block_size), here)
            }
        }
    }

    fn order(&self) -> Order {
        self.pools.handoff.map_or(Order::SourceFirst, |handoff| handoff.order)
    }
}
