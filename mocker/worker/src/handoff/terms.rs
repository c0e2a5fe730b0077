//! What both sides of a handoff must know beforehand.

use std::time::Duration;

use dynosim_engine::KvTransfer;
use dynosim_wire::bootstrap::{EngineType, Identity, Order};
use dynosim_wire::protocol::BootstrapInfo;
use uuid::Uuid;

use super::HandoffError;

/// How long one side waits for the other to come (as published).
const RENDEZVOUS: Duration = Duration::from_secs(30);
/// `handoff_session_timeout_ms` unless told otherwise.
const SESSION: Duration = Duration::from_secs(300);

/// What is the same for all handoffs of a worker.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The engine; both sides must run the same.
    pub engine: EngineType,
    /// Who goes first; follows from the engine.
    pub order: Order,
    /// Time that KV takes from the source. The destination's does not matter.
    pub transfer: KvTransfer,
    /// How long one side waits for the other to come.
    pub rendezvous: Duration,
    /// How long a handoff may take from then on (`handoff_session_timeout_ms`).
    pub session: Duration,
}

impl Terms {
    /// The terms of a worker, with the time-outs as published.
    pub fn new(engine: EngineType, transfer: KvTransfer) -> Result<Self, HandoffError> {
        let order = engine.order().ok_or(HandoffError::Engine)?;
        Ok(Self { engine, order, transfer, rendezvous: RENDEZVOUS, session: SESSION })
    }
}

/// Where and as what a decode worker meets the prefill worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Name or address of the source's machine.
    pub host: String,
    /// Its port: as told, whatever the rank.
    pub port: u16,
    /// Which handoff.
    pub identity: Identity,
}

impl Meeting {
    /// What a router told about a request.
    pub fn new(info: &BootstrapInfo, request_id: &str) -> Result<Self, HandoffError> {
        let handoff_id = info.handoff_id.ok_or(HandoffError::NoHandoffId)?;
        let request_id = Uuid::parse_str(request_id).map_err(|_| HandoffError::RequestId(request_id.to_owned()))?;
        let identity = Identity { handoff_id, bootstrap_room: info.bootstrap_room, request_id };
        Ok(Self { host: info.bootstrap_host.clone(), port: info.bootstrap_port, identity })
    }
}
