//! The way from a handle to the task that alone writes its records.

use tokio::sync::{mpsc, oneshot};

use super::DiscoveryError;
use crate::limits::MAX_QUEUED_WRITES;

/// Where the task says how it went.
pub(super) type Reply = oneshot::Sender<Result<(), DiscoveryError>>;

/// Gives a task its commands.
#[derive(Debug)]
pub(super) struct Orders<C>(mpsc::Sender<C>);

impl<C> Orders<C> {
    /// And what the task reads.
    pub(super) fn new() -> (Self, mpsc::Receiver<C>) {
        let (commands, received) = mpsc::channel(MAX_QUEUED_WRITES);
        (Self(commands), received)
    }

    /// Has the task do something, and waits for that.
    pub(super) async fn give(&self, command: impl FnOnce(Reply) -> C) -> Result<(), DiscoveryError> {
        let (reply, answer) = oneshot::channel();
        self.0.send(command(reply)).await.map_err(|_| DiscoveryError::Closed)?;
        answer.await.map_err(|_| DiscoveryError::Closed)?
    }
}

/// What closing comes to: one that was closed before has nothing left to remove.
pub(super) fn closed(outcome: Result<(), DiscoveryError>) -> Result<(), DiscoveryError> {
    match outcome {
        Err(DiscoveryError::Closed) => Ok(()),
        outcome => outcome,
    }
}
