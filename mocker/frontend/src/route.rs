//! Which worker gets a request.

mod pin;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{RngExt as _, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub(crate) use pin::Pins;

use crate::config::RoutingMode;
use crate::models::{Pool, Worker};

/// Chooses workers.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) mode: RoutingMode,
    draws: Mutex<Pcg64Mcg>,
}

impl Router {
    /// A router whose random choices follow from `seed`.
    pub(crate) fn new(mode: RoutingMode, seed: u64) -> Self {
        Self { mode, draws: Mutex::new(Pcg64Mcg::seed_from_u64(seed)) }
    }

    /// The worker that is asked next, except `tried` ones; those that refused lately come last.
    pub(crate) fn choose<'a>(&self, pool: &'a Pool, tried: &[u64]) -> Option<&'a Arc<Worker>> {
        // A turn is taken only for the first try, so that a refusal does not move everyone else's turn.
        let turn = if tried.is_empty() { pool.turn.fetch_add(1, Relaxed) } else { pool.turn.load(Relaxed) };
        let untried = |worker: &Worker| !tried.contains(&worker.id());
        let warm = |worker: &Worker| untried(worker) && !worker.is_cooling();
        self.among(&pool.workers, turn, &warm).or_else(|| self.among(&pool.workers, turn, &untried))
    }

    /// A worker that `fits`; `turn` says who is first.
    fn among<'a>(
        &self,
        workers: &'a [Arc<Worker>],
        turn: usize,
        fits: &dyn Fn(&Worker) -> bool,
    ) -> Option<&'a Arc<Worker>> {
        let start = turn % workers.len().max(1);
        let mut fitting = workers[start..].iter().chain(&workers[..start]).filter(|worker| fits(worker));
        match self.mode {
            // The KV router chooses by itself; it is in `kv`.
            RoutingMode::RoundRobin | RoutingMode::Direct | RoutingMode::Kv => fitting.next(),
            RoutingMode::LeastLoaded => fitting.min_by_key(|worker| worker.in_flight()),
            RoutingMode::Random => self.draw(fitting),
            RoutingMode::PowerOfTwo => {
                let two = [self.draw(fitting.clone()), self.draw(fitting)];
                two.into_iter().flatten().min_by_key(|worker| worker.in_flight())
            }
        }
    }

    /// Any of them.
    fn draw<'a>(&self, mut of: impl Iterator<Item = &'a Arc<Worker>> + Clone) -> Option<&'a Arc<Worker>> {
        let count = of.clone().count();
        let index = (count > 0).then(|| self.below(count))?;
        of.nth(index)
    }

    /// A number below `bound`, which is above 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        self.draws.lock().unwrap_or_else(PoisonError::into_inner).random_range(..bound)
    }
}
