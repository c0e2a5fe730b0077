//! Calls of the Kubernetes API.

use std::fmt::Write as _;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config};
use tokio::time::timeout;

use super::object;
use crate::discovery::DiscoveryError;

/// A server that takes longer to accept a connection is tried later.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// As above for the answer to a call.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a call failed.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It may work later: the server cannot be reached or is busy, or the kind is not known yet.
    Passing(String),
    /// This account may not; roles may still be on their way.
    Forbidden(String),
    /// The server will never take it.
    Refused(String),
    /// There is no such object (or no such kind: the server doesn't say).
    Missing(String),
    /// The object is another one.
    Conflict(String),
}

impl Fault {
    /// What the server said.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Passing(reason)
            | Self::Forbidden(reason)
            | Self::Refused(reason)
            | Self::Missing(reason)
            | Self::Conflict(reason) => reason,
        }
    }
}

impl From<&kube::Error> for Fault {
    fn from(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else { return Self::Passing(in_words(error)) };
        let said = if status.message.is_empty() { &status.reason } else { &status.message };
        let reason = format!("{} ({})", said.trim(), status.code);
        match status.code {
            403 => Self::Forbidden(reason),
            404 => Self::Missing(reason),
            409 => Self::Conflict(reason),
            400 | 405 | 406 | 413 | 415 | 422 => Self::Refused(reason),
            _ => Self::Passing(reason),
        }
    }
}

/// An error with what caused it, each thing once.
fn in_words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let word = error.to_string();
        if !words.contains(&word) {
            // Writing to a text cannot fail.
            let _ = write!(words, ": {word}");
        }
        cause = error.source();
    }
    words
}

/// The API server of a cluster.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
    url: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cluster").field(&self.url).finish()
    }
}

impl Cluster {
    /// By this file; without one by `KUBECONFIG`, `~/.kube/config`, or the pod's service account. Asks nothing yet.
    pub(super) async fn find(kubeconfig: Option<&Path>) -> Result<Self, DiscoveryError> {
        let fault = |reason| DiscoveryError::Kubernetes { server: "(unknown)".to_owned(), reason };
        let found = match kubeconfig {
            Some(file) => of_file(file).await.map_err(|error| in_words(&error)),
            None => Config::infer().await.map_err(|error| in_words(&error)),
        };
        let mut config = found.map_err(fault)?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // Who calls knows better when to try again.
        config.default_retry = false;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let client = Client::try_from(config).map_err(|error| fault(in_words(&error)))?;
        Ok(Self { client, url })
    }

    /// The objects that processes publish.
    pub(super) fn objects(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(namespace, &object::resource())
    }

    /// Slices of services.
    pub(super) fn slices(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(namespace, &ApiResource::from_gvk(&GroupVersionKind::gvk("discovery.k8s.io", "v1", "EndpointSlice")))
    }

    /// Pods.
    pub(super) fn pods(&self, namespace: &str) -> Api<DynamicObject> {
        self.api(namespace, &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod")))
    }

    fn api(&self, namespace: &str, resource: &ApiResource) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, resource)
    }

    /// As the user is told of it.
    pub(super) fn error(&self, fault: &Fault) -> DiscoveryError {
        DiscoveryError::Kubernetes { server: self.url.clone(), reason: fault.reason().to_owned() }
    }
}

async fn of_file(file: &Path) -> Result<Config, KubeconfigError> {
    Config::from_custom_kubeconfig(Kubeconfig::read_from(file)?, &KubeConfigOptions::default()).await
}

/// The answer to a call, or why there is none.
pub(super) async fn answer<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Fault> {
    match timeout(ANSWER_TIMEOUT, call).await {
        Ok(answered) => answered.map_err(|error| Fault::from(&error)),
        Err(_) => Err(Fault::Passing("no answer in time".to_owned())),
    }
}
