//! Connections to workers, a few per address.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use rustc_hash::FxHashMap;

use crate::limits::CONNECTIONS_PER_WORKER;
use crate::request::client::connection::Connection;
use crate::response::Hub;

/// A connection that stands, or is being dialled; all who want it wait for the same dialling.
type Dialling = Shared<BoxFuture<'static, Result<Arc<Connection>, Arc<str>>>>;

/// The connections to one address.
#[derive(Debug, Default)]
struct Worker {
    slots: Mutex<[Option<Dialling>; CONNECTIONS_PER_WORKER]>,
    turn: AtomicUsize,
}

/// Connections by address.
#[derive(Debug)]
pub(crate) struct Pool {
    hub: Hub,
    workers: Mutex<FxHashMap<Box<str>, Arc<Worker>>>,
}

impl Pool {
    pub(crate) fn new(hub: Hub) -> Self {
        Self { hub, workers: Mutex::default() }
    }

    /// A connection to `address` (`host:port`), dialled if need be.
    pub(crate) async fn connection(&self, address: &str) -> Result<Arc<Connection>, Arc<str>> {
        self.worker(address).slot(address, &self.hub).await
    }

    fn worker(&self, address: &str) -> Arc<Worker> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(worker) = workers.get(address) {
            return Arc::clone(worker);
        }
        // Workers come and go, each with an address of its own.
        workers.retain(|_, worker| worker.is_used());
        Arc::clone(workers.entry(address.into()).or_default())
    }
}

impl Worker {
    fn slot(&self, address: &str, hub: &Hub) -> Dialling {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % CONNECTIONS_PER_WORKER;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &mut slots[turn];
        match slot {
            Some(dialling) if is_usable(dialling) => dialling.clone(),
            _ => slot.insert(dial(address.to_owned(), hub.clone())).clone(),
        }
    }

    fn is_used(&self) -> bool {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).iter().flatten().any(is_usable)
    }
}

fn is_usable(dialling: &Dialling) -> bool {
    match dialling.peek() {
        None => true,
        Some(Ok(connection)) => !connection.is_broken(),
        Some(Err(_)) => false,
    }
}

fn dial(address: String, hub: Hub) -> Dialling {
    async move { Connection::dial(&address, hub).await.map_err(Arc::from) }.boxed().shared()
}
