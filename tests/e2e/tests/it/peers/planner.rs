//! The published planner's Kubernetes connector, with the rights that the operator gives planners.

use std::path::PathBuf;
use std::process::Command;

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Namespace, in_namespace};
use dynosim_peers::{clients, find, release};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::account::Account;
use super::with_adapters;
use crate::graphs::{MODEL, example, serving};

/// Published with Dynamo's manifests.
const ACCOUNT: &str = "planner-serviceaccount";
const NAME: &str = "mocker-disagg";
/// A planner that need not run: this test plays its part.
const COMPONENT: &str = "    - name: Planner
      type: planner
      replicas: 0
      podTemplate: {spec: {containers: [{name: main, image: 'example/planner:1', command: [planner]}]}}
";

/// Where the connector of a release is.
struct Release {
    python: PathBuf,
    folders: String,
}

impl Release {
    /// All that are to be had; the modules that they need beside are of 1.6.1.
    fn all() -> Option<Vec<Self>> {
        let (python, newest) = (clients()?, release()?);
        let library = newest.parent()?.parent()?.join("lib");
        let versions = std::fs::read_dir(library).ok()?.flatten();
        let packages =
            versions.map(|version| version.path().join("site-packages")).find(|it| it.join("dynamo").is_dir())?;
        let older = python.parent()?.parent()?.join("dynamo-1.4.2");
        find("the published release 1.4.2", [older.join("dynamo/planner/connectors/kubernetes.py")])?;
        let of = |folders: &[&PathBuf]| {
            let folders = std::env::join_paths(folders).expect("folders").into_string().expect("text");
            Self { python: python.clone(), folders }
        };
        Some(vec![of(&[&packages]), of(&[&older, &packages])])
    }

    /// What the connector says; an error is what it has printed.
    async fn run(&self, space: &Namespace, account: &Account, arguments: &[&str]) -> Result<Value, String> {
        let mut command = Command::new(&self.python);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/planner.py"));
        command.args([&self.folders, space.name(), NAME]).args(arguments);
        command.env("KUBECONFIG", account.kubeconfig());
        let ended =
            tokio::task::spawn_blocking(move || command.output().expect("python starts")).await.expect("no panic");
        let said = String::from_utf8_lossy(&ended.stdout);
        let last = said.lines().last().and_then(|line| serde_json::from_str(line).ok());
        last.filter(|_| ended.status.success())
            .ok_or_else(|| format!("{said}{}", String::from_utf8_lossy(&ended.stderr)))
    }

    async fn scale(&self, space: &Namespace, graph: &Graph<'_>, account: &Account, [prefill, decode]: [usize; 2]) {
        let numbers = [prefill.to_string(), decode.to_string()];
        let seen = self.run(space, account, &["scale", &numbers[0], &numbers[1]]).await;
        let seen = seen.unwrap_or_else(|said| panic!("{}: {said}", self.folders));
        assert_eq!(seen["counts"], json!([prefill, decode, true]));
        let pods = [graph.pods("prefill").await.len(), graph.pods("decode").await.len()];
        assert_eq!(pods, [prefill, decode], "{}", self.folders);
        // Planners compare with the graph.
        let stored = graph.api().get(NAME).await.expect("the graph");
        let replicas = |name: &str| {
            let all = stored.data["spec"]["components"].as_array().expect("components");
            all.iter().find(|component| component["name"] == name).expect("it")["replicas"].clone()
        };
        assert_eq!([replicas("prefill"), replicas("decode")], [json!(prefill), json!(decode)]);
    }
}

/// Numbers of prefill and decode workers, one after the other.
const WAY: [[usize; 2]; 2] = [[2, 3], [1, 1]];

