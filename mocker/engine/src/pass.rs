//! One forward pass, as a scheduler decides it.

use crate::request::{Request, RequestId};

/// The requests that compute prompt tokens in a pass. Preempted requests that compute their tokens again count here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefillBatch {
    /// Number of requests.
    pub requests: u32,
    /// Sum over them: tokens whose KV was there before the pass (cached or computed by earlier chunks).
    pub prefix_tokens: u64,
    /// Sum over them: tokens computed in the pass.
    pub new_tokens: u64,
}

impl PrefillBatch {
    /// Counts one request in.
    #[inline]
    pub(crate) fn add(&mut self, prefix_tokens: u32, new_tokens: u32) {
        self.requests += 1;
        self.prefix_tokens += u64::from(prefix_tokens);
        self.new_tokens += u64::from(new_tokens);
    }
}

/// The requests that compute their newest token in a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Number of requests.
    pub requests: u32,
    /// Sum over them: sequence length (prompt and output known at the start of the pass) in tokens.
    pub kv_tokens: u64,
}

/// A request that entered the running set in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Who.
    pub request: RequestId,
    /// Prompt (and, if resumed, output) tokens found in the prefix cache.
    pub cached_tokens: u32,
    /// It had been preempted before.
    pub resumed: bool,
}

/// Output of one request at the end of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emission {
    /// Who.
    pub request: RequestId,
    /// New output tokens, at least 1; more only with speculative (MTP) decoding.
    pub tokens: u32,
}

/// One change of the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvEvent {
    /// Blocks became cached: `len` hashes of [`KvEvents::hashes`] from `start`, the first being a child of `parent`.
    Stored {
        /// Hash of the block before the first one; none at the start of a sequence.
        parent: Option<u64>,
        /// Index of the first hash.
        start: u32,
        /// Number of hashes.
        len: u32,
        /// Whose blocks they are.
        request: RequestId,
        /// Index of the first block in that request's sequence.
        position: u32,
    },
    /// Blocks were evicted: `len` hashes of [`KvEvents::hashes`] from `start`.
    Removed {
        /// Index of the first hash.
        start: u32,
        /// Number of hashes.
        len: u32,
    },
    /// The whole cache was dropped.
    Cleared,
}

/// KV cache changes in the order in which they happened. Stays empty unless switched on.
#[derive(Clone, Debug, Default)]
pub struct KvEvents {
    /// Off: nothing is recorded.
    pub enabled: bool,
    /// The changes.
    pub items: Vec<KvEvent>,
    /// Block hashes that the items point to.
    pub hashes: Vec<u64>,
    /// For each item the pass of the step that it belongs to, from 0; it becomes visible when that pass ends.
    pub passes: Vec<u32>,
    /// The pass that is being recorded.
    pub in_pass: u32,
    /// The request whose blocks are being recorded.
    pub owner: RequestId,
}

impl KvEvents {
    /// Records blocks of the owner stored one after the other; the first is the block `position` of its sequence and a
    /// child of `parent`.
    pub fn stored(&mut self, parent: Option<u64>, position: u32, hashes: impl Iterator<Item = u64>) {
        if let Some((start, len)) = self.append(hashes) {
            self.push(KvEvent::Stored { parent, start, len, request: self.owner, position });
        }
    }

    /// Records evicted blocks.
    pub fn removed(&mut self, hashes: impl Iterator<Item = u64>) {
        if let Some((start, len)) = self.append(hashes) {
            self.push(KvEvent::Removed { start, len });
        }
    }

    /// Records that everything was dropped.
    pub fn cleared(&mut self) {
        if self.enabled {
            self.push(KvEvent::Cleared);
        }
    }

    /// Forgets what was recorded.
    pub fn clear(&mut self) {
        self.items.clear();
        self.hashes.clear();
        self.passes.clear();
        self.in_pass = 0;
    }

    /// Start and number of the hashes that were added; none if that is nothing.
    #[inline]
    fn append(&mut self, hashes: impl Iterator<Item = u64>) -> Option<(u32, u32)> {
        if !self.enabled {
            return None;
        }
        let start = self.hashes.len() as u32;
        self.hashes.extend(hashes);
        let len = self.hashes.len() as u32 - start;
        (len > 0).then_some((start, len))
    }

    fn push(&mut self, item: KvEvent) {
        self.items.push(item);
        self.passes.push(self.in_pass);
    }
}

/// Sums over the lengths of some requests, for their mean and variance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Requests.
    pub count: u64,
    /// Sum of their lengths in tokens.
    pub sum: u64,
    /// Sum of the squares of their lengths.
    pub squares: u128,
}

impl Lengths {
    /// Counts one request in.
    #[inline]
    pub fn add(&mut self, tokens: u32) {
        self.count += 1;
        self.sum += u64::from(tokens);
        self.squares += u128::from(u64::from(tokens) * u64::from(tokens));
    }

    /// Variance of the lengths of the whole population; 0 without requests.
    pub fn variance(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let mean = self.sum as f64 / self.count as f64;
        (self.squares as f64 / self.count as f64 - mean * mean).max(0.0)
    }
}

