//! Graphs in their hundreds, on a node that only looks as if it ran pods (KWOK).

mod operator;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::Command;

use dynosim_peers::Process;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::core::v1::{self, Node};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

pub use operator::Reconciled;

use crate::wait;

/// Requests at the API server at once.
const AT_ONCE: usize = 16;
/// Components of each graph: a frontend and three workers.
pub const COMPONENTS: usize = 4;
/// The first one has a scaling adapter.
const WORKERS: [&str; COMPONENTS - 1] = ["w0", "w1", "w2"];
/// What the operator writes for graphs, and the graphs.
const KINDS: [(&str, &str, &str); 8] = [
    ("nvidia.com", "v1beta1", "DynamoGraphDeployment"),
    ("nvidia.com", "v1beta1", "DynamoGraphDeploymentScalingAdapter"),
    ("apps", "v1", "Deployment"),
    ("", "v1", "Service"),
    ("", "v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "v1", "Role"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
    ("", "v1", "Event"),
];

/// Many graphs in a few namespaces.
pub struct Fleet {
    client: Client,
    name: String,
    namespaces: Vec<String>,
    graphs: usize,
    _kwok: Process,
    _log: TempDir,
}

/// Runs a body with graphs on a fake node, all of which go afterwards.
///
/// # Panics
/// If the body does.
pub async fn with_fleet(client: Client, name: &str, namespaces: usize, graphs: usize, body: impl AsyncFnOnce(&Fleet)) {
    let Some(kwok) = dynosim_peers::installed("kwok") else { return };
    let log = tempfile::tempdir().expect("a folder");
    let suffix = log.path().file_name().expect("a name").to_string_lossy().replace('.', "").to_lowercase();
    let name = format!("{name}-{suffix}");
    let mut command = Command::new(kwok);
    // Without a lease the node is taken for lost from time to time.
    command.args(["--manage-all-nodes=false", "--node-lease-duration-seconds=40"]);
    command.args(["--server-address=127.0.0.1:0", "--kubeconfig"]);
    command.arg(std::env::var_os("KUBECONFIG").expect("a cluster"));
    command.arg(format!("--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node={name}"));
    let kwok = Process::start(&mut command, &log.path().join("log"));
    let namespaces = (0..namespaces).map(|number| format!("{name}-{number}")).collect();
    let fleet = Fleet { client, name, namespaces, graphs, _kwok: kwok, _log: log };
    let outcome = AssertUnwindSafe(async {
        fleet.make_room().await;
        body(&fleet).await;
    });
    let outcome = outcome.catch_unwind().await;
    fleet.remove().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl Fleet {
    async fn make_room(&self) {
        let node = json!({
            "metadata": {"name": self.name, "annotations": {"kwok.x-k8s.io/node": self.name}, "labels": {"fleet": self.name}},
            "spec": {"taints": [{"key": "fleet", "value": self.name, "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "10k", "memory": "10Ti", "pods": "100k"},
                "capacity": {"cpu": "10k", "memory": "10Ti", "pods": "100k"},
            },
        });
        let node: Node = serde_json::from_value(node).expect("a node");
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.create(&PostParams::default(), &node).await.expect("nodes can be made");
        let namespaces: Api<v1::Namespace> = Api::all(self.client.clone());
        for name in &self.namespaces {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).expect("a namespace");
            namespaces.create(&PostParams::default(), &namespace).await.expect("namespaces can be made");
        }
    }

    /// The node goes last: it ends its pods.
    async fn remove(&self) {
        let namespaces: Api<v1::Namespace> = Api::all(self.client.clone());
        for name in &self.namespaces {
            let _ = namespaces.delete(name, &DeleteParams::default()).await;
        }
        for name in &self.namespaces {
            let is_gone = async || match namespaces.get_opt(name).await {
                Ok(None) => Ok(()),
                other => Err(format!("{:?}", other.map(|found| found.and_then(|namespace| namespace.status)))),
            };
            patiently(self.graphs, "the namespace is gone", is_gone).await;
        }
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.delete(&self.name, &DeleteParams::default()).await.expect("the node can be removed");
    }

    fn api(&self, namespace: &str, (group, version, kind): (&str, &str, &str)) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    fn place(&self, number: usize) -> (&str, String) {
        (&self.namespaces[number % self.namespaces.len()], format!("g{number}"))
    }

    fn manifest(&self, name: &str) -> Value {
        let pod = |program: &str, flags: Value| {
            json!({"spec": {
                "nodeSelector": {"fleet": self.name},
                "tolerations": [{"key": "fleet", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "dynosim:latest", "command": ["python3", "-m", program], "args": flags}],
            }})
        };
        let mut components = vec![json!({
            "name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": pod("dynamo.frontend", json!([])),
        })];
        for (number, worker) in WORKERS.into_iter().enumerate() {
            let flags = json!(["--model-path", "some/model", "--model-name", format!("model-{number}")]);
            // Pods are work for Kubernetes, not for the operator: one worker of three has any.
            let replicas = u32::from(number == 0);
            components.push(json!({
                "name": worker, "type": "worker", "replicas": replicas, "podTemplate": pod("dynamo.mocker", flags),
            }));
        }
        components[1]["scalingAdapter"] = json!({});
        json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": name}, "spec": {"components": components},
        })
    }

    /// Makes all graphs.
    ///
    /// # Panics
    /// If the server refuses one.
    pub async fn apply(&self) {
        let one = async |number| {
            let (namespace, name) = self.place(number);
            let params = PatchParams::apply("dynosim-e2e").force();
            let patch = Patch::Apply(self.manifest(&name));
            self.api(namespace, KINDS[0]).patch(&name, &params, &patch).await.unwrap_or_else(|error| panic!("{error}"));
        };
        stream::iter(0..self.graphs).map(one).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// Waits until each graph says of its newest generation that it is ready.
    pub async fn ready(&self) {
        let all = async || {
            let (mut ready, mut said) = (0, Value::Null);
            for namespace in &self.namespaces {
                for graph in list(&self.api(namespace, KINDS[0])).await? {
                    let status = &graph.data["status"];
                    let is_current = status["observedGeneration"].as_i64() == graph.metadata.generation;
                    let conditions = status["conditions"].as_array().into_iter().flatten();
                    let is = conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
                    if is_current && is { ready += 1 } else { said = status["conditions"].clone() }
                }
            }
            if ready == self.graphs { Ok(()) } else { Err(format!("{ready} of {}, another says {said}", self.graphs)) }
        };
        patiently(self.graphs, "all graphs are ready", all).await;
    }

    /// Versions of all graphs and of what the operator has made for them, events included.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for namespace in &self.namespaces {
            for kind in KINDS {
                for object in list(&self.api(namespace, kind)).await.expect("a list") {
                    // Events of Kubernetes' own controllers are none of the operator's.
                    let by = [&object.data["source"]["component"], &object.data["reportingComponent"]];
                    if kind.2 == "Event" && !by.iter().any(|by| by.as_str().is_some_and(|by| by.contains("dynosim"))) {
                        continue;
                    }
                    let name = format!("{}/{} {}/{}", kind.0, kind.2, namespace, object.name_any());
                    versions.insert(name, object.resource_version().unwrap_or_default());
                }
            }
        }
        versions
    }

    /// Gives a worker of a graph another number of replicas, by its adapter or in the graph.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn scale(&self, number: usize, replicas: u32) {
        let (namespace, name) = self.place(number);
        let params = PatchParams::default();
        let done = if number.is_multiple_of(2) {
            let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
            self.api(namespace, KINDS[1]).patch_scale(&format!("{name}-w0"), &params, &patch).await.map(drop)
        } else {
            let patch = json!([{"op": "add", "path": "/spec/components/2/replicas", "value": replicas}]);
            let patch = Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"));
            self.api(namespace, KINDS[0]).patch(&name, &params, &patch).await.map(drop)
        };
        done.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Gives the last worker of a graph a scaling adapter: a change that needs no pod.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn add_adapter(&self, number: usize) {
        let (namespace, name) = self.place(number);
        let patch = json!([{"op": "add", "path": "/spec/components/3/scalingAdapter", "value": {}}]);
        let patch = Patch::Json::<()>(serde_json::from_value(patch).expect("a patch"));
        let done = self.api(namespace, KINDS[0]).patch(&name, &PatchParams::default(), &patch).await;
        done.unwrap_or_else(|error| panic!("{error}"));
    }
}

async fn list(api: &Api<DynamicObject>) -> Result<Vec<DynamicObject>, String> {
    Ok(api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items)
}

/// Waits longer for more graphs.
async fn patiently<T>(graphs: usize, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    for _ in 0..graphs / 100 {
        let within = async {
            loop {
                if let Ok(answer) = look().await {
                    return answer;
                }
                // Reading a thousand graphs is work for the API server as well.
                tokio::time::sleep(std::time::Duration::from_secs(1 + graphs as u64 / 100)).await;
            }
        };
        if let Ok(answer) = tokio::time::timeout(crate::LIMIT, within).await {
            return answer;
        }
    }
    wait(what, look).await
}
