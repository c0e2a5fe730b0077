//! The task of one handle that writes: its lease and its records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use super::client::EtcdClient;
use super::message::{Done, Fault, Lease, Streamed, base64};
use crate::discovery::backoff::Backoff;
use crate::discovery::orders::Reply;
use crate::discovery::{DiscoveryError, Key};

/// A record that could not be written for that long is an error.
const WRITE_DEADLINE: Duration = Duration::from_secs(5);
/// Closing waits that long for the store; after that the lease ends by itself.
const CLOSE_DEADLINE: Duration = Duration::from_secs(3);

/// What the task is asked for.
#[derive(Debug)]
pub(super) enum Command {
    Put(Key, Vec<u8>, Reply),
    Remove(Key, Reply),
    /// Revoke the lease, with all records, and end.
    Close(Reply),
}

/// Makes a lease; with an `id` above 0, that one.
pub(super) async fn grant(client: &EtcdClient, id: i64, ttl: Duration) -> Result<i64, Fault> {
    let seconds = ttl.as_millis().div_ceil(1000).max(1);
    let body = json!({"TTL": seconds.to_string(), "ID": id.to_string()});
    match client.call::<Lease>("/v3/lease/grant", &body).await {
        Ok(lease) if lease.id > 0 => Ok(lease.id),
        Ok(lease) => Err(Fault::unreachable(client.endpoint(), format!("granted the lease {}", lease.id))),
        Err(fault) if id > 0 && fault.is_there_already() => Ok(id),
        Err(fault) => Err(fault),
    }
}

#[derive(Debug)]
pub(super) struct Keeper {
    client: Arc<EtcdClient>,
    lease: i64,
    ttl: Duration,
    own: BTreeMap<Key, Vec<u8>>,
    /// Removed, but the store has not heard of it.
    unwanted: BTreeSet<Key>,
    backoff: Backoff,
    next_renewal: Instant,
}

impl Keeper {
    pub(super) fn new(client: Arc<EtcdClient>, lease: i64, ttl: Duration) -> Self {
        let next_renewal = Instant::now() + ttl / 3;
        let (own, unwanted, backoff) = (BTreeMap::new(), BTreeSet::new(), Backoff::default());
        Self { client, lease, ttl, own, unwanted, backoff, next_renewal }
    }

    /// Ends when closed or when the handle was dropped; the lease is revoked then. `checked` asks for a renewal at once:
    /// the connection to the store was lost or made.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, checked: Arc<Notify>) {
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(Command::Put(key, value, reply)) => self.put(key, value, reply).await,
                    Some(Command::Remove(key, reply)) => self.remove(key, reply).await,
                    Some(Command::Close(reply)) => {
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(self.revoke().await);
                        return;
                    }
                    None => {
                        if let Err(error) = self.revoke().await {
                            tracing::debug!(%error, "the lease of a dropped handle ends by itself");
                        }
                        return;
                    }
                },
                () = sleep_until(self.next_renewal) => self.renew().await,
                () = checked.notified() => self.renew().await,
            }
        }
    }

    async fn renew(&mut self) {
        match self.revive().await {
            Ok(()) => {
                if self.backoff.end() {
                    tracing::info!(endpoint = self.client.endpoint(), "etcd is there again");
                }
                self.next_renewal = Instant::now() + self.ttl / 3;
            }
            Err(fault) => {
                let error = DiscoveryError::from(fault);
                if self.backoff.is_first() {
                    tracing::warn!(%error, "cannot keep the etcd lease alive; trying again");
                }
                self.next_renewal = Instant::now() + self.backoff.next();
            }
        }
    }

    /// Keeps the lease alive; if it has gone, makes it again with all that was under it.
    async fn revive(&mut self) -> Result<(), Fault> {
        let body = json!({"ID": self.lease.to_string()});
        let kept: Streamed<Lease> = self.client.call("/v3/lease/keepalive", &body).await?;
        if kept.result.ttl <= 0 {
            tracing::warn!(lease = self.lease, records = self.own.len(), "etcd lost the lease; making it again");
            grant(&self.client, self.lease, self.ttl).await?;
            for (key, value) in &self.own {
                self.write(key, value).await?;
            }
        }
        while let Some(key) = self.unwanted.first() {
            self.delete(key).await?;
            self.unwanted.pop_first();
        }
        Ok(())
    }

    async fn write(&self, key: &Key, value: &[u8]) -> Result<(), Fault> {
        let (key, value) = (base64(key.to_string()), base64(value));
        let body = json!({"key": key, "value": value, "lease": self.lease.to_string()});
        self.client.call::<Done>("/v3/kv/put", &body).await.map(drop)
    }

    async fn delete(&self, key: &Key) -> Result<(), Fault> {
        let body = json!({"key": base64(key.to_string())});
        self.client.call::<Done>("/v3/kv/deleterange", &body).await.map(drop)
    }

    async fn put(&mut self, key: Key, value: Vec<u8>, reply: Reply) {
        self.unwanted.remove(&key);
        let written = self.write_until(&key, &value, Instant::now() + WRITE_DEADLINE).await;
        if written.is_ok() {
            self.own.insert(key, value);
        }
        // Whoever asked may have stopped waiting; the record is ours all the same.
        let _ = reply.send(written.map_err(DiscoveryError::from));
    }

    /// Tries again while the store cannot be reached.
    async fn write_until(&mut self, key: &Key, value: &[u8], deadline: Instant) -> Result<(), Fault> {
        let mut backoff = Backoff::default();
        loop {
            let fault = match self.write(key, value).await {
                Ok(()) => return Ok(()),
                Err(fault) if fault.is_not_found() => match self.revive().await {
                    Ok(()) => continue,
                    Err(fault) => fault,
                },
                Err(fault) => fault,
            };
            let again = Instant::now() + backoff.next();
            if again > deadline || matches!(fault, Fault::Refused { .. }) {
                return Err(fault);
            }
            sleep_until(again).await;
        }
    }

    async fn remove(&mut self, key: Key, reply: Reply) {
        let removed = match self.own.remove(&key) {
            Some(_) => self.delete(&key).await,
            None => Ok(()),
        };
        if removed.is_err() {
            self.unwanted.insert(key);
        }
        let _ = reply.send(removed.map_err(DiscoveryError::from));
    }

    /// Takes all records with it.
    async fn revoke(&self) -> Result<(), DiscoveryError> {
        let body = json!({"ID": self.lease.to_string()});
        let revoked = timeout(CLOSE_DEADLINE, self.client.call::<Done>("/v3/lease/revoke", &body)).await;
        match revoked.unwrap_or_else(|_| Err(Fault::unreachable(self.client.endpoint(), "no answer in time"))) {
            Err(fault) if !fault.is_not_found() => Err(fault.into()),
            _ => Ok(()),
        }
    }
}
