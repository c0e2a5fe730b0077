//! The operator on the cluster, and graphs that it looks after.

use std::process::Command;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{Endpoint, Namespace, image};

/// Label of all that belongs to a graph.
const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";
const COMPONENT: &str = "nvidia.com/dynamo-component";
/// Of the operator's release.
pub const SYSTEM: &str = "dynosim-system";

/// Installs the operator with Helm, from the chart of this checkout, once for all tests of a program.
///
/// # Panics
/// If it is not ready in time.
pub async fn installed() {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let install = async || {
        let installed = tokio::task::spawn_blocking(|| helm().output().expect("helm starts")).await.expect("no panic");
        let said = String::from_utf8_lossy(&installed.stderr).into_owned();
        assert!(installed.status.success(), "{said}{}", String::from_utf8_lossy(&installed.stdout));
    };
    INSTALLED.get_or_init(install).await;
}

fn helm() -> Command {
    let image = image();
    let (repository, tag) = image.rsplit_once(':').expect("an image with a tag");
    let mut command = Command::new("helm");
    command.args(["upgrade", "--install", "dynosim", concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/dynosim")]);
    command.args(["--namespace", SYSTEM, "--create-namespace", "--wait", "--timeout", "5m", "--set-string"]);
    command.arg(format!(
        "controllerManager.manager.image.repository={repository},controllerManager.manager.image.tag={tag},\
         controllerManager.podAnnotations.tests=p{}",
        std::process::id()
    ));
    command
}

/// A graph of a namespace.
pub struct Graph<'a> {
    space: &'a Namespace,
    name: String,
}

/// Kinds of a group and version with their resources.
fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

impl<'a> Graph<'a> {
    /// One of this name.
    pub fn new(space: &'a Namespace, name: &str) -> Self {
        Self { space, name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Graphs.
    pub fn api(&self) -> Api<DynamicObject> {
        self.of("DynamoGraphDeployment")
    }

    /// Scaling adapters.
    pub fn adapters(&self) -> Api<DynamicObject> {
        self.of("DynamoGraphDeploymentScalingAdapter")
    }

    fn of(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.space.client(), self.space.name(), &resource("nvidia.com", "v1beta1", kind))
    }

    /// Changes it by a JSON patch.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn patch(&self, patch: Value) {
        let patch = Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"));
        self.api().patch(&self.name, &PatchParams::default(), &patch).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sets the replicas of a component's adapter.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn scale(&self, component: &str, replicas: u32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let name = format!("{}-{component}", self.name);
        let scaled = self.adapters().patch_scale(&name, &PatchParams::default(), &patch).await;
        scaled.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Its status, once it says of its newest generation that it is ready, or that it is not.
    pub async fn condition(&self, status: &str, is: impl Fn(&str) -> bool) -> Value {
        self.space
            .wait(&format!("graph {} has Ready {status}", self.name), async || {
                let graph = self.api().get(&self.name).await.map_err(|error| error.to_string())?;
                let now = &graph.data["status"];
                let conditions = now["conditions"].as_array().cloned().unwrap_or_default();
                let ready =
                    conditions.iter().find(|condition| condition["type"] == "Ready").cloned().unwrap_or_default();
                let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
                let said = format!("{}: {}", text("reason"), text("message"));
                let is_current = now["observedGeneration"].as_i64() == graph.metadata.generation;
                if is_current && ready["status"] == status && is(&said) { Ok(now.clone()) } else { Err(said) }
            })
            .await
    }

    /// Its status, once it is ready.
    pub async fn ready(&self) -> Value {
        self.condition("True", |_| true).await
    }

    /// HTTP of its frontend.
    pub fn frontend(&self) -> Endpoint {
        self.space.service_port(&format!("{}-frontend", self.name), 8000)
    }

    /// Running pods of a component that are not to go.
    pub async fn pods(&self, component: &str) -> Vec<Pod> {
        let selector = format!("{GRAPH}={},{COMPONENT}={component}", self.name);
        let list = self.space.api::<Pod>().list(&ListParams::default().labels(&selector)).await.expect("a list");
        list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// The only pod of a component.
    ///
    /// # Panics
    /// If it has another number.
    pub async fn pod(&self, component: &str) -> Pod {
        let mut pods = self.pods(component).await;
        assert_eq!(pods.len(), 1, "{component}: {:?}", pods.iter().map(ResourceExt::name_any).collect::<Vec<_>>());
        pods.remove(0)
    }

    /// The value of a metric of a pod's system port; all series of it together.
    pub async fn metric(&self, pod: &Pod, name: &str) -> f64 {
        let text = self.space.pod_port(&pod.name_any(), 9090).get("/metrics").await.expect("metrics").body;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            (rest.starts_with('{') || rest.starts_with(' ')).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
        });
        values.sum()
    }

    /// Removes it as a user does.
    ///
    /// # Panics
    /// If it is not there.
    pub async fn delete(&self, params: &DeleteParams) {
        self.api().delete(&self.name, params).await.expect("it can be deleted");
    }

    /// What of it is there: kinds and names.
    pub async fn children(&self) -> Vec<String> {
        let mut found = Vec::new();
        let kinds = [
            ("", "v1", "Service"),
            ("", "v1", "ServiceAccount"),
            ("", "v1", "Pod"),
            ("apps", "v1", "Deployment"),
            ("apps", "v1", "ReplicaSet"),
            ("rbac.authorization.k8s.io", "v1", "Role"),
            ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
            ("discovery.k8s.io", "v1", "EndpointSlice"),
            ("nvidia.com", "v1alpha1", "DynamoWorkerMetadata"),
            ("nvidia.com", "v1beta1", "DynamoGraphDeploymentScalingAdapter"),
        ];
        for (group, version, kind) in kinds {
            let mut resource = resource(group, version, kind);
            if kind == "DynamoWorkerMetadata" {
                "dynamoworkermetadatas".clone_into(&mut resource.plural);
            }
            let api: Api<DynamicObject> = Api::namespaced_with(self.space.client(), self.space.name(), &resource);
            for object in api.list(&ListParams::default()).await.expect("a list").items {
                let name = object.name_any();
                if name.starts_with(&format!("{}-", self.name)) {
                    found.push(format!("{kind}/{name}"));
                }
            }
        }
        found
    }

    /// Replicas of its Deployments by name.
    pub async fn deployments(&self) -> Vec<(String, i32)> {
        let selector = format!("{GRAPH}={}", self.name);
        let list = self.space.api::<Deployment>().list(&ListParams::default().labels(&selector)).await.expect("a list");
        let one = |deployment: Deployment| {
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            (deployment.name_any(), replicas)
        };
        list.items.into_iter().map(one).collect()
    }
}
