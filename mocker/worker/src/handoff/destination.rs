//! The decode worker's side of a handoff.

use std::future::Future;

use dynosim_wire::bootstrap::{
    Action, Fact, IssuedAction, Message, Outcome, Participant, Registration, Subject, TransferTiming,
};
use tokio::net::TcpStream;

use super::channel::{Channel, Deadline, Stream, Unnamed};
use super::listener::tune;
use super::{HandoffError, Meeting, Terms};

/// The decode worker's side of a handoff. Dropped, the source sees the connection close and gives up.
#[derive(Debug)]
pub struct DestinationSession {
    channel: Channel,
    deadline: Deadline,
    /// The action that is to be acknowledged when it is done.
    pending: Option<u64>,
    /// What the source said about the transfer.
    timing: Option<TransferTiming>,
}

impl DestinationSession {
    /// Connects to the source and waits until its side of the request is there.
    pub async fn dial(meeting: &Meeting, terms: &Terms, rank: u32) -> Result<Self, HandoffError> {
        let Meeting { host, port, identity: _ } = meeting;
        let connect = async {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let refused = |source| HandoffError::Connect { address: format!("{host}:{port}"), source };
            let stream = TcpStream::connect((host, *port)).await.map_err(refused)?;
            tune(&stream)?;
            Self::register(stream, meeting, terms, rank).await
        };
        let waited = tokio::time::timeout(terms.rendezvous, connect).await;
        waited.unwrap_or(Err(HandoffError::Rendezvous(terms.rendezvous)))
    }

    /// Begins a handoff on a connection that there is.
    pub(super) async fn register(
        stream: impl Stream,
        meeting: &Meeting,
        terms: &Terms,
        rank: u32,
    ) -> Result<Self, HandoffError> {
        let deadline = Deadline::after(terms.session);
        let mut channel = Unnamed::new(stream).greet(meeting.identity).await?;
        let registration = Registration {
            role: Participant::Destination,
            dp_rank: rank,
            order: terms.order,
            engine_type: terms.engine,
        };
        channel.send(&[Message::Register(registration)]).await?;
        let mut session = Self { channel, deadline, pending: None, timing: None };
        match session.channel.next().await {
            Ok(Message::Registered) => Ok(session),
            Ok(message) => Err(session.unexpected(&message)),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Waits until blocks are to be taken.
    pub async fn asked_to_reserve(&mut self) -> Result<(), HandoffError> {
        let id = match self.asked().await? {
            IssuedAction { id, action: Action::ReserveDestination(_) } => id,
            other => return Err(self.unexpected(&Message::Action(other))),
        };
        self.send(&[Message::ActionAck { action_id: id, outcome: Outcome::Accepted }]).await
    }

    /// Does work that ends early if the source goes.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, HandoffError> {
        let heard = async {
            loop {
                match self.channel.next_until(self.deadline).await {
                    // The source may tell about the prompt while blocks are looked for.
                    Ok(Message::Fact(Fact::SourceHeld { transfer_timing, .. })) => self.timing = Some(transfer_timing),
                    other => break other,
                }
            }
        };
        let heard = tokio::select! {
            biased;
            done = work => return Ok(done),
            heard = heard => heard,
        };
        match heard {
            Ok(Message::Action(IssuedAction { id, action: Action::CancelDestination(_) })) => Err(self.cancel(id).await),
            Ok(message) => Err(self.unexpected(&message)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Blocks are taken, so many tokens (in whole blocks) must come over: waits until they have.
    pub async fn reserved(&mut self, transferable_prompt_tokens: u32) -> Result<(), HandoffError> {
        let handoff_id = self.channel.identity().handoff_id;
        let fact = Message::Fact(Fact::DestinationReserved { handoff_id, transferable_prompt_tokens });
        self.send(&[fact]).await?;
        match self.asked().await? {
            IssuedAction { id, action: Action::ActivateDestination(Subject { .. }) } => {
                self.pending = Some(id);
                Ok(())
            }
            other => Err(self.unexpected(&Message::Action(other))),
        }
    }

    /// The request decodes: the source may let go.
    pub async fn applied(&mut self) -> Result<(), HandoffError> {
        let Some(action_id) = self.pending.take() else {
            return Err(HandoffError::Unexpected("nothing was to be applied".to_owned()));
        };
        self.send(&[Message::ActionAck { action_id, outcome: Outcome::Applied }]).await
    }

    /// Waits until the source has let go. Dropping the future loses nothing.
    pub async fn completed(&mut self) -> Result<(), HandoffError> {
        match self.channel.next_until(self.deadline).await {
            Ok(Message::Complete) => Ok(()),
            Ok(message) => Err(self.unexpected(&message)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// What the source said about the transfer, if it has by now.
    pub fn timing(&self) -> Option<TransferTiming> {
        self.timing
    }

    /// The next action, past what the source tells.
    async fn asked(&mut self) -> Result<IssuedAction, HandoffError> {
        loop {
            match self.channel.next_until(self.deadline).await {
                Ok(Message::Fact(Fact::SourceHeld { transfer_timing, .. })) => self.timing = Some(transfer_timing),
                Ok(Message::Action(IssuedAction { id, action: Action::CancelDestination(_) })) => {
                    return Err(self.cancel(id).await);
                }
                Ok(Message::Action(issued)) => return Ok(issued),
                Ok(message) => return Err(self.unexpected(&message)),
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    async fn cancel(&mut self, action_id: u64) -> HandoffError {
        let applied = Message::ActionAck { action_id, outcome: Outcome::Applied };
        match self.send(&[applied]).await {
            Ok(()) => HandoffError::Aborted("cancelled by the source".to_owned()),
            Err(error) => error,
        }
    }

    async fn send(&mut self, messages: &[Message]) -> Result<(), HandoffError> {
        self.channel.send_until(messages, self.deadline).await
    }

    fn unexpected(&mut self, message: &Message) -> HandoffError {
        self.failed(HandoffError::Unexpected(format!("{message:?}")))
    }

    fn failed(&mut self, error: HandoffError) -> HandoffError {
        self.channel.failed(error, |message| Message::ProtocolError { message })
    }
}
