//! A namespace of a test's own.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt as _;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{self, Pod, ServiceAccount};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::{Client, Error, Resource, ResourceExt as _};
use serde_json::json;

use crate::{Endpoint, connect, objects, report, wait};

/// A namespace that is there while a test runs.
pub struct Namespace {
    client: Client,
    name: String,
}

/// Runs a test in a namespace of its own, which is removed afterwards. Without a cluster the test is skipped.
///
/// # Panics
/// If the test does; then what happened in the namespace is printed.
pub async fn in_namespace(test: &str, body: impl AsyncFnOnce(&Namespace)) {
    let Some(client) = connect().await else { return };
    let space = Namespace::create(client, test).await;
    let outcome = AssertUnwindSafe(body(&space)).catch_unwind().await;
    if outcome.is_err() {
        let report = space.report().await;
        std::io::stderr().write_all(report.as_bytes()).expect("standard error takes it");
    }
    if std::env::var_os("DYNOSIM_E2E_KEEP").is_none() {
        space.remove().await;
    }
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl Namespace {
    /// Its pods must keep to the restricted level of pod security.
    async fn create(client: Client, test: &str) -> Self {
        let object = json!({
            "metadata": {
                "generateName": format!("e2e-{test}-"),
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        });
        let object: v1::Namespace = serde_json::from_value(object).expect("a namespace");
        let created = Api::all(client.clone()).create(&PostParams::default(), &object).await;
        let space = Self { client, name: created.expect("namespaces can be made").name_any() };
        // Pods are refused before it is there.
        space
            .wait("the namespace has its service account", async || {
                space.api::<ServiceAccount>().get("default").await.map_err(|error| error.to_string())
            })
            .await;
        space
    }

    /// Pods are ended at once; the rest goes in the cluster's own time.
    async fn remove(&self) {
        let at_once = DeleteParams::default().grace_period(0);
        let _ = self.api::<Pod>().delete_collection(&at_once, &ListParams::default()).await;
        let namespaces: Api<v1::Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.name, &DeleteParams::default()).await.expect("namespaces can be removed");
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happened in it so far: states and logs of pods, events.
    pub async fn report(&self) -> String {
        report::namespace(self).await
    }

    /// A client of the cluster.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Objects of a kind in this namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies the documents of a text, in their order.
    ///
    /// # Panics
    /// If the server refuses one.
    pub async fn apply(&self, yaml: &str) -> Vec<DynamicObject> {
        self.try_apply(yaml).await.unwrap_or_else(|error| panic!("{error}: {yaml}"))
    }

    /// Applies the documents of a text, in their order, up to the first that the server refuses.
    pub async fn try_apply(&self, yaml: &str) -> Result<Vec<DynamicObject>, Error> {
        objects::apply(&self.client, &self.name, yaml).await
    }

    /// See [`wait`].
    pub async fn wait<T>(&self, what: &str, look: impl AsyncFnMut() -> Result<T, String>) -> T {
        wait(what, look).await
    }

    /// A port of a pod, ready or not.
    pub fn pod_port(&self, pod: &str, port: u16) -> Endpoint {
        Endpoint::new(&self.client, &self.name, "pods", pod, port)
    }

    /// A port of a service: one of its ready pods answers.
    pub fn service_port(&self, service: &str, port: u16) -> Endpoint {
        Endpoint::new(&self.client, &self.name, "services", service, port)
    }
}
