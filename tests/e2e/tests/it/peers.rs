//! Published programs before graphs of ours: Dynamo's frontend and planner, Kubernetes' own autoscaler.

mod account;
mod frontend;
mod planner;

use dynosim_e2e::in_namespace;
use dynosim_e2e::operator::{Graph, installed};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::graphs::{example, serving};

/// The disaggregated example with scaling adapters for its workers.
pub(crate) fn with_adapters() -> String {
    let mut text = example("disagg.yaml");
    for role in ["decode", "prefill"] {
        let line = format!("      type: {role}\n");
        assert!(text.contains(&line), "no {role} in the example");
        text = text.replace(&line, &format!("{line}      scalingAdapter: {{}}\n"));
    }
    text
}

const AUTOSCALER: &str = r"
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: decode}
spec:
  scaleTargetRef: {apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeploymentScalingAdapter, name: mocker-disagg-decode}
  minReplicas: 2
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
";

#[tokio::test]
async fn an_autoscaler_raises_a_component_to_its_minimum() {
    in_namespace("hpa", async |space| {
        installed().await;
        space.apply(&with_adapters()).await;
        let graph = Graph::new(space, "mocker-disagg");
        serving(space, &graph).await;
        assert_eq!(graph.pods("decode").await.len(), 1);
        space.apply(AUTOSCALER).await;
        // No metrics are needed for a component below the minimum.
        space
            .wait("the autoscaler has scaled the adapter", async || {
                let autoscaler = space.api::<HorizontalPodAutoscaler>().get("decode").await;
                let status = autoscaler.map_err(|error| error.to_string())?.status.unwrap_or_default();
                let is_able = status
                    .conditions
                    .iter()
                    .flatten()
                    .any(|condition| condition.type_ == "AbleToScale" && condition.status == "True");
                if is_able && status.current_replicas == Some(2) { Ok(()) } else { Err(format!("{status:?}")) }
            })
            .await;
        let adapter = graph.adapters().get("mocker-disagg-decode").await.expect("the adapter");
        assert_eq!(adapter.data["spec"]["replicas"], 2);
        graph.ready().await;
        assert_eq!(graph.pods("decode").await.len(), 2);
        let manifest = graph.api().get("mocker-disagg").await.expect("the graph");
        assert_eq!(manifest.data["spec"]["components"][1]["replicas"], 2);
        assert_eq!(manifest.data["spec"]["components"][2]["replicas"], 1);
    })
    .await;
}