/// The lengths behind a pass, for who reports more of it than the timing model wants. Stays empty unless switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Off: nothing is summed up.
    pub enabled: bool,
    /// Prompt lengths of the requests that compute prompt tokens.
    pub prompts: Lengths,
    /// Sequence lengths of the requests that decode.
    pub sequences: Lengths,
}

/// The requests of one rank that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Prompt lengths of those that never ran.
    pub prompts: Lengths,
    /// Sequence lengths of those that ran before, or whose KV is computed elsewhere.
    pub sequences: Lengths,
}

/// What a scheduler decided for one forward pass and what came of it. Buffers are used again from pass to pass.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Prompt work, for the timing model.
    pub prefill: PrefillBatch,
    /// Decode role: the part of `prefill` whose KV nobody else had, so that it takes time here.
    pub local_prefill: PrefillBatch,
    /// Decode work, for the timing model.
    pub decode: DecodeBatch,
    /// Requests that entered the running set.
    pub admitted: Vec<Admission>,
    /// Requests thrown out of the running set (vLLM: preempted, `SGLang`: retracted), in order.
    pub preempted: Vec<RequestId>,
    /// Decode role: requests whose blocks are now reserved.
    pub reserved: Vec<RequestId>,
    /// Requests that got tokens at the end of the pass.
    pub emitted: Vec<Emission>,
    /// Requests that ended with the pass, in order; their slots are free once the next pass is scheduled, except in the
    /// prefill role, where KV and slot are held until `release`.
    pub finished: Vec<RequestId>,
    /// KV cache changes.
    pub events: KvEvents,
    /// Lengths behind `prefill` and `decode`.
    pub detail: Detail,
}

impl Pass {
    /// Empties it for the next pass.
    pub fn clear(&mut self) {
        self.prefill = PrefillBatch::default();
        self.local_prefill = PrefillBatch::default();
        self.decode = DecodeBatch::default();
        self.admitted.clear();
        self.preempted.clear();
        self.reserved.clear();
        self.emitted.clear();
        self.finished.clear();
        self.events.clear();
        self.detail = Detail { enabled: self.detail.enabled, ..Detail::default() };
    }

    /// No request computes anything.
    pub fn is_idle(&self) -> bool {
        self.prefill.requests == 0 && self.decode.requests == 0
    }
}

/// The passes ahead that a scheduler knows to be alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// How many passes, at least 1, in which every one of `decode.requests` gets exactly one token, nobody is admitted or
    /// thrown out, and nobody ends but perhaps with the last of them.
    pub passes: u32,
    /// The first of them; each further one has `requests` more KV tokens.
    pub decode: DecodeBatch,
}

/// The scheduler of one rank: decides forward passes and owns the KV cache. It knows no time.
///
/// A pass is `schedule` (decide) then `complete` (tokens appended, finished requests leave). Between passes, requests
/// come and go.
pub trait Scheduler {
    /// Takes a request into the waiting queue. In the decode role it waits for blocks (see [`Pass::reserved`]) and then
    /// for [`Scheduler::activate`].
    fn submit(&mut self, request: Request) -> RequestId;

    /// Takes a request that is prefilled here although this is the decode role: nobody else has its KV. In other roles the
    /// same as [`Scheduler::submit`].
    fn submit_local(&mut self, request: Request) -> RequestId;

    /// Ends a request wherever it is, freeing its blocks. False if there is no such request.
    fn abort(&mut self, request: RequestId) -> bool;

    /// Decode role: the prompt's KV has arrived, decoding may begin.
    fn activate(&mut self, request: RequestId);

    /// Prefill role: the KV of a finished request was taken over, its blocks may go.
    fn release(&mut self, request: RequestId);

    /// Drops the prefix cache. False (and no change) if blocks are in use.
    fn reset_prefix_cache(&mut self, events: &mut KvEvents) -> bool;

    /// Decode role: gives waiting requests the blocks of their prompts, as far as there are enough.
    fn give_blocks(&mut self, pass: &mut Pass);

    /// Decides the next pass. `pass` was cleared by the caller. An idle pass means that nothing can run now.
    fn schedule(&mut self, pass: &mut Pass);

    /// Applies the output of the pass that was scheduled last.
    fn complete(&mut self, pass: &mut Pass);

    /// The equal passes ahead, at most `limit`, if any. `None` is always allowed; it only costs speed.
    fn steady(&self, limit: u32) -> Option<Steady>;

    /// Runs `passes` (at most [`Steady::passes`]) of them at once; lists in `pass.emitted` who got one token in each.
    /// KV events name their pass ([`KvEvents::passes`]).
    fn advance(&mut self, passes: u32, pass: &mut Pass);

    /// Requests that are neither finished nor aborted.
    fn unfinished(&self) -> usize;

    /// Requests waiting for their first admission, for blocks, or to be resumed.
    fn waiting(&self) -> usize;

    /// Blocks (pages) of the pool that some request holds.
    fn active_blocks(&self) -> u32;

    /// Decode role: prompt tokens of a request whose KV was found here when its blocks were reserved.
    fn reserved_tokens(&self, request: RequestId) -> u32;

    /// The lengths of the requests that wait. Walks the queue.
    fn queued(&self) -> Queued;
}
