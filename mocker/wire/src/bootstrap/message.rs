//! Messages of the handshake.

use dynosim_engine::TransferMode;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Which handoff a frame belongs to: the router made the names, both workers were told them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Name of the meeting.
    pub handoff_id: Uuid,
    /// Number of the meeting.
    pub bootstrap_room: u64,
    /// The request; the same for both workers.
    pub request_id: Uuid,
}

/// A message and its handoff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Which handoff.
    pub identity: Identity,
    /// What is said.
    pub message: Message,
}

/// What one side says to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// Destination: who is there. The first message of a connection.
    Register(Registration),
    /// Source: the request is there too.
    Registered,
    /// Something has happened.
    Fact(Fact),
    /// Source: something is to be done.
    Action(IssuedAction),
    /// Destination: what became of an action.
    ActionAck {
        /// Which.
        action_id: u64,
        /// What became of it.
        outcome: Outcome,
    },
    /// It ends here.
    Abort {
        /// Why.
        message: String,
    },
    /// Source: the destination has the KV; the connection ends.
    Complete,
    /// Source: there are too many handoffs.
    Overloaded,
    /// The other side said what it must not say.
    ProtocolError {
        /// What.
        message: String,
    },
}

/// Who dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Always the destination.
    pub role: Participant,
    /// Its rank.
    pub dp_rank: u32,
    /// Who goes first; both sides must agree.
    pub order: Order,
    /// Its engine; both sides must agree.
    pub engine_type: EngineType,
}

/// A side of the handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Participant {
    /// The prefill worker.
    Source,
    /// The decode worker.
    Destination,
}

/// Whose blocks are taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// vLLM: the prompt is computed, then the decode worker takes blocks.
    SourceFirst,
    /// `SGLang`: the decode worker takes blocks, then the prompt is computed.
    DestinationFirst,
}

/// Engines as the handshake names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineType {
    /// vLLM.
    Vllm,
    /// `SGLang`.
    Sglang,
    /// TensorRT-LLM; as published it does not take part in handoffs.
    Trtllm,
}

impl EngineType {
    /// Who goes first with this engine; none if it takes no part.
    pub fn order(self) -> Option<Order> {
        match self {
            Self::Vllm => Some(Order::SourceFirst),
            Self::Sglang => Some(Order::DestinationFirst),
            Self::Trtllm => None,
        }
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Fact {
    /// Source: the KV is computed and held.
    SourceHeld {
        /// Which handoff.
        handoff_id: Uuid,
        /// How long the transfer takes.
        transfer_timing: TransferTiming,
    },
    /// Destination: blocks are taken.
    DestinationReserved {
        /// Which handoff.
        handoff_id: Uuid,
        /// Tokens of the blocks whose KV must come over, in whole blocks: more than the prompt has if its last block is
        /// not full.
        transferable_prompt_tokens: u32,
    },
    /// The KV has come over.
    TransferCompleted(Subject),
    /// It failed on this side.
    Failed(Subject),
    /// The client has gone.
    Canceled(Subject),
    /// It took too long.
    TimedOut(Subject),
}

/// How long a transfer takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferTiming {
    /// Which tokens travel.
    #[serde(with = "mode")]
    pub mode: TransferMode,
    /// Prompt length in tokens.
    pub full_prompt_tokens: u32,
    /// KV bytes per token.
    pub kv_bytes_per_token: Option<u64>,
    /// 10⁹ bytes per second.
    pub bandwidth_gb_s: Option<f64>,
}

/// What is to be done, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedAction {
    /// Number; the same action again has the same number.
    pub id: u64,
    /// What.
    pub action: Action,
}

/// What is to be done. Only those for the destination are sent; the source counts its own with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Source: compute the prompt.
    SubmitPrefill(Subject),
    /// Destination: take blocks.
    ReserveDestination(Subject),
    /// Destination: the KV is there, decode.
    ActivateDestination(Subject),
    /// Source: give the blocks back.
    ReleaseSource(Subject),
    /// Source: give up.
    CancelSource(Subject),
    /// Destination: give up.
    CancelDestination(Subject),
}

/// Which handoff an action or a fact is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// Name of the meeting.
    pub handoff_id: Uuid,
}

/// What became of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is queued; a fact says when it has happened.
    Accepted,
    /// It has happened.
    Applied,
    /// It cannot be done.
    Failed(String),
}

/// Modes of a transfer by their names on the wire.
mod mode {
    use dynosim_engine::TransferMode;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        FullPrompt,
        DestinationMissing,
    }

    pub(super) fn serialize<S: Serializer>(mode: &TransferMode, serializer: S) -> Result<S::Ok, S::Error> {
        match mode {
            TransferMode::FullPrompt => Mode::FullPrompt,
            TransferMode::DestinationMissing => Mode::DestinationMissing,
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TransferMode, D::Error> {
        Ok(match Mode::deserialize(deserializer)? {
            Mode::FullPrompt => TransferMode::FullPrompt,
            Mode::DestinationMissing => TransferMode::DestinationMissing,
        })
    }
}
