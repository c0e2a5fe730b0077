//! After a pass: tokens are appended, requests end, blocks are released.

use super::scheduler::{Scheduled, Scheduler};
use super::sequence::State;
use crate::pass::{Emission, Pass};
use crate::request::{RequestId, Role};

impl Scheduler {
    pub(super) fn process_output(&mut self, pass: &mut Pass) {
        let Some(entries) = self.passes.pop_front() else { return };
        for entry in &entries {
            self.process_entry(entry, pass);
        }
        if !pass.finished.is_empty() {
            self.drop_finished();
        }
        self.retire(entries);
    }

    /// Takes requests that have ended off the running list.
    pub(super) fn drop_finished(&mut self) {
        let arena = &self.arena;
        self.running.retain(|&id| arena[id].state == State::Running);
    }

    fn process_entry(&mut self, entry: &Scheduled, pass: &mut Pass) {
        let id = entry.request;
        let sequence = &mut self.arena[id];
        let alive = matches!(sequence.state, State::Running | State::Waiting);
        if !entry.samples || !alive || sequence.generation != entry.generation {
            return;
        }
        let mut tokens = 1;
        if let Some(mtp) = self.config.mtp.as_mut().filter(|_| entry.decode) {
            tokens = mtp.burst().min(sequence.end - sequence.known());
            // Accepted drafts were computed with the token before them.
            sequence.computed += tokens - 1;
        }
        sequence.outputs += tokens;
        pass.emitted.push(Emission { request: id, tokens });
        if self.config.async_scheduling {
            sequence.in_flight -= 1;
            if sequence.state == State::Running {
                let known = sequence.computed - sequence.in_flight;
                self.store_full(id, known, &mut pass.events);
            }
        }
        self.finish_if_done(id, pass);
    }

    pub(super) fn finish_if_done(&mut self, id: RequestId, pass: &mut Pass) {
        if self.arena[id].known() < self.arena[id].end {
            return;
        }
        pass.finished.push(id);
        self.unfinished -= 1;
        self.head_refused = false;
        let waits = self.arena[id].state == State::Waiting;
        if waits {
            self.waiting.remove(id);
        }
        if self.config.role == Role::Prefill {
            self.arena[id].state = State::Held;
        } else {
            if !waits {
                self.unpromise(id);
            }
            self.pool.release(&mut self.arena[id].blocks);
            self.arena.leave(id);
        }
    }

    /// Ends a request early, wherever it is.
    pub(super) fn remove(&mut self, id: RequestId) -> bool {
        let Some(sequence) = self.arena.get(id) else { return false };
        match sequence.state {
            State::Vacant | State::Finished => return false,
            State::Waiting => self.waiting.remove(id),
            State::Running => self.running.retain(|&other| other != id),
            State::Reserving => self.reserving.retain(|&other| other != id),
            State::Activated => self.activated.retain(|&other| other != id),
            State::Reserved | State::Held => {}
        }
        if !matches!(self.arena[id].state, State::Waiting | State::Reserving) {
            self.unpromise(id);
        }
        if self.arena[id].state != State::Held {
            self.unfinished -= 1;
        }
        self.pool.release(&mut self.arena[id].blocks);
        self.arena.leave(id);
        self.head_refused = false;
        true
    }
}
