//! Updates, scaling and lost pods under load: no request fails.

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Load, Namespace, in_namespace};
use k8s_openapi::api::policy::v1::Eviction;
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::json;

use crate::graphs::{MODEL, example, serving};

/// A graph under load; the change; then nothing has failed.
async fn unnoticed(test: &str, file: &str, name: &str, change: impl AsyncFnOnce(&Namespace, &Graph<'_>, &Load<'_>)) {
    in_namespace(test, async |space| {
        installed().await;
        space.apply(&example(file)).await;
        let graph = Graph::new(space, name);
        serving(space, &graph).await;
        let load = Load::on(space, &graph, MODEL).await;
        load.more().await;
        change(space, &graph, &load).await;
        graph.ready().await;
        load.more().await;
        load.assert_no_failure().await;
    })
    .await;
}

/// Another argument for the workers at these places.
async fn change_argument(graph: &Graph<'_>, components: &[usize]) {
    let add = |component: &usize| {
        let path = format!("/spec/components/{component}/podTemplate/spec/containers/0/args/-");
        ["--block-size", "32"].map(|word| json!({"op": "add", "path": path, "value": word}))
    };
    graph.patch(components.iter().flat_map(add).collect()).await;
}

#[tokio::test]
async fn report_8_a_changed_argument_makes_a_new_generation_without_a_failed_request() {
    unnoticed("roll", "agg.yaml", "mocker-agg", async |_, graph, _| {
        let before = graph.pod("decode").await.name_any();
        change_argument(graph, &[1]).await;
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
        change_argument(graph, &[1, 2]).await;
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
            load.more().await;
        }
    })
    .await;
}

#[tokio::test]
async fn report_41_deleted_and_evicted_pods_end_without_a_failed_request() {
    unnoticed("evicted", "agg.yaml", "mocker-agg", async |space, graph, load| {
        graph.patch(json!([{"op": "replace", "path": "/spec/components/1/replicas", "value": 2}])).await;
        graph.ready().await;
        load.more().await;
        let pods = graph.pods("decode").await;
        let ended = space.delete_pod(&pods[0].name_any()).await;
        for (name, end) in ended.containers {
            assert_eq!(end.exit_code, 0, "{name}: {end:?}");
        }
        graph.ready().await;
        load.more().await;
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
