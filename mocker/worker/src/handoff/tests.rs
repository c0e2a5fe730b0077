mod bytes;
mod ends;
mod meeting;
mod order;
mod sockets;

use std::sync::Arc;
use std::time::Duration;

use dynosim_engine::{KvTransfer, TransferMode};
use dynosim_wire::bootstrap::{EngineType, Identity};
use tokio::io::DuplexStream;
use uuid::Uuid;

use super::listener::welcome;
use super::rendezvous::Rendezvous;
use super::{DestinationSession, HandoffError, Meeting, SourceSession, Terms};

/// 1 ms per token.
const SLOW_LINK: KvTransfer =
    KvTransfer { bytes_per_token: Some(1_000_000), bandwidth_gb_s: Some(1.0), mode: TransferMode::FullPrompt };
const PROMPT_TOKENS: u32 = 100;
/// The prompt in blocks of 16.
const BLOCK_TOKENS: u32 = 112;

fn terms(engine: EngineType) -> Terms {
    Terms::new(engine, SLOW_LINK).unwrap()
}

fn identity(number: u128) -> Identity {
    Identity { handoff_id: Uuid::from_u128(number), bootstrap_room: 7, request_id: Uuid::from_u128(number + 1) }
}

fn meeting(number: u128) -> Meeting {
    Meeting { host: "127.0.0.1".to_owned(), port: 1, identity: identity(number) }
}

/// A prefill worker without sockets.
struct Prefill {
    rendezvous: Arc<Rendezvous>,
    terms: Terms,
}

impl Prefill {
    fn new(terms: Terms) -> Self {
        Self { rendezvous: Arc::new(Rendezvous::new(terms.clone())), terms }
    }

    /// A connection to it.
    fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let rendezvous = self.rendezvous.clone();
        tokio::spawn(async move { welcome(theirs, &rendezvous).await });
        ours
    }

    async fn dial(&self, number: u128) -> Result<DestinationSession, HandoffError> {
        DestinationSession::register(self.connect(), &meeting(number), &self.terms, 0).await
    }

    async fn meet(&self, number: u128) -> Result<SourceSession, HandoffError> {
        self.rendezvous.expect(identity(number))?.meet().await
    }

    /// Both sides of a handoff that has begun; where the destination goes first, it has its blocks.
    async fn begin(&self, number: u128) -> (SourceSession, DestinationSession) {
        let destination = async {
            let mut session = self.dial(number).await.unwrap();
            if self.terms.engine == EngineType::Sglang {
                session.asked_to_reserve().await.unwrap();
                // What comes next is waited for elsewhere.
                let _ = tokio::time::timeout(Duration::ZERO, session.reserved(BLOCK_TOKENS)).await;
            }
            session
        };
        let (source, destination) = tokio::join!(self.meet(number), destination);
        (source.unwrap(), destination)
    }
}

/// A whole prefill worker's side.
async fn prefill(mut session: SourceSession) -> Result<(), HandoffError> {
    session.during(tokio::time::sleep(Duration::from_millis(5))).await?;
    session.transfer(PROMPT_TOKENS).await?;
    session.complete().await
}

/// A whole decode worker's side.
async fn decode(mut session: DestinationSession) -> Result<(), HandoffError> {
    session.asked_to_reserve().await?;
    session.during(tokio::task::yield_now()).await?;
    session.reserved(BLOCK_TOKENS).await?;
    session.applied().await?;
    session.completed().await
}
