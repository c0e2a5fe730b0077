//! Records in a Kubernetes cluster: an object per pod, believed while the pod is ready.
//!
//! ```text
//!   handle ── keeper: own object, whole at every write ──────────► API server
//!          ◄─ mirror: ready pods ⋈ objects of this namespace ────
//! ```
//! Nothing is kept alive here: readiness is the kubelet's word, and an object goes with the pod that owns it. The instance
//! id follows from the object's name, so a process has one identity however often it restarts.

mod cluster;
mod follow;
mod identity;
mod join;
mod keeper;
mod mirror;
mod object;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

pub use identity::{NameError, PodIdentity, PodUnit, check_name};

use super::orders::{Orders, closed};
use super::view::Views;
use super::{Backend, Bucket, DiscoveryError, Done, Key, Record, Watch};
use cluster::Cluster;
use keeper::{Command, Keeper};
use mirror::Mirror;

/// One handle on a cluster.
#[derive(Debug)]
pub(crate) struct KubernetesBackend {
    cluster: Cluster,
    pod: PodIdentity,
    orders: Orders<Command>,
    /// Somebody watches, so everything is read.
    reads: AtomicBool,
    views: Arc<Views>,
    runtime: Handle,
    closed: CancellationToken,
}

impl KubernetesBackend {
    /// Finds out how to reach the API server; whether it is there shows later.
    pub(crate) async fn find(pod: &PodIdentity, kubeconfig: Option<&Path>) -> Result<Self, DiscoveryError> {
        let cluster = Cluster::find(kubeconfig).await?;
        let (orders, received) = Orders::new();
        let runtime = Handle::current();
        runtime.spawn(Keeper::new(cluster.clone(), pod.clone()).run(received));
        Ok(Self {
            cluster,
            pod: pod.clone(),
            orders,
            reads: AtomicBool::new(false),
            views: Arc::new(Views::default()),
            runtime,
            closed: CancellationToken::new(),
        })
    }
}

impl Drop for KubernetesBackend {
    fn drop(&mut self) {
        // The keeper removes the object when nobody can ask it for anything any more.
        self.closed.cancel();
    }
}

impl Backend for KubernetesBackend {
    fn instance_id(&self) -> u64 {
        self.pod.instance_id()
    }

    fn put<'a>(&'a self, records: &'a [(Key, &'a Record)]) -> Done<'a, ()> {
        Box::pin(async move {
            let values = records.iter().map(|(key, record)| Ok((key.clone(), record.to_value()?)));
            let values = values.collect::<Result<Vec<_>, DiscoveryError>>()?;
            self.orders.give(|reply| Command::Put(values, reply)).await
        })
    }

    fn remove<'a>(&'a self, key: &'a Key) -> Done<'a, ()> {
        Box::pin(self.orders.give(|reply| Command::Remove(key.clone(), reply)))
    }

    fn watch(&self, bucket: Bucket, prefix: &str) -> Watch {
        if !self.reads.swap(true, Ordering::Relaxed) {
            let mirror = Mirror::new(&self.cluster, &self.pod, Arc::clone(&self.views));
            let closed = self.closed.clone();
            self.runtime.spawn(async move { closed.run_until_cancelled(mirror.run()).await });
        }
        self.views.watch(bucket, prefix, &self.runtime, self.closed.clone())
    }

    fn close(&self) -> Done<'_, ()> {
        Box::pin(async move {
            self.closed.cancel();
            closed(self.orders.give(Command::Close).await)
        })
    }
}
