//! Manifests become graphs that serve, on a real cluster with the operator from its chart.

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Namespace, chat, in_namespace};
use kube::api::DeleteParams;
use serde_json::json;

pub(crate) const MODEL: &str = "nvidia/Llama-3.1-8B-Instruct-FP8";
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/backends/mocker/deploy");

/// One of the examples.
pub(crate) fn example(name: &str) -> String {
    std::fs::read_to_string(format!("{EXAMPLES}/{name}")).expect("an example")
}

/// A prompt of many blocks that no other test has.
pub(crate) fn prompt(of: &str) -> String {
    format!("{of}: {}", "what does a serving graph do with a long prompt? ".repeat(20))
}

/// Waits until a graph is ready and its frontend lists the model.
pub(crate) async fn serving(space: &Namespace, graph: &Graph<'_>) {
    graph.ready().await;
    let frontend = graph.frontend();
    space
        .wait("the model is listed", async || {
            let models = frontend.get("/v1/models").await?;
            if models.body.contains(MODEL) { Ok(()) } else { Err(models.body) }
        })
        .await;
}

/// Applies an example, sees it serve, and sees it go.
async fn serves(test: &str, file: &str, name: &str) {
    in_namespace(test, async |space| {
        installed().await;
        space.apply(&example(file)).await;
        let graph = Graph::new(space, name);
        let status = graph.ready().await;
        assert_eq!(status["state"], "successful");
        serving(space, &graph).await;
        let frontend = graph.frontend();
        let first = chat(&frontend, MODEL, &prompt(test), 20).await.expect("an answer");
        assert_eq!(first.cached_tokens, 0, "{first:?}");
        assert!(first.chunks > 1, "{first:?}");
        let second = chat(&frontend, MODEL, &prompt(test), 20).await.expect("an answer");
        assert!(second.cached_tokens > 0, "{second:?}");
        if name.ends_with("disagg") {
            handed_over(&graph, 2.0 * 20.0).await;
        }
        graph.delete(&DeleteParams::foreground()).await;
        space
            .wait("nothing of it is left", async || {
                let left = graph.children().await;
                if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
            })
            .await;
    })
    .await;
}

/// Prefill made the first token of each answer, decode all of them known to the client but that one.
async fn handed_over(graph: &Graph<'_>, tokens: f64) {
    let [prefill, decode] = [graph.pod("prefill").await, graph.pod("decode").await];
    let prompts = graph.metric(&prefill, "vllm:prompt_tokens_total").await;
    let [first, rest] = [
        graph.metric(&prefill, "vllm:generation_tokens_total").await,
        graph.metric(&decode, "vllm:generation_tokens_total").await,
    ];
    assert!(prompts > 0.0, "prefill computed {prompts} tokens");
    assert!(first > 0.0 && first < tokens, "prefill made {first} tokens");
    assert!(rest > first && rest <= tokens, "decode made {rest} tokens");
}

#[tokio::test]
async fn the_aggregated_example_serves() {
    serves("agg", "agg.yaml", "mocker-agg").await;
}

#[tokio::test]
async fn the_aggregated_example_in_the_older_version_serves() {
    serves("agg-alpha", "v1alpha1/agg.yaml", "mocker-agg").await;
}

#[tokio::test]
async fn the_disaggregated_example_serves_and_hands_over() {
    serves("disagg", "disagg.yaml", "mocker-disagg").await;
}

#[tokio::test]
async fn the_disaggregated_example_in_the_older_version_serves_and_hands_over() {
    serves("disagg-alpha", "v1alpha1/disagg.yaml", "mocker-disagg").await;
}

#[tokio::test]
async fn report_5_a_graph_serves_only_its_own_models() {
    in_namespace("scope", async |space| {
        installed().await;
        for name in ["m", "m-x"] {
            let model = format!("model-of-{name}");
            let manifest = example("agg.yaml").replace("mocker-agg", name).replace(MODEL, &model);
            space.apply(&manifest).await;
        }
        for (name, other) in [("m", "m-x"), ("m-x", "m")] {
            let graph = Graph::new(space, name);
            graph.ready().await;
            let models = space
                .wait("its model is listed", async || {
                    let models = graph.frontend().get("/v1/models").await?.body;
                    if models.contains(&format!("\"model-of-{name}\"")) { Ok(models) } else { Err(models) }
                })
                .await;
            assert!(!models.contains(&format!("\"model-of-{other}\"")), "{models}");
        }
    })
    .await;
}

#[tokio::test]
async fn report_13_no_replicas_and_one_again_needs_no_restart_of_the_frontend() {
    in_namespace("to-zero", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        serving(space, &graph).await;
        let frontend = graph.pod("Frontend").await.metadata.uid;
        let replicas = async |number: u32| {
            graph.patch(json!([{"op": "add", "path": "/spec/components/1/replicas", "value": number}])).await;
            graph.ready().await;
        };
        replicas(0).await;
        space
            .wait("the model is gone", async || match chat(&graph.frontend(), MODEL, "x", 2).await {
                Ok(_) => Err("it answers".to_owned()),
                Err(_) => Ok(()),
            })
            .await;
        replicas(1).await;
        space.wait("the model is there again", async || chat(&graph.frontend(), MODEL, "x", 2).await.map(drop)).await;
        assert_eq!(graph.pod("Frontend").await.metadata.uid, frontend);
    })
    .await;
}

#[tokio::test]
async fn report_1_an_image_that_cannot_be_had_shows_in_the_graph_while_the_old_pod_serves() {
    in_namespace("no-image", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        serving(space, &graph).await;
        graph
            .patch(json!([
                {"op": "add", "path": "/spec/components/1/podTemplate/metadata", "value": {"annotations": {"dynosim/image-policy": "Manifest"}}},
                {"op": "replace", "path": "/spec/components/1/podTemplate/spec/containers/0/image", "value": "localhost/nobody-has-this:1"},
                {"op": "add", "path": "/spec/components/1/podTemplate/spec/containers/0/imagePullPolicy", "value": "Never"},
                {"op": "add", "path": "/spec/components/1/podTemplate/spec/containers/0/securityContext", "value": {
                    "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000, "capabilities": {"drop": ["ALL"]},
                }},
            ]))
            .await;
        graph.condition("False", |text| text.contains("ErrImageNeverPull")).await;
        chat(&graph.frontend(), MODEL, "still there?", 4).await.expect("the old pod answers");
        graph
            .patch(json!([{"op": "remove", "path": "/spec/components/1/podTemplate/metadata"}]))
            .await;
        serving(space, &graph).await;
    })
    .await;
}

#[tokio::test]
async fn report_28_a_worker_that_is_killed_in_its_container_serves_again_at_its_new_address() {
    in_namespace("killed", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        serving(space, &graph).await;
        let before = graph.pod("decode").await;
        let pod = before.metadata.name.clone().expect("a name");
        space.kill_container(&pod, "main").await;
        space.wait("it answers", async || chat(&graph.frontend(), MODEL, "again", 4).await.map(drop)).await;
        assert_eq!(graph.pod("decode").await.metadata.uid, before.metadata.uid, "it is the same pod");
    })
    .await;
}