#[tokio::test]
async fn the_published_planner_reads_the_workers_and_scales_them_by_their_adapters() {
    let Some(releases) = Release::all() else { return };
    in_namespace("planner", async |space| {
        installed().await;
        space.apply(&(with_adapters() + COMPONENT)).await;
        let graph = Graph::new(space, NAME);
        serving(space, &graph).await;
        let account = Account::of(space, ACCOUNT).await;
        for release in releases {
            let read = release.run(space, &account, &["read"]).await.unwrap_or_else(|said| panic!("{said}"));
            let from = read["from"].as_str().expect("a file");
            assert!(release.folders.starts_with(from.split("/dynamo/").next().expect("a folder")), "{from}");
            assert_eq!(read["model"], MODEL);
            assert_eq!(read["counts"], json!([1, 1, true]));
            assert_eq!(read["metrics"], format!("http://{NAME}-frontend:8000/metrics"));
            for (role, component) in [("prefill", "prefill"), ("decode", "backend")] {
                let worker = &read["workers"][role];
                let told = [&worker["k8s_name"], &worker["component_name"], &worker["endpoint"], &worker["model_name"]];
                assert_eq!(told, [role, component, "generate", MODEL]);
                let sizes = ["total_kv_blocks", "kv_cache_block_size", "max_num_seqs", "max_num_batched_tokens"];
                assert!(sizes.iter().all(|size| worker[size].as_u64() > Some(0)), "{worker}");
            }
            if let Some(gpus) = read.get("gpus") {
                assert_eq!(gpus, &json!([null, null]), "its own settings count for simulated workers");
                assert_eq!(read["inventory"]["ready_num_decode"], 1, "{read}");
            }
            for numbers in WAY {
                release.scale(space, &graph, &account, numbers).await;
                for (role, number) in ["prefill", "decode"].into_iter().zip(numbers) {
                    let adapter = graph.adapters().get(&format!("{NAME}-{role}")).await.expect("the adapter");
                    assert_eq!(adapter.data["spec"]["replicas"], number, "the adapter has the number");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn report_49_a_planner_scales_without_an_adapter() {
    let Some(releases) = Release::all() else { return };
    in_namespace("planner-alone", async |space| {
        installed().await;
        space.apply(&(example("disagg.yaml") + COMPONENT)).await;
        let graph = Graph::new(space, NAME);
        serving(space, &graph).await;
        let account = Account::of(space, ACCOUNT).await;
        for release in releases {
            for numbers in WAY {
                release.scale(space, &graph, &account, numbers).await;
            }
        }
        assert!(graph.adapters().list(&ListParams::default()).await.expect("a list").items.is_empty());
    })
    .await;
}

#[tokio::test]
async fn report_46_a_planner_is_told_that_a_graph_is_not_ready() {
    let Some(releases) = Release::all() else { return };
    in_namespace("planner-unready", async |space| {
        installed().await;
        space.apply(&(nowhere(&with_adapters()) + COMPONENT)).await;
        let graph = Graph::new(space, NAME);
        graph.condition("False", |text| text.contains("Unschedulable")).await;
        let account = Account::of(space, ACCOUNT).await;
        for release in releases {
            let said = release.run(space, &account, &["scale", "2", "2"]).await.expect_err("it is not ready");
            assert!(said.contains("DynamoGraphDeploymentNotReadyError"), "{said}");
        }
        let adapters = graph.adapters().list(&ListParams::default()).await.expect("a list").items;
        assert!(adapters.iter().all(|adapter| adapter.data["spec"]["replicas"] == 1), "{adapters:?}");
    })
    .await;
}

/// The pods of a manifest have no node to run on.
fn nowhere(manifest: &str) -> String {
    manifest.replace("        spec:\n", "        spec:\n          nodeSelector: {no-such: node}\n")
}

#[tokio::test]
async fn report_50_the_namespace_of_workers_is_told_before_they_are_ready() {
    let Some(releases) = Release::all() else { return };
    in_namespace("planner-early", async |space| {
        installed().await;
        space.apply(&(nowhere(&example("disagg.yaml")) + COMPONENT)).await;
        let graph = Graph::new(space, NAME);
        let status = graph.condition("False", |_| true).await;
        let pod = space
            .wait("a worker's pod is there", async || graph.pods("decode").await.pop().ok_or_else(String::new))
            .await;
        let namespace = ["DYN_NAMESPACE", "DYN_NAMESPACE_WORKER_SUFFIX"].map(|name| variable(&pod, name)).join("-");
        assert!(namespace.starts_with(&format!("{}-{NAME}-", space.name())), "{namespace}");
        for role in ["prefill", "decode"] {
            assert_eq!(status["components"][role]["runtimeNamespace"], namespace);
        }
        let account = Account::of(space, ACCOUNT).await;
        for release in releases {
            let read = release.run(space, &account, &["read"]).await.unwrap_or_else(|said| panic!("{said}"));
            assert_eq!(read["namespace"], namespace);
            assert_eq!(read["counts"], json!([0, 0, false]));
        }
    })
    .await;
}

/// A worker gets its namespace in two parts.
fn variable(pod: &Pod, name: &str) -> String {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let variables = containers.flat_map(|container| container.env.iter().flatten());
    let mut values = variables.filter(|variable| variable.name == name).filter_map(|variable| variable.value.clone());
    values.next().unwrap_or_default()
}

#[tokio::test]
async fn report_55_a_planner_may_do_what_it_does() {
    in_namespace("planner-rights", async |space| {
        installed().await;
        space.apply(&(example("disagg.yaml") + COMPONENT)).await;
        space
            .wait("the planner's account is there", async || {
                space.api::<ServiceAccount>().get(ACCOUNT).await.map(drop).map_err(|error| error.to_string())
            })
            .await;
        let adapters = "dynamographdeploymentscalingadapters";
        for (group, resource, subresource, verbs, may) in [
            ("nvidia.com", "dynamographdeployments", "", "get list create update patch", true),
            ("nvidia.com", adapters, "", "get list", true),
            ("nvidia.com", adapters, "scale", "get update patch", true),
            ("nvidia.com", "dynamoworkermetadatas", "", "get list watch create update patch delete", true),
            ("discovery.k8s.io", "endpointslices", "", "get list watch", true),
            ("", "pods", "", "get list watch patch", true),
            ("nvidia.com", "dynamographdeployments", "", "delete", false),
            ("", "secrets", "", "get list", false),
            ("", "pods", "", "create delete", false),
            ("apps", "deployments", "", "get patch", false),
        ] {
            for verb in verbs.split(' ') {
                // Its role is bound after its account is there.
                let what = format!("{verb} {resource}/{subresource} is {may}");
                space
                    .wait(&what, async || match allowed(space, [group, resource, subresource, verb]).await {
                        answer if answer == may => Ok(()),
                        answer => Err(answer.to_string()),
                    })
                    .await;
            }
        }
    })
    .await;
}

async fn allowed(space: &Namespace, [group, resource, subresource, verb]: [&str; 4]) -> bool {
    let text = |text: &str| Some(text.to_owned());
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{}:{ACCOUNT}", space.name())),
            resource_attributes: Some(ResourceAttributes {
                namespace: text(space.name()),
                group: text(group),
                resource: text(resource),
                subresource: text(subresource).filter(|name| !name.is_empty()),
                verb: text(verb),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(space.client());
    let answer = reviews.create(&PostParams::default(), &review).await.expect("an answer");
    answer.status.is_some_and(|status| status.allowed)
}
