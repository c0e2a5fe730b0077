//! A namespace on a real API server with an operator of its own, and something that does what controllers and kubelets do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dynosim_api::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter, DynamoGraphDeploymentStatus};
use dynosim_peers::{ApiServer, Process, free_port};
use futures_util::{FutureExt as _, StreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use dynosim_operator::kinds::OWNED;

/// Longer than anything takes on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(50);
/// Pods with this image never become ready.
pub(crate) const BROKEN: &str = "broken";

/// An API server.
#[derive(Clone)]
pub(crate) enum Server {
    /// Of all tests.
    Shared(&'static ApiServer),
    /// Of one test.
    Own(Arc<ApiServer>),
}

impl std::ops::Deref for Server {
    type Target = ApiServer;

    fn deref(&self) -> &ApiServer {
        match self {
            Self::Shared(server) => server,
            Self::Own(server) => server,
        }
    }
}

/// A namespace with an operator.
pub(crate) struct Space {
    server: Server,
    client: Client,
    name: String,
    operator: Option<Process>,
    nodes: AbortHandle,
    starts: u32,
}

/// Runs a test in a namespace of its own; none without an API server.
pub(crate) async fn in_space(name: &str, body: impl AsyncFnOnce(&mut Space)) {
    let Some(server) = crate::server::server() else { return };
    let mut space = Space::of(Server::Shared(server), name).await;
    space.start();
    let outcome = std::panic::AssertUnwindSafe(body(&mut space)).catch_unwind().await;
    let said = space.log();
    drop(space);
    if let Err(panic) = outcome {
        use std::io::Write as _;
        writeln!(std::io::stderr(), "the operator has said:\n{said}").expect("standard error");
        std::panic::resume_unwind(panic);
    }
}

/// A client by a kubeconfig.
pub(crate) async fn client_by(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.expect("a config");
    Client::try_from(config).expect("a client")
}

/// What a Deployment's controller and the kubelets would write: all replicas at once, ready unless they are broken.
async fn run_pods(api: Api<Deployment>) {
    let mut events = watcher(api.clone(), watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        let Ok(Event::Apply(deployment) | Event::InitApply(deployment)) = event else { continue };
        let spec = deployment.spec.clone().unwrap_or_default();
        let image = spec.template.spec.iter().flat_map(|pod| &pod.containers).filter_map(|main| main.image.as_deref());
        let is_broken = image.into_iter().any(|image| image.contains(BROKEN));
        let replicas = spec.replicas.unwrap_or(1);
        let available = if is_broken { 0 } else { replicas };
        let status = json!({"status": {
            "observedGeneration": deployment.metadata.generation, "replicas": replicas, "updatedReplicas": replicas,
            "readyReplicas": available, "availableReplicas": available, "unavailableReplicas": replicas - available,
        }});
        let name = deployment.metadata.name.unwrap_or_default();
        let _ = api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.nodes.abort();
    }
}

impl Space {
    /// A new namespace, without an operator yet.
    pub(crate) async fn of(server: Server, name: &str) -> Self {
        let client = client_by(&server.kubeconfig()).await;
        server.kubectl(&["create", "namespace", name]);
        let nodes = tokio::spawn(run_pods(Api::namespaced(client.clone(), name))).abort_handle();
        Self { server, client, name: name.to_owned(), operator: None, nodes, starts: 0 }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A client of an administrator.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The same namespace for another operator.
    pub(crate) fn sibling(&self) -> Self {
        let Self { server, client, name, starts, .. } = self;
        let nodes = tokio::spawn(run_pods(Api::namespaced(client.clone(), name))).abort_handle();
        let (server, client, name) = (server.clone(), client.clone(), name.clone());
        Self { server, client, name, operator: None, nodes, starts: starts + 100 }
    }

    /// Where it is.
    pub(crate) fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The command that starts the operator.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim-operator"));
        command.env("KUBECONFIG", self.server.kubeconfig()).env("RUST_LOG", "info,dynosim_operator=debug");
        command.args(["--namespace", &self.name, "--own-namespace", &self.name, "--webhooks=false"]);
        command.args(["--namespace-lease-duration=2", "--namespace-lease-renew-interval=1"]);
        for flag in ["--health-addr", "--metrics-addr"] {
            command.arg(format!("{flag}=127.0.0.1:{}", free_port()));
        }
        command
    }

    /// Starts the operator.
    pub(crate) fn start(&mut self) {
        let command = self.command();
        self.start_with(command);
    }

    /// Starts another operator.
    pub(crate) fn start_with(&mut self, mut command: Command) {
        self.starts += 1;
        let log = format!("operator-{}-{}.log", self.name, self.starts);
        self.operator = Some(Process::start(&mut command, &PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(log)));
    }

    /// Asks the operator to end.
    pub(crate) fn stop(&mut self) {
        let status = self.operator.take().expect("it runs").terminate();
        assert!(status.success(), "{status}");
    }

    /// Ends the operator as a crash would.
    pub(crate) fn kill(&mut self) {
        self.operator.take().expect("it runs").kill();
    }

    /// The operator ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.operator.as_mut().is_none_or(Process::has_ended)
    }

    /// There is a graph of this name.
    pub(crate) async fn graph_is_there(&self, name: &str) -> bool {
        self.api::<DynamoGraphDeployment>().get_opt(name).await.expect("an answer").is_some()
    }

    /// What the operator has said.
    pub(crate) fn log(&self) -> String {
        self.operator.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Objects of a kind.
    pub(crate) fn api<K: Resource<Scope = NamespaceResourceScope>>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies a graph as a user does.
    pub(crate) async fn apply(&self, graph: Value) {
        let name = graph["metadata"]["name"].as_str().expect("a name").to_owned();
        let params = PatchParams::apply("user").force();
        let resource = dynosim_operator::cluster::api::graphs();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.name, &resource);
        api.patch(&name, &params, &Patch::Apply(graph)).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits for something to be as it should; an error says what it is instead.
    pub(crate) async fn wait<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
        let start = tokio::time::Instant::now();
        loop {
            match look().await {
                Ok(found) => return found,
                Err(why) if start.elapsed() > LIMIT => panic!("{what}: not in time: {why}"),
                Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// The graph once it says of its newest generation that it is ready.
    pub(crate) async fn ready(&self, name: &str) -> DynamoGraphDeployment {
        self.condition(name, "True", |_| true).await;
        self.api().get(name).await.expect("it is there")
    }

    /// The graph's status once its condition about its newest generation is as asked.
    pub(crate) async fn condition(
        &self,
        name: &str,
        status: &str,
        mut is: impl FnMut(&str) -> bool,
    ) -> DynamoGraphDeploymentStatus {
        let resource = dynosim_operator::cluster::api::graphs();
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.name, &resource);
        self.wait(&format!("graph {name} has Ready {status}"), async || {
            let graph = api.get(name).await.map_err(|error| error.to_string())?;
            let read = serde_json::from_value(graph.data["status"].clone());
            let now: DynamoGraphDeploymentStatus = read.map_err(|error| error.to_string())?;
            let is_current = now.observed_generation == graph.metadata.generation;
            let found = now.conditions.iter().find(|condition| condition.type_ == "Ready");
            let text = found.map(|found| format!("{}: {}", found.reason, found.message)).unwrap_or_default();
            let fits = found.is_some_and(|found| found.status == status) && is(&text);
            if is_current && fits { Ok(now) } else { Err(format!("{text} (current: {is_current})")) }
        })
        .await
    }

    /// Replicas of all Deployments by name.
    pub(crate) async fn replicas(&self) -> BTreeMap<String, i32> {
        let list = self.api::<Deployment>().list(&ListParams::default()).await.expect("a list");
        let one = |deployment: Deployment| {
            (deployment.metadata.name.unwrap_or_default(), deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1))
        };
        list.items.into_iter().map(one).collect()
    }

    /// Sets the replicas of a scaling adapter through its scale subresource, as autoscalers and planners do.
    pub(crate) async fn scale(&self, adapter: &str, replicas: i32) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let api = self.api::<DynamoGraphDeploymentScalingAdapter>();
        api.patch_scale(adapter, &PatchParams::default(), &patch).await.expect("scaled");
    }

    /// Every object that graphs own, and the graphs, with what it says: equal states are equal values.
    pub(crate) async fn state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        let graphs = dynosim_operator::cluster::api::graphs();
        let kinds: Vec<ApiResource> = OWNED.iter().map(dynosim_operator::kinds::OwnedKind::resource).collect();
        for resource in kinds.iter().chain([&graphs]).filter(|resource| resource.kind != "PodMonitor") {
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.name, resource);
            for object in api.list(&ListParams::default()).await.expect("a list").items {
                let key = format!("{}/{}", resource.kind, object.metadata.name.unwrap_or_default());
                state.insert(key, object.metadata.resource_version.unwrap_or_default());
            }
        }
        state
    }

    /// Waits until nothing changes any more.
    pub(crate) async fn settled(&self) -> BTreeMap<String, String> {
        let mut last = self.state().await;
        self.wait("nothing changes", async || {
            sleep(Duration::from_millis(700)).await;
            let now = self.state().await;
            if now == last { Ok(now) } else { Err(format!("{:?}", std::mem::replace(&mut last, now))) }
        })
        .await
    }
}

/// A graph of a frontend and these worker components.
pub(crate) fn graph(name: &str, workers: &[(&str, Value)]) -> Value {
    let mut components = vec![json!({
        "name": "Frontend", "type": "frontend", "replicas": 1,
        "podTemplate": {"spec": {"containers": [{"name": "main", "image": "any:1"}]}},
    })];
    for (worker, more) in workers {
        let mut component = json!({
            "name": worker, "type": worker, "replicas": 1,
            "podTemplate": {"spec": {"containers": [{
                "name": "main", "image": "any:1", "command": ["python3", "-m", "dynamo.mocker"],
                "args": ["--model-path", "m", "--disaggregation-mode", worker],
            }]}},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            component[field] = value.clone();
        }
        if component["replicas"].is_null() {
            component.as_object_mut().expect("fields").remove("replicas");
        }
        components.push(component);
    }
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
        "metadata": {"name": name}, "spec": {"components": components},
    })
}
