//! Dynamo's live contract, release 1.6: what workers, frontends, routers and planners say to each other.
//!
//! ```text
//!             discovery (mem, file, etcd, kubernetes) who is there: endpoints, model cards, event channels
//!   frontend ───────────── request plane (tcp, nats) ────────────► worker
//!            ◄──────────── response plane (tcp, worker dials) ────
//!            ◄──────────── event plane (zmq, nats) ───────────────  KV events, load, forward-pass metrics
//!   prefill  ◄──────────── bootstrap handshake (tcp) ───────────── decode
//! ```
//!
//! Invariants:
//! - every frame, header, connection count and queue has a limit with a named constant ([`limits`]);
//! - a peer that stops reading never makes memory grow: events are dropped, oldest first, and counted; requests wait;
//! - what is in discovery goes when its owner goes: by its word at shutdown, by its lease or its pod when it dies;
//! - unknown fields of a peer are ignored, missing ones take the default of the release that introduced them.
//!
//! Not here: what a worker computes, how a frontend chooses.

pub mod bootstrap;
pub mod card;
pub mod codec;
pub mod discovery;
pub mod endpoint;
pub mod event;
#[doc(hidden)]
pub mod fuzzing;
pub mod hash;
pub mod limits;
pub mod protocol;
pub mod request;
pub mod response;
pub mod runtime;
pub mod time;

pub use codec::Codec;
pub use endpoint::EndpointId;
pub use runtime::{DiscoveryConfig, EventPlane, RequestPlane, Runtime};

/// Release of the contract that is spoken; `docs/contract.md` says what was verified against which release.
pub const CONTRACT: &str = "1.6";
