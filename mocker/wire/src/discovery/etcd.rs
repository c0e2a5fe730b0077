//! Records in etcd, through its JSON gateway (`/v3`), as plain keys under one lease.
//!
//! ```text
//!   handle ── keeper: lease, own records ──► etcd
//!          ◄─ mirror: everything, followed ─
//! ```
//! The lease's id is the instance id. If the store loses the lease, the same id is granted again.

mod client;
mod keeper;
mod message;
mod mirror;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::orders::{Orders, closed};
use super::view::Views;
use super::{Backend, Bucket, DiscoveryError, Done, Key, Record, Watch};
use client::EtcdClient;
use keeper::{Command, Keeper};
use message::Fault;
use mirror::{Mirror, Scope};

/// A store that cannot be reached for that long at the start is an error.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// One handle on an etcd store.
#[derive(Debug)]
pub(crate) struct EtcdBackend {
    lease: i64,
    orders: Orders<Command>,
    scope: watch::Sender<Scope>,
    views: Arc<Views>,
    runtime: Handle,
    closed: CancellationToken,
}

impl EtcdBackend {
    /// Makes the lease; tries again for a few seconds if no endpoint answers.
    pub(crate) async fn connect(endpoints: &[String], ttl: Duration) -> Result<Self, DiscoveryError> {
        let client = Arc::new(EtcdClient::new(endpoints)?);
        let lease = first_lease(&client, ttl).await?;
        let (orders, received) = Orders::new();
        let (scope, wanted) = watch::channel(Scope::Connection);
        let (views, checked, runtime) = (Arc::new(Views::default()), Arc::new(Notify::new()), Handle::current());
        runtime.spawn(Keeper::new(Arc::clone(&client), lease, ttl).run(received, Arc::clone(&checked)));
        runtime.spawn(Mirror::new(client, Arc::clone(&views), ttl).run(wanted, checked));
        Ok(Self { lease, orders, scope, views, runtime, closed: CancellationToken::new() })
    }
}

async fn first_lease(client: &EtcdClient, ttl: Duration) -> Result<i64, Fault> {
    let deadline = Instant::now() + CONNECT_DEADLINE;
    let mut backoff = Backoff::default();
    let mut last = Fault::unreachable(client.endpoint(), "no answer in time");
    loop {
        match timeout_at(deadline, keeper::grant(client, 0, ttl)).await {
            Ok(Err(Fault::Unreachable(error))) => last = Fault::Unreachable(error),
            Ok(granted) => return granted,
            Err(_) => return Err(last),
        }
        let wait = backoff.next();
        if Instant::now() + wait >= deadline {
            return Err(last);
        }
        sleep(wait).await;
    }
}

impl Drop for EtcdBackend {
    fn drop(&mut self) {
        // The keeper revokes the lease when nobody can ask it for anything any more.
        self.closed.cancel();
    }
}

impl Backend for EtcdBackend {
    fn instance_id(&self) -> u64 {
        self.lease.unsigned_abs()
    }

    fn put<'a>(&'a self, records: &'a [(Key, &'a Record)]) -> Done<'a, ()> {
        Box::pin(async move {
            for (key, record) in records {
                let value = record.to_json()?;
                self.orders.give(|reply| Command::Put(key.clone(), value, reply)).await?;
            }
            Ok(())
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Done<'a, ()> {
        Box::pin(self.orders.give(|reply| Command::Remove(key.clone(), reply)))
    }

    fn watch(&self, bucket: Bucket, prefix: &str) -> Watch {
        self.scope.send_if_modified(|scope| std::mem::replace(scope, Scope::Records) != Scope::Records);
        self.views.watch(bucket, prefix, &self.runtime, self.closed.clone())
    }

    fn close(&self) -> Done<'_, ()> {
        Box::pin(async move {
            self.closed.cancel();
            closed(self.orders.give(Command::Close).await)
        })
    }
}
