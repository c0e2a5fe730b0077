//! Where the two sides of a handoff find each other inside the prefill worker.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dynosim_wire::bootstrap::{Identity, Message, Registration};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::channel::Channel;
use super::{HandoffError, MAX_HANDOFFS, MAX_PAST_HANDOFFS, SourceSession, Terms};

/// A destination that has come.
#[derive(Debug)]
pub(super) struct Met {
    pub(super) channel: Channel,
    pub(super) registration: Registration,
}

/// The source's end of a waiting line of one.
type Taker = oneshot::Sender<Met>;

#[derive(Debug)]
enum Place {
    /// The request is here, the destination is not.
    Source(Taker),
    /// The destination is here, the request is not. It is handed to the taker that is sent.
    Destination(oneshot::Sender<Taker>),
    /// They have met.
    Active,
    /// The request is gone before the destination came.
    Withdrawn,
    /// They have met once.
    Over,
}

/// What a destination finds.
pub(super) enum Arrival {
    /// The request; hand yourself over.
    Meet(Taker),
    /// Nobody; wait for the request. The seat is given up when dropped.
    Wait(oneshot::Receiver<Taker>, Seat),
    /// The request has gone.
    Withdrawn,
    /// A handoff that is under way or over.
    Duplicate,
    /// Too many handoffs.
    Overloaded,
}

#[derive(Debug, Default)]
struct Places {
    by_id: FxHashMap<Uuid, Place>,
    /// Names of handoffs that are over or withdrawn, oldest first, and when they are forgotten.
    past: VecDeque<(Instant, Uuid)>,
}

/// The handoffs of one prefill worker.
#[derive(Debug)]
pub(super) struct Rendezvous {
    terms: Terms,
    places: Mutex<Places>,
}

impl Rendezvous {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, places: Mutex::default() }
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The request of a handoff has come.
    pub(super) fn expect(self: &Arc<Self>, identity: Identity) -> Result<Expected, HandoffError> {
        let (taker, met) = oneshot::channel();
        let mut places = self.lock();
        let id = identity.handoff_id;
        match places.by_id.remove(&id) {
            None if places.current() >= MAX_HANDOFFS => return Err(HandoffError::Overloaded),
            None => {
                places.by_id.insert(id, Place::Source(taker));
            }
            Some(Place::Destination(waiting)) => {
                places.by_id.insert(id, Place::Active);
                // If the destination is gone by now, the source sees that its taker was dropped.
                let _ = waiting.send(taker);
            }
            Some(other) => {
                places.by_id.insert(id, other);
                return Err(HandoffError::Duplicate);
            }
        }
        let seat = Seat { rendezvous: self.clone(), id, withdrawn: true };
        Ok(Expected { seat, met, identity })
    }

    /// A destination has come.
    pub(super) fn arrive(self: &Arc<Self>, id: Uuid) -> Arrival {
        let mut places = self.lock();
        match places.by_id.remove(&id) {
            None if places.current() >= MAX_HANDOFFS => Arrival::Overloaded,
            None => {
                let (waiting, claimed) = oneshot::channel();
                places.by_id.insert(id, Place::Destination(waiting));
                Arrival::Wait(claimed, Seat { rendezvous: self.clone(), id, withdrawn: false })
            }
            Some(Place::Source(taker)) => {
                places.by_id.insert(id, Place::Active);
                Arrival::Meet(taker)
            }
            Some(other) => {
                let withdrawn = matches!(other, Place::Withdrawn);
                places.by_id.insert(id, other);
                if withdrawn { Arrival::Withdrawn } else { Arrival::Duplicate }
            }
        }
    }

    /// Handoffs that are not over.
    #[cfg(test)]
    pub(super) fn current(&self) -> usize {
        self.lock().current()
    }

    fn leave(&self, id: Uuid, withdrawn: bool) {
        let mut places = self.lock();
        match places.by_id.get_mut(&id) {
            // A destination that waited in vain leaves no trace, unless the source has just come.
            Some(Place::Destination(_)) if !withdrawn => {
                places.by_id.remove(&id);
            }
            Some(place) if withdrawn => {
                *place = if matches!(place, Place::Source(_)) { Place::Withdrawn } else { Place::Over };
                places.remember(id, self.terms.rendezvous);
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn current(&self) -> usize {
        self.by_id.len() - self.past.len()
    }

    /// Keeps the name of a past handoff for as long as its other side may come, and forgets what is older.
    fn remember(&mut self, id: Uuid, life: Duration) {
        let now = Instant::now();
        self.past.push_back((now + life, id));
        while let Some(&(until, oldest)) = self.past.front()
            && (until <= now || self.past.len() > MAX_PAST_HANDOFFS)
        {
            self.past.pop_front();
            self.by_id.remove(&oldest);
        }
    }
}

/// Keeps the place of one side.
#[derive(Debug)]
pub(super) struct Seat {
    rendezvous: Arc<Rendezvous>,
    id: Uuid,
    /// The source's.
    withdrawn: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.rendezvous.leave(self.id, self.withdrawn);
    }
}

/// A handoff whose request is here. Dropped, whoever comes for it is told that it was cancelled.
#[derive(Debug)]
#[must_use = "the destination waits"]
pub struct Expected {
    seat: Seat,
    met: oneshot::Receiver<Met>,
    identity: Identity,
}

impl Expected {
    /// Waits for the destination, and where it goes first, until it has its blocks: then the prompt may be computed.
    pub async fn meet(self) -> Result<SourceSession, HandoffError> {
        let terms = self.seat.rendezvous.terms.clone();
        let Met { mut channel, registration } = match tokio::time::timeout(terms.rendezvous, self.met).await {
            Ok(Ok(met)) => met,
            Ok(Err(_)) => return Err(HandoffError::Closed),
            Err(_) => return Err(HandoffError::Rendezvous(terms.rendezvous)),
        };
        let fits = registration.order == terms.order && registration.engine_type == terms.engine;
        if channel.identity() != self.identity || !fits {
            let say = |message| Message::ProtocolError { message };
            return Err(channel.failed(HandoffError::Mismatch, say));
        }
        SourceSession::open(channel, self.seat, &terms).await
    }
}
