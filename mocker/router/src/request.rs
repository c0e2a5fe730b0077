//! What is asked of the router, and what it answers.

use serde::Serialize;
use thiserror::Error;

use crate::event::Target;

/// A request to route. Nothing is copied unless it has to wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Prompt tokens.
    pub tokens: u32,
    /// Tokens hashes of the full blocks: the prompt's identity in the prefix index.
    pub block_hashes: &'a [u64],
    /// Sequence hashes of the full blocks: the prompt's identity in the loads.
    pub sequence_hashes: &'a [u64],
    /// Only these workers; none of them if empty.
    pub allowed: Option<&'a [u64]>,
    /// Only this rank.
    pub pinned: Option<Target>,
    /// Only workers with all of these.
    pub required_taints: &'a [String],
    /// The cost of workers with these is multiplied by exp(−tanh(sum of their weights)), unless the request is pinned.
    pub preferred_taints: &'a [(String, f64)],
    /// Overrides `router_track_prefill_tokens`.
    pub track_prefill_tokens: Option<bool>,
    /// Seconds that it is put forward in the queue; negative ones count as 0.
    pub priority_jump: f64,
    /// Higher ones leave the queue before all lower ones.
    pub strict_priority: u32,
    /// Requests of one session go to one rank, if the router keeps sessions.
    pub session: Option<&'a str>,
    /// Policy family.
    pub policy_class: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// A request without any wishes.
    pub fn new(tokens: u32, block_hashes: &'a [u64], sequence_hashes: &'a [u64]) -> Self {
        Self { tokens, block_hashes, sequence_hashes, ..Self::default() }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Kept {
    tokens: u32,
    block_hashes: Box<[u64]>,
    sequence_hashes: Box<[u64]>,
    allowed: Option<Box<[u64]>>,
    pinned: Option<Target>,
    required_taints: Box<[String]>,
    preferred_taints: Box<[(String, f64)]>,
    track_prefill_tokens: Option<bool>,
    priority_jump: f64,
    strict_priority: u32,
    session: Option<String>,
    policy_class: Option<String>,
}

impl Kept {
    pub(crate) fn new(request: &Request<'_>) -> Self {
        Self {
            tokens: request.tokens,
            block_hashes: request.block_hashes.into(),
            sequence_hashes: request.sequence_hashes.into(),
            allowed: request.allowed.map(Into::into),
            pinned: request.pinned,
            required_taints: request.required_taints.into(),
            preferred_taints: request.preferred_taints.into(),
            track_prefill_tokens: request.track_prefill_tokens,
            priority_jump: request.priority_jump,
            strict_priority: request.strict_priority,
            session: request.session.map(ToOwned::to_owned),
            policy_class: request.policy_class.map(ToOwned::to_owned),
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            tokens: self.tokens,
            block_hashes: &self.block_hashes,
            sequence_hashes: &self.sequence_hashes,
            allowed: self.allowed.as_deref(),
            pinned: self.pinned,
            required_taints: &self.required_taints,
            preferred_taints: &self.preferred_taints,
            track_prefill_tokens: self.track_prefill_tokens,
            priority_jump: self.priority_jump,
            strict_priority: self.strict_priority,
            session: self.session.as_deref(),
            policy_class: self.policy_class.as_deref(),
        }
    }
}

/// Cached blocks of a prompt on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Matched {
    /// On the device, from the start.
    pub device: u32,
    /// In host memory, going on from there.
    pub host: u32,
    /// On disk, going on from there.
    pub disk: u32,
}

/// Why a rank was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It is the only one that the request may go to.
    OnlyCandidate,
    /// Its cost is the lowest.
    LowestCost,
    /// One of several with the lowest cost, by lot.
    Tie,
    /// By lot over all, the cheaper the likelier (`router_temperature`).
    Temperature,
    /// The request's session is there.
    Session,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// The rank.
    pub target: Target,
    /// Why this one.
    pub reason: Reason,
    /// Its cost, in blocks.
    pub cost: f64,
    /// What it has cached of the prompt.
    pub matched: Matched,
    /// Prompt tokens that it has to compute.
    pub effective_prefill_tokens: u32,
    /// Active blocks that it will have, a partial one included.
    pub potential_decode_blocks: u32,
    /// Prompt tokens that it had to compute before this request.
    pub active_prefill_tokens: u64,
    /// More potential blocks than `conditional_disagg_decode_busy_threshold` allows; absent without it, or where the
    /// worker's blocks are unknown.
    pub decode_busy: Option<bool>,
    /// More active prompt tokens than `conditional_disagg_prefill_busy_threshold` allows; absent likewise.
    pub prefill_busy: Option<bool>,
}

/// What became of a submitted request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Submitted {
    /// It is booked on a rank.
    Admitted(Decision),
    /// It is in the queue; [`crate::Router::admissions`] tells when it leaves.
    Waiting,
}

/// A request that left the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The request.
    pub id: u64,
    /// Where it is booked, or why it can't be.
    pub outcome: Result<Decision, RouteError>,
}

/// Why the router did not do what it was asked. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// No worker fits, or there is none.
    #[error("no worker fits the request")]
    NoCandidate,
    /// Too many requests wait.
    #[error("the queue of the request's policy class is full")]
    QueueFull,
    /// No open request of this id.
    #[error("no such request")]
    UnknownRequest,
    /// No such worker.
    #[error("no such worker")]
    UnknownWorker,
    /// No such rank of the worker.
    #[error("no such data-parallel rank")]
    UnknownRank,
    /// The id is in use.
    #[error("a request of this id is open")]
    Conflict,
    /// The request contradicts itself.
    #[error("{0}")]
    Invalid(&'static str),
}

impl RouteError {
    /// The published kind of error.
    pub fn kind(self) -> &'static str {
        match self {
            Self::NoCandidate | Self::QueueFull => "scheduler",
            Self::UnknownRequest | Self::UnknownWorker => "not_found",
            Self::UnknownRank => "sequence",
            Self::Conflict => "conflict",
            Self::Invalid(_) => "invalid_request",
        }
    }

    /// The published HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::NoCandidate => 503,
            Self::QueueFull => 429,
            Self::UnknownRequest | Self::UnknownWorker | Self::UnknownRank => 404,
            Self::Conflict => 409,
            Self::Invalid(_) => 400,
        }
    }
}
