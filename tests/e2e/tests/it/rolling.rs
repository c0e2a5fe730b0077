//! Updates, scaling and lost pods under load: no request fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Endpoint, Namespace, chat, in_namespace};
use k8s_openapi::api::policy::v1::Eviction;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinSet;

use crate::graphs::{MODEL, example, serving};

/// Streams that are open at any time.
const STREAMS: usize = 64;
/// Tokens of each.
const TOKENS: u32 = 40;
/// Requests that are seen through after the last change.
const AFTER: u64 = 200;

/// Streams that are always open.
struct Load {
    tasks: JoinSet<Vec<String>>,
    ends: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

impl Load {
    fn on(frontend: &Endpoint) -> Self {
        let (mut tasks, ends, done) = (JoinSet::new(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        for stream in 0..STREAMS {
            let (frontend, ends, done) = (frontend.clone(), Arc::clone(&ends), Arc::clone(&done));
            tasks.spawn(async move {
                let mut failures = Vec::new();
                let mut number = 0;
                while !ends.load(Ordering::Relaxed) {
                    number += 1;
                    if let Err(error) =
                        chat(&frontend, MODEL, &format!("stream {stream}, request {number}"), TOKENS).await
                    {
                        failures.push(format!("stream {stream}, request {number}: {error}"));
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failures
            });
        }
        Self { tasks, ends, done }
    }

    /// Waits for so many more requests to end.
    async fn more(&self, space: &Namespace, requests: u64) {
        let from = self.done.load(Ordering::Relaxed);
        space
            .wait("requests end", async || match self.done.load(Ordering::Relaxed) - from {
                some if some >= requests => Ok(()),
                some => Err(format!("{some} of {requests}")),
            })
            .await;
    }

    /// Ends it; no request has failed.
    async fn assert_no_failure(mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        while let Some(seen) = self.tasks.join_next().await {
            failures.extend(seen.expect("no panic"));
        }
        let done = self.done.load(Ordering::Relaxed);
        println!("{done} requests, {} failed", failures.len());
        assert!(
            failures.is_empty(),
            "{} of {done} requests failed: {:#?}",
            failures.len(),
            &failures[..failures.len().min(5)]
        );
    }
}

/// A graph under load; the change; then nothing has failed.
async fn unnoticed(test: &str, file: &str, name: &str, change: impl AsyncFnOnce(&Namespace, &Graph<'_>, &Load)) {
    in_namespace(test, async |space| {
        installed().await;
        space.apply(&example(file)).await;
        let graph = Graph::new(space, name);
        serving(space, &graph).await;
        let load = Load::on(&graph.frontend());
        load.more(space, AFTER).await;
        change(space, &graph, &load).await;
        graph.ready().await;
        load.more(space, AFTER).await;
        load.assert_no_failure().await;
    })
    .await;
}

/// Another argument for the worker at this place.
async fn change_argument(graph: &Graph<'_>, component: usize) {
    let path = format!("/spec/components/{component}/podTemplate/spec/containers/0/args/-");
    graph
        .patch(
            json!([{"op": "add", "path": path, "value": "--block-size"}, {"op": "add", "path": path, "value": "32"}]),
        )
        .await;
}

#[tokio::test]
async fn report_8_a_changed_argument_makes_a_new_generation_without_a_failed_request() {
    unnoticed("roll", "agg.yaml", "mocker-agg", async |_, graph, _| {
        let before = graph.pod("decode").await.name_any();
        change_argument(graph, 1).await;
        let status = graph.ready().await;
        assert_eq!(status["rollingUpdate"]["phase"], "Completed");
        assert_ne!(graph.pod("decode").await.name_any(), before);
    })
    .await;
}

#[tokio::test]
async fn report_22_prefill_and_decode_roll_together_in_a_dynamo_namespace_of_their_own() {
    unnoticed("roll-both", "disagg.yaml", "mocker-disagg", async |_, graph, _| {
        let before = graph.ready().await;
        change_argument(graph, 1).await;
        let after = graph.ready().await;
        for component in ["decode", "prefill"] {
            let [before, after] = [&before, &after].map(|status| &status["components"][component]["runtimeNamespace"]);
            assert_ne!(before, after, "{component}");
        }
        assert_eq!(
            after["components"]["decode"]["runtimeNamespace"],
            after["components"]["prefill"]["runtimeNamespace"]
        );
    })
    .await;
}

#[tokio::test]
async fn report_7_and_40_scaling_up_and_down_fails_no_request_and_ready_comes_back() {
    unnoticed("scale", "agg.yaml", "mocker-agg", async |space, graph, load| {
        graph.patch(json!([{"op": "add", "path": "/spec/components/1/scalingAdapter", "value": {}}])).await;
        graph.ready().await;
        space
            .wait("the adapter is there", async || {
                graph.adapters().get("mocker-agg-decode").await.map(drop).map_err(|error| error.to_string())
            })
            .await;
        for replicas in [5, 1] {
            graph.scale("decode", replicas).await;
            space
                .wait("the graph has the number", async || {
                    let status = graph.ready().await;
                    let now = status["components"]["decode"]["availableReplicas"].clone();
                    if now == replicas { Ok(()) } else { Err(now.to_string()) }
                })
                .await;
            load.more(space, AFTER).await;
        }
    })
    .await;
}

#[tokio::test]
async fn report_41_deleted_and_evicted_pods_end_without_a_failed_request() {
    unnoticed("evicted", "agg.yaml", "mocker-agg", async |space, graph, load| {
        graph.patch(json!([{"op": "replace", "path": "/spec/components/1/replicas", "value": 2}])).await;
        graph.ready().await;
        load.more(space, AFTER).await;
        let pods = graph.pods("decode").await;
        let ended = space.delete_pod(&pods[0].name_any()).await;
        for (name, end) in ended.containers {
            assert_eq!(end.exit_code, 0, "{name}: {end:?}");
        }
        graph.ready().await;
        load.more(space, AFTER).await;
        let pods = space.api::<k8s_openapi::api::core::v1::Pod>();
        let name = graph.pods("decode").await[0].name_any();
        let eviction = Eviction {
            metadata: kube::api::ObjectMeta { name: Some(name.clone()), ..Default::default() },
            ..Default::default()
        };
        let _: kube::core::Status =
            pods.create_subresource("eviction", &name, &PostParams::default(), &eviction).await.expect("evicted");
        space
            .wait("it is gone", async || match pods.get_opt(&name).await.expect("an answer") {
                None => Ok(()),
                Some(_) => Err("it is there".to_owned()),
            })
            .await;
    })
    .await;
}
