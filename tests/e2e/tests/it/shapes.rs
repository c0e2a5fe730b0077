//! Manifests of the shapes that are published, as they are: what this image can run comes up, the rest has its objects.

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Namespace, image, in_namespace};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::ListParams;

const SHAPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../operator/tests/shapes");

/// Applies a manifest; all its graphs get their Deployments, and those of the simulator all their pods. A graph without a
/// foreign program is ready; another one says what it waits for. So many Deployments run programs of either kind.
async fn comes_up(shape: &str, simulated: usize, foreign: usize) {
    in_namespace(shape, async |space| {
        installed().await;
        let manifest = std::fs::read_to_string(format!("{SHAPES}/{shape}.yaml")).expect("a shape");
        let applied = space.apply(&manifest).await;
        let mut numbers = (0, 0);
        for object in
            applied.iter().filter(|object| object.types.as_ref().is_some_and(|it| it.kind.ends_with("Deployment")))
        {
            let graph = Graph::new(space, &object.name_any());
            let (ours, others) = settled(space, &graph).await;
            if others == 0 {
                graph.ready().await;
            } else {
                graph.condition("False", |said| said.contains("0 of 1 available")).await;
            }
            numbers = (numbers.0 + ours, numbers.1 + others);
        }
        assert_eq!(numbers, (simulated, foreign));
    })
    .await;
}

/// Deployments with our image and with others, once the graph has all of them and ours are available.
async fn settled(space: &Namespace, graph: &Graph<'_>) -> (usize, usize) {
    let deployments = space.api::<Deployment>();
    space
        .wait("its Deployments are there, and available where they can be", async || {
            let found = graph.api().get(graph.name()).await.map_err(|error| error.to_string())?;
            let components = found.data["spec"]["components"].as_array().map_or(0, Vec::len);
            let selector = format!("nvidia.com/dynamo-graph-deployment-name={}", graph.name());
            let list =
                deployments.list(&ListParams::default().labels(&selector)).await.map_err(|error| error.to_string())?;
            if list.items.len() != components {
                return Err(format!("{} Deployments of {components}", list.items.len()));
            }
            let is_ours = |deployment: &&Deployment| {
                let pod = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
                pod.is_some_and(|pod| {
                    pod.containers.iter().all(|container| container.image.as_deref() == Some(&image()))
                })
            };
            let (ours, others): (Vec<_>, Vec<_>) = list.items.iter().partition(is_ours);
            for deployment in &ours {
                let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
                let there = deployment.status.as_ref().and_then(|status| status.available_replicas);
                if there.unwrap_or_default() != wanted.unwrap_or(1) {
                    return Err(format!("{}: {there:?} of {wanted:?}", deployment.name_any()));
                }
            }
            Ok((ours.len(), others.len()))
        })
        .await
}

#[tokio::test]
async fn an_aggregated_graph_in_both_versions() {
    comes_up("agg", 2, 0).await;
    comes_up("agg-alpha", 2, 0).await;
}

#[tokio::test]
async fn a_disaggregated_graph_in_both_versions() {
    comes_up("disagg", 3, 0).await;
    comes_up("disagg-alpha", 3, 0).await;
}

#[tokio::test]
async fn a_graph_as_profilers_make_it_with_its_planner() {
    comes_up("profiler-planner", 3, 1).await;
}

#[tokio::test]
async fn graphs_under_a_planner_of_several() {
    comes_up("global-planner", 3, 6).await;
}
