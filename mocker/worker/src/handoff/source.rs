//! The prefill worker's side of a handoff.

use std::future::Future;
use std::time::Duration;

use dynosim_engine::{KvTransfer, TransferMode};
use dynosim_wire::bootstrap::{Action, Fact, Identity, IssuedAction, Message, Order, Outcome, Subject, TransferTiming};

use super::channel::{Channel, Deadline};
use super::rendezvous::Seat;
use super::{HandoffError, Terms};
#[cfg(not(test))]
use crate::timer::sleep;

/// Unit tests run on the runtime's clock, which they stop.
#[cfg(test)]
use tokio::time::sleep;

/// What the destination is told when the source's request ends first (as published).
const CANCELED: &str = "source request was canceled";

/// The prefill worker's side of a handoff whose other side is there. Dropped, the destination is told to give up.
#[derive(Debug)]
pub struct SourceSession {
    channel: Channel,
    /// Keeps the handoff known until it is over.
    _seat: Seat,
    order: Order,
    transfer: KvTransfer,
    deadline: Deadline,
    /// Tokens whose KV the destination misses, once it has its blocks.
    reserved: Option<u32>,
}

impl SourceSession {
    pub(super) async fn open(mut channel: Channel, seat: Seat, terms: &Terms) -> Result<Self, HandoffError> {
        channel.last_word = Some(Message::Abort { message: CANCELED.to_owned() });
        let deadline = Deadline::after(terms.session);
        let (order, transfer) = (terms.order, terms.transfer);
        let mut session = Self { channel, _seat: seat, order, transfer, deadline, reserved: None };
        let opened = match order {
            Order::SourceFirst => session.send(&[Message::Registered]).await,
            Order::DestinationFirst => session.reserve(vec![Message::Registered]).await,
        };
        match opened {
            Ok(()) => Ok(session),
            Err(error) => Err(session.failed(error)),
        }
    }

    /// Which handoff.
    pub fn identity(&self) -> Identity {
        self.channel.identity()
    }

    /// Does work that ends early if the destination goes.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, HandoffError> {
        let error = tokio::select! {
            biased;
            done = work => return Ok(done),
            message = self.channel.next_until(self.deadline) => match message {
                Ok(message) => unexpected(&message),
                Err(error) => error,
            },
        };
        Err(self.failed(error))
    }

    /// The prompt's KV is held: lets the destination take blocks if it has none, waits the transfer's time and lets it
    /// decode. After that the source's blocks may go.
    pub async fn transfer(&mut self, prompt_tokens: u32) -> Result<(), HandoffError> {
        match self.try_transfer(prompt_tokens).await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// The source's blocks are free: the handoff is over.
    pub async fn complete(self) -> Result<(), HandoffError> {
        let Self { channel, .. } = self;
        channel.end(Message::Complete).await
    }

    async fn try_transfer(&mut self, prompt_tokens: u32) -> Result<(), HandoffError> {
        let handoff_id = self.channel.identity().handoff_id;
        let KvTransfer { bytes_per_token, bandwidth_gb_s, mode } = self.transfer;
        let transfer_timing = TransferTiming {
            mode,
            full_prompt_tokens: prompt_tokens,
            kv_bytes_per_token: bytes_per_token,
            bandwidth_gb_s,
        };
        let held = Message::Fact(Fact::SourceHeld { handoff_id, transfer_timing });
        match self.order {
            Order::SourceFirst => self.reserve(vec![held]).await?,
            Order::DestinationFirst => self.send(&[held]).await?,
        }
        let tokens = match mode {
            TransferMode::FullPrompt => prompt_tokens,
            TransferMode::DestinationMissing => self.reserved.unwrap_or(prompt_tokens),
        };
        // The destination has said what it misses, in whole blocks; all of that travels.
        let whole = KvTransfer { mode: TransferMode::FullPrompt, ..self.transfer };
        self.during(sleep(Duration::from_nanos(whole.delay(tokens, 0).0))).await?;
        let activate = IssuedAction { id: 3, action: Action::ActivateDestination(Subject { handoff_id }) };
        self.send(&[Message::Action(activate)]).await?;
        self.acknowledged(activate.id).await
    }

    /// Lets the destination take blocks and waits until it has them.
    async fn reserve(&mut self, mut before: Vec<Message>) -> Result<(), HandoffError> {
        let subject = Subject { handoff_id: self.channel.identity().handoff_id };
        // Actions are counted in their order: computing the prompt is one of them, though nobody is told.
        let id = match self.order {
            Order::SourceFirst => 1,
            Order::DestinationFirst => 0,
        };
        before.push(Message::Action(IssuedAction { id, action: Action::ReserveDestination(subject) }));
        self.send(&before).await?;
        self.acknowledged(id).await?;
        match self.next().await? {
            Message::Fact(Fact::DestinationReserved { transferable_prompt_tokens, .. }) => {
                self.reserved = Some(transferable_prompt_tokens);
                Ok(())
            }
            message => Err(unexpected(&message)),
        }
    }

    async fn acknowledged(&mut self, id: u64) -> Result<(), HandoffError> {
        match self.next().await? {
            Message::ActionAck { action_id, outcome } if action_id == id => match outcome {
                Outcome::Accepted | Outcome::Applied => Ok(()),
                Outcome::Failed(reason) => Err(HandoffError::Failed(reason)),
            },
            message => Err(unexpected(&message)),
        }
    }

    async fn next(&mut self) -> Result<Message, HandoffError> {
        match self.channel.next_until(self.deadline).await? {
            Message::Fact(Fact::Failed(_)) => Err(HandoffError::Failed("the destination failed".to_owned())),
            Message::Fact(Fact::Canceled(_)) => Err(HandoffError::Aborted("the destination was cancelled".to_owned())),
            Message::Fact(Fact::TimedOut(_)) => Err(HandoffError::Aborted("the destination timed out".to_owned())),
            message => Ok(message),
        }
    }

    async fn send(&mut self, messages: &[Message]) -> Result<(), HandoffError> {
        self.channel.send_until(messages, self.deadline).await
    }

    fn failed(&mut self, error: HandoffError) -> HandoffError {
        self.channel.failed(error, |message| Message::Abort { message })
    }
}

fn unexpected(message: &Message) -> HandoffError {
    HandoffError::Unexpected(format!("{message:?}"))
}
