//! What users of the published operator reported, on graphs of this one. The numbers are those of docs/compatibility.md.

use std::collections::BTreeSet;

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Namespace, chat, in_namespace};
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use crate::graphs::{MODEL, example, serving};

const AT_ONCE: usize = 200;

/// What a pod publishes for discovery.
async fn published(space: &Namespace, pod: &Pod) -> Value {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "DynamoWorkerMetadata");
    let resource = ApiResource::from_gvk_with_plural(&kind, "dynamoworkermetadatas");
    let api: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &resource);
    api.get(&pod.name_any()).await.expect("it is published").data["spec"]["data"].clone()
}

fn address(pod: &Pod) -> String {
    pod.status.as_ref().and_then(|status| status.pod_ip.clone()).expect("an address")
}

#[tokio::test]
async fn report_24_a_pod_that_dies_shows_in_the_graph_and_its_successor_too() {
    in_namespace("dies", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        serving(space, &graph).await;
        let pod = graph.pod("decode").await.name_any();
        let at_once = DeleteParams::default().grace_period(0);
        space.api::<Pod>().delete(&pod, &at_once).await.expect("deleted");
        graph.condition("False", |text| text.contains("decode: 0 of 1 available")).await;
        graph.ready().await;
    })
    .await;
}

#[tokio::test]
async fn report_29_a_worker_that_never_gets_ready_is_named() {
    in_namespace("unready", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        let probe = json!({"httpGet": {"path": "/nothing", "port": 9090}, "periodSeconds": 1});
        let path = "/spec/components/1/podTemplate/spec/containers/0/readinessProbe";
        graph.patch(json!([{"op": "add", "path": path, "value": probe}])).await;
        graph.condition("False", |text| text.contains("decode: 0 of 1 available") && !text.contains("Frontend")).await;
        graph.patch(json!([{"op": "remove", "path": path}])).await;
        serving(space, &graph).await;
    })
    .await;
}

#[tokio::test]
async fn report_30_graphs_that_share_a_dynamo_namespace_list_each_others_models() {
    in_namespace("shared", async |space| {
        installed().await;
        for name in ["a", "b"] {
            let manifest = example("agg.yaml").replace("mocker-agg", name).replace(MODEL, &format!("model-{name}"));
            space
                .apply(&manifest.replace("      replicas: 1", "      globalDynamoNamespace: true\n      replicas: 1"))
                .await;
        }
        for name in ["a", "b"] {
            let graph = Graph::new(space, name);
            graph.ready().await;
            space
                .wait("both models are listed", async || {
                    let models = graph.frontend().get("/v1/models").await?.body;
                    if ["a", "b"].iter().all(|name| models.contains(&format!("model-{name}"))) {
                        Ok(())
                    } else {
                        Err(models)
                    }
                })
                .await;
        }
    })
    .await;
}

#[tokio::test]
async fn report_31_a_restarted_frontend_finds_all_again() {
    in_namespace("frontend", async |space| {
        installed().await;
        space.apply(&example("disagg.yaml")).await;
        let graph = Graph::new(space, "mocker-disagg");
        serving(space, &graph).await;
        let before = graph.pod("Frontend").await.name_any();
        let ended = space.delete_pod(&before).await;
        for (name, end) in ended.containers {
            assert_eq!(end.exit_code, 0, "{name}: {end:?}");
        }
        serving(space, &graph).await;
        space.wait("it answers", async || chat(&graph.frontend(), MODEL, "again", 8).await.map(drop)).await;
        assert_ne!(graph.pod("Frontend").await.name_any(), before);
    })
    .await;
}

#[tokio::test]
async fn report_34_and_38_prefill_tells_the_address_of_its_pod_and_many_handoffs_succeed_at_once() {
    in_namespace("handoffs", async |space| {
        installed().await;
        space.apply(&example("disagg.yaml")).await;
        let graph = Graph::new(space, "mocker-disagg");
        serving(space, &graph).await;
        let prefill = graph.pod("prefill").await;
        let said = published(space, &prefill).await;
        let cards = said["model_cards"].as_object().expect("cards");
        let hosts: BTreeSet<_> = cards
            .values()
            .filter_map(|card| {
                let endpoint = &card["card_json"]["runtime_config"]["disaggregated_endpoint"];
                Some((endpoint["bootstrap_host"].as_str()?.to_owned(), endpoint["bootstrap_port"].as_u64()?))
            })
            .collect();
        assert_eq!(hosts.iter().map(|(host, _)| host.as_str()).collect::<Vec<_>>(), [address(&prefill)], "{said}");
        let frontend = graph.frontend();
        let prompts: Vec<_> = (0..AT_ONCE).map(|number| format!("request {number} of many")).collect();
        let answers = join_all(prompts.iter().map(|prompt| chat(&frontend, MODEL, prompt, 8))).await;
        let failed: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        assert!(failed.is_empty(), "{} failed: {:?}", failed.len(), failed.first());
    })
    .await;
}

#[tokio::test]
async fn report_35_every_rank_has_an_event_port_of_its_own() {
    in_namespace("ranks", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        let path = "/spec/components/1/podTemplate/spec/containers/0/args/-";
        graph
            .patch(json!([
                {"op": "add", "path": path, "value": "--data-parallel-size"}, {"op": "add", "path": path, "value": "4"},
            ]))
            .await;
        serving(space, &graph).await;
        let pod = graph.pod("decode").await;
        let ports = space
            .wait("all ranks publish", async || {
                let said = published(space, &pod).await;
                let channels = said["event_channels"].as_object().cloned().unwrap_or_default();
                let of_kv = channels.values().filter(|channel| channel["topic"] == "kv-events");
                let ports: Vec<_> = of_kv
                    .filter_map(|channel| Some(channel["transport"]["config"]["endpoint"].as_str()?.to_owned()))
                    .collect();
                if ports.len() == 4 { Ok(ports) } else { Err(format!("{ports:?}")) }
            })
            .await;
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 4, "{ports:?}");
        assert!(ports.iter().all(|port| port.contains(&address(&pod))), "{ports:?}");
    })
    .await;
}

#[tokio::test]
async fn report_47_pods_that_cannot_be_made_can_be_scaled_away() {
    in_namespace("quota", async |space| {
        installed().await;
        space.apply(&example("agg.yaml")).await;
        let graph = Graph::new(space, "mocker-agg");
        graph.patch(json!([{"op": "add", "path": "/spec/components/1/scalingAdapter", "value": {}}])).await;
        serving(space, &graph).await;
        space
            .wait("the adapter is there", async || {
                graph.adapters().get("mocker-agg-decode").await.map(drop).map_err(|error| error.to_string())
            })
            .await;
        space.apply("{apiVersion: v1, kind: ResourceQuota, metadata: {name: pods}, spec: {hard: {pods: '4'}}}").await;
        graph.scale("decode", 10).await;
        graph
            .condition("False", |text| text.starts_with("insufficient_capacity") && text.contains("exceeded quota"))
            .await;
        graph.scale("decode", 1).await;
        space
            .wait("one is left", async || {
                let status = graph.ready().await;
                let now = status["components"]["decode"]["replicas"].clone();
                if now == 1 { Ok(()) } else { Err(now.to_string()) }
            })
            .await;
    })
    .await;
}
