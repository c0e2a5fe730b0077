//! Graphs in their hundreds, on a node that only looks as if it ran pods (KWOK).

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::Command;

use futures_util::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{self, Node, Pod};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use dynosim_peers::Process;
use tempfile::TempDir;

use crate::operator::SYSTEM;
use crate::{Endpoint, wait};

/// Requests at the API server at once.
const AT_ONCE: usize = 16;
/// Components of each graph: a frontend and three workers.
pub const COMPONENTS: usize = 4;
/// Adapters are on the first worker only.
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

/// How far reconciliations of the operator are, from its metrics.
#[derive(Clone, Debug, Default)]
pub struct Reconciled {
    /// Number of them.
    pub count: f64,
    /// Seconds that they took together.
    pub seconds: f64,
    /// Failed ones.
    pub failed: f64,
    /// How many took at most so many seconds.
    buckets: BTreeMap<String, f64>,
}

impl Reconciled {
    /// What came after an earlier state.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let bucket = |(le, count): (&String, &f64)| (le.clone(), count - before.buckets.get(le).unwrap_or(&0.0));
        Self {
            count: self.count - before.count,
            seconds: self.seconds - before.seconds,
            failed: self.failed - before.failed,
            buckets: self.buckets.iter().map(bucket).collect(),
        }
    }

    /// Seconds within which a share of them ended: the end of the bucket.
    pub fn within(&self, share: f64) -> f64 {
        let bounds = self.buckets.iter().filter(|(_, count)| **count >= share * self.count);
        bounds.filter_map(|(le, _)| le.parse().ok()).fold(f64::INFINITY, f64::min)
    }
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
    command.args(["--manage-all-nodes=false", "--server-address=127.0.0.1:0", "--kubeconfig"]);
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
            components.push(json!({
                "name": worker, "type": "worker", "replicas": 1, "podTemplate": pod("dynamo.mocker", flags),
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

    /// The operator's only pod that is not to go.
    pub async fn operator(&self) -> Pod {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        wait("one operator is ready", async || {
            let selector = ListParams::default().labels("app.kubernetes.io/instance=dynosim");
            let mut pods = pods.list(&selector).await.map_err(|error| error.to_string())?.items;
            pods.retain(|pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running"));
            let [pod] = pods.as_slice() else { return Err(format!("{} pods", pods.len())) };
            let is_ready = crate::pods::condition(pod, "Ready") && pod.metadata.deletion_timestamp.is_none();
            if is_ready { Ok(pod.clone()) } else { Err(crate::report::pod(pod)) }
        })
        .await
    }

    /// Starts another operator in place of the one that runs, and waits until it has looked at all graphs.
    ///
    /// # Panics
    /// If there is none.
    pub async fn restart_operator(&self) {
        let before = self.operator().await.metadata.uid;
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SYSTEM);
        let name = deployments.list(&ListParams::default()).await.expect("a list").items[0].name_any();
        let template = json!({"metadata": {"annotations": {"restarted-for": self.name}}});
        let patch = Patch::Merge(json!({"spec": {"template": template}}));
        deployments.patch(&name, &PatchParams::default(), &patch).await.expect("it can be restarted");
        patiently(self.graphs, "another operator has looked at all graphs", async || {
            if self.operator().await.metadata.uid == before {
                return Err("it is the same".to_owned());
            }
            let seen = self.reconciled().await?.count;
            if seen >= self.graphs as f64 { Ok(()) } else { Err(format!("{seen} of {}", self.graphs)) }
        })
        .await;
    }

    /// Reconciliations of graphs of this fleet by the operator that runs now.
    pub async fn reconciled(&self) -> Result<Reconciled, String> {
        let pod = self.operator().await.name_any();
        let text = Endpoint::new(&self.client, SYSTEM, "pods", &pod, 8080).get("/metrics").await?.body;
        let mut sum = Reconciled::default();
        for line in text.lines() {
            let Some((name, rest)) = line.strip_prefix("dynamo_operator_reconcile_").and_then(|it| it.split_once('{'))
            else {
                continue;
            };
            let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
            if !labels.contains(&format!("namespace=\"{}-", self.name)) {
                continue;
            }
            let value: f64 = value.parse().map_err(|_| format!("no number: {line}"))?;
            match name {
                "duration_seconds_count" => sum.count += value,
                "duration_seconds_sum" => sum.seconds += value,
                "errors_total" => sum.failed += value,
                "duration_seconds_bucket" => {
                    let le = labels.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
                    *sum.buckets.entry(le.to_owned()).or_default() += value;
                }
                _ => {}
            }
        }
        Ok(sum)
    }

    /// Bytes that the operator's container has in memory, by its node.
    pub async fn memory(&self) -> Result<u64, String> {
        let pod = self.operator().await;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let request = http::Request::get(format!("/api/v1/nodes/{node}/proxy/stats/summary"));
        let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
        let summary: Value = self.client.request(request).await.map_err(|error| error.to_string())?;
        let pods = summary["pods"].as_array().into_iter().flatten();
        let own = pods.into_iter().find(|it| it["podRef"]["uid"].as_str() == pod.metadata.uid.as_deref());
        let memory = own.map(|it| &it["containers"][0]["memory"]).ok_or("the node does not know it")?;
        memory["rssBytes"].as_u64().ok_or_else(|| format!("no figure: {memory}"))
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
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        };
        if let Ok(answer) = tokio::time::timeout(crate::LIMIT, within).await {
            return answer;
        }
    }
    wait(what, look).await
}
