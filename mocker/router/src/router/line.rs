//! Requests that may have to wait.

use dynosim_engine::Nanos;

use super::Router;
use crate::queue::{Busy, Gate};
use crate::request::{Admission, Request, RouteError, Submitted};

impl Router {
    /// Books a request, or lets it wait: without a queue it never waits. With one, it goes straight through if nothing
    /// waits before it and one of its ranks is not busy.
    pub fn submit(&mut self, now: Nanos, id: u64, request: &Request<'_>) -> Result<Submitted, RouteError> {
        self.check_unused(id)?;
        self.consider(now, request)?;
        let Some(queue) = &mut self.queue else {
            return Ok(Submitted::Admitted(self.decide_and_book(now, id, request)));
        };
        let candidates = &self.scratch.candidates;
        let uncached = candidates.iter().map(|candidate| candidate.effective_prefill_tokens).min().unwrap_or(0);
        let class = queue.class(request, u64::from(uncached));
        let busy = queue.busy(class);
        let free = candidates.iter().any(|candidate| {
            !busy.is(candidate.active_prefill_tokens, self.workers.seat(candidate.slot).max_num_batched_tokens)
        });
        if free && queue.is_empty(class) {
            return Ok(Submitted::Admitted(self.decide_and_book(now, id, request)));
        }
        if queue.is_full(class, self.workers.schedulable_workers()) {
            return Err(RouteError::QueueFull);
        }
        queue.push(now, id, class, request, u64::from(uncached));
        // A higher priority may overtake a head whose ranks are all busy.
        self.drain(now);
        Ok(Submitted::Waiting)
    }

    /// Takes a waiting request out of the queue; says whether it was there.
    pub fn cancel(&mut self, id: u64) -> bool {
        self.queue.as_mut().is_some_and(|queue| queue.remove(id))
    }

    /// Lets requests go whose turn it is.
    pub(super) fn drain(&mut self, now: Nanos) {
        let Some(mut queue) = self.queue.take() else { return };
        while let Some(entry) = queue.pop(|request, busy| self.gate(now, request, busy)) {
            let request = entry.kept.request();
            let outcome = self.consider(now, &request).map(|()| self.decide_and_book(now, entry.id, &request));
            self.admissions.push(Admission { id: entry.id, outcome });
        }
        self.queue = Some(queue);
    }

    fn gate(&self, now: Nanos, request: &Request<'_>, busy: Busy) -> Gate {
        let mut fitting =
            self.workers.schedulable().iter().filter(|&&slot| self.workers.admits(slot, request)).peekable();
        if fitting.peek().is_none() {
            return Gate::Gone;
        }
        let free = fitting.any(|&slot| {
            !busy.is(self.loads.prefill_tokens(now, slot), self.workers.seat(slot).max_num_batched_tokens)
        });
        if free { Gate::Open } else { Gate::Shut }
    }
}
