//! From a request to its place, and to its end.

use std::sync::Arc;
use std::time::Instant;

use dynosim_router::{Candidate, Decision, Request, RouteError, Submitted, Target};
use dynosim_wire::hash;
use dynosim_wire::time::now;
use tokio::sync::oneshot;

use super::pool::{KvRouter, State};
use crate::models::Worker;

/// What is to be routed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// The prompt, with what was made of the answer so far.
    pub(crate) tokens: &'a [u32],
    /// Workers that must not be asked again.
    pub(crate) tried: &'a [u64],
    /// The only worker that may be asked.
    pub(crate) worker: Option<u64>,
    /// Its rank.
    pub(crate) rank: Option<u32>,
    /// The client's priority.
    pub(crate) priority: Option<i32>,
    /// Output tokens that the client expects.
    pub(crate) expected_output: Option<u32>,
}

/// Where a request goes, and what that was chosen from.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) worker: Arc<Worker>,
    pub(crate) decision: Decision,
    /// Every rank that it could go to; empty if several requests left the queue at once, but for the last.
    pub(crate) candidates: Vec<Candidate>,
}

/// A request in the router's books, or in its queue; it leaves them when this is dropped.
#[derive(Debug)]
pub(crate) struct Booking {
    router: Arc<KvRouter>,
    id: u64,
    computed: bool,
    /// Tokens of prompt and output.
    tokens: usize,
    made: u32,
    expected_output: Option<u32>,
}

impl KvRouter {
    /// Finds a place; waits for it if the router has a queue and all are busy.
    pub(crate) async fn route(self: &Arc<Self>, wish: Wish<'_>) -> Result<(Booking, Placed), RouteError> {
        self.metrics.received();
        let begin = now();
        let hashes = self.hashes(wish.tokens);
        let (booking, submitted) = {
            let scheduling = now();
            let (id, submitted) = self.with(|state, now| {
                state.next += 1;
                let id = state.next;
                (id, state.submit(now, id, &wish, &hashes))
            });
            self.metrics.scheduled(scheduling.elapsed(), begin.elapsed());
            (self.booking(id, &wish), submitted)
        };
        let outcome = match submitted {
            Ok(Ticket::Placed(placed)) => Ok(placed),
            Ok(Ticket::Waits(place)) => {
                self.metrics.backpressure();
                // The router lives as long as the booking, and tells everybody who waits.
                place.await.unwrap_or(Err(RouteError::NoCandidate))
            }
            Err(error) => Err(error),
        };
        let placed = outcome.inspect_err(|_| self.metrics.rejected())?;
        self.metrics.chosen(&placed, wish.tokens.len(), self.block_size);
        Ok((booking, placed))
    }

    fn booking(self: &Arc<Self>, id: u64, wish: &Wish<'_>) -> Booking {
        Booking {
            router: Arc::clone(self),
            id,
            computed: false,
            tokens: wish.tokens.len(),
            made: 0,
            expected_output: wish.expected_output,
        }
    }

    fn hashes(&self, tokens: &[u32]) -> Hashes {
        let begin = now();
        let mut scratch = Vec::with_capacity(self.block_size * 4);
        let blocks: Vec<_> =
            tokens.chunks_exact(self.block_size).map(|block| hash::local_hash(block, &mut scratch)).collect();
        let hashed = now();
        let mut above = None;
        let chain = |&local: &u64| {
            let own = hash::sequence_hash(above, local);
            above = Some(own);
            own
        };
        let sequences = blocks.iter().map(chain).collect();
        self.metrics.hashed(hashed.saturating_duration_since(begin), elapsed(hashed));
        Hashes { blocks, sequences }
    }

    /// Tokens of a block.
    pub(crate) fn block_size(&self) -> usize {
        self.block_size
    }
}

fn elapsed(since: Instant) -> std::time::Duration {
    now().saturating_duration_since(since)
}

/// The full blocks of a prompt.
struct Hashes {
    blocks: Vec<u64>,
    sequences: Vec<u64>,
}

/// What became of a wish.
enum Ticket {
    Placed(Placed),
    Waits(oneshot::Receiver<Result<Placed, RouteError>>),
}

impl State {
    fn submit(
        &mut self,
        now: dynosim_engine::Nanos,
        id: u64,
        wish: &Wish<'_>,
        hashes: &Hashes,
    ) -> Result<Ticket, RouteError> {
        let pinned = wish.worker.zip(wish.rank).map(|(worker, rank)| Target { worker, rank });
        let allowed = match wish.worker {
            Some(worker) => Some(vec![worker]),
            None => self.allowed(wish.tried)?,
        };
        let request = Request {
            allowed: allowed.as_deref(),
            pinned,
            priority_jump: f64::from(wish.priority.unwrap_or(0).max(0)),
            ..Request::new(wish.tokens.len() as u32, &hashes.blocks, &hashes.sequences)
        };
        match self.router.submit(now, id, &request)? {
            Submitted::Admitted(decision) => {
                let candidates = self.router.candidates().to_vec();
                self.placed(decision, candidates).map(Ticket::Placed)
            }
            Submitted::Waiting => {
                let (told, place) = oneshot::channel();
                self.waiting.insert(id, told);
                Ok(Ticket::Waits(place))
            }
        }
    }

    /// Workers that may be asked, if not all: those that refused lately only if there is nobody else.
    fn allowed(&self, tried: &[u64]) -> Result<Option<Vec<u64>>, RouteError> {
        let fits = |worker: &Worker| !tried.contains(&worker.id()) && !worker.is_cooling();
        if self.workers.values().all(|worker| fits(worker)) {
            return if self.workers.is_empty() { Err(RouteError::NoCandidate) } else { Ok(None) };
        }
        let of = |fits: &dyn Fn(&Worker) -> bool| -> Vec<u64> {
            self.workers.values().filter(|worker| fits(worker)).map(|worker| worker.id()).collect()
        };
        let warm = of(&fits);
        let untried = if warm.is_empty() { of(&|worker| !tried.contains(&worker.id())) } else { warm };
        if untried.is_empty() { Err(RouteError::NoCandidate) } else { Ok(Some(untried)) }
    }
}

impl Booking {
    /// The prompt is computed: an output has come.
    pub(crate) fn computed(&mut self) {
        if std::mem::replace(&mut self.computed, true) {
            return;
        }
        // Its worker may have gone, and its books with it.
        let _ = self.router.with(|state, now| state.router.prefill_complete(now, self.id));
    }

    /// So many tokens have come; blocks that they fill count if the router tracks outputs.
    pub(crate) fn output(&mut self, count: u32) {
        if !self.router.tracks_output || count == 0 {
            return;
        }
        let size = self.router.block_size;
        let before = self.tokens.div_ceil(size);
        self.tokens += count as usize;
        self.made += count;
        // The nearer the expected end, the less the blocks weigh.
        let left = |expected: u32| (1.0 - f64::from(self.made) / f64::from(expected.max(1))).max(0.0);
        let decay = self.expected_output.map(left);
        for _ in before..self.tokens.div_ceil(size) {
            let _ = self.router.with(|state, _| state.router.add_output_block(self.id, decay));
        }
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        self.router.with(|state, now| {
            if state.waiting.remove(&self.id).is_none() || !state.router.cancel(self.id) {
                // Unknown if it was refused, or if its worker has gone.
                let _ = state.router.free(now, self.id);
            }
        });
    }
}
