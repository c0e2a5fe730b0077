//! An API server that hangs while a graph is under load. As root on the machine of the control plane, with the operator
//! installed on the cluster that `KUBECONFIG` names:
//!
//! ```text
//!   cargo run -p dynosim-e2e --example outage -- PID [SECONDS]
//! ```
//!
//! The process PID is stopped for so long (60 seconds, unless told otherwise): connections stay, answers don't come. No
//! request may fail, the objects are the same afterwards, and the graph can be scaled again.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal that tells times")]

use std::process::Command;
use std::time::{Duration, Instant};

use dynosim_e2e::operator::Graph;
use dynosim_e2e::{LIMIT, Load, Namespace, connect, in_namespace};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;

const GRAPH: &str = include_str!("../../../examples/backends/mocker/deploy/disagg.yaml");
/// Place of the prefill worker in it.
const PREFILL: usize = 2;
const MODEL: &str = "nvidia/Llama-3.1-8B-Instruct-FP8";

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().expect("the process id of an API server");
    let seconds = arguments.next().map_or(60, |text| text.parse().expect("a number"));
    if connect().await.is_none() {
        return;
    }
    in_namespace("outage", async |space| outage(space, &pid, Duration::from_secs(seconds)).await).await;
}

async fn outage(space: &Namespace, pid: &str, span: Duration) {
    space.apply(GRAPH).await;
    let graph = Graph::new(space, "mocker-disagg");
    graph.ready().await;
    let listed = async || {
        let models = graph.frontend().get("/v1/models").await?;
        if models.body.contains(MODEL) { Ok(()) } else { Err(models.body) }
    };
    space.wait("the model is listed", listed).await;
    let load = Load::on(space, &graph, MODEL).await;
    load.more().await;
    let (before, answered) = (children(space).await, load.answered().await.expect("metrics"));
    signal("STOP", pid);
    tokio::time::sleep(span).await;
    signal("CONT", pid);
    let back = Instant::now();
    // A node that could not be heard of is not ready for a moment, and neither are its pods.
    let after = space.wait("the frontend can be reached", async || load.answered().await).await;
    println!("answered while the API server hung for {} s: {:.0} requests", span.as_secs(), after - answered);
    graph.ready().await;
    assert_eq!(children(space).await, before, "the same objects, none written");
    graph.patch(json!([{"op": "replace", "path": format!("/spec/components/{PREFILL}/replicas"), "value": 2}])).await;
    let scaled = async || {
        let status = graph.ready().await;
        let now = &status["components"]["prefill"]["availableReplicas"];
        if *now == 2 { Ok(()) } else { Err(now.to_string()) }
    };
    tokio::time::timeout(LIMIT, space.wait("prefill is scaled", scaled)).await.expect("in time");
    println!("prefill scaled to 2, {:.1} s after it was back", back.elapsed().as_secs_f64());
    load.more().await;
    println!("requests: {} complete, none failed", load.assert_no_failure().await);
}

fn signal(name: &str, pid: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), pid]).status().expect("kill starts");
    assert!(sent.success(), "kill -{name} {pid}");
}

/// Deployments and Services with the number of their last change by anybody but Kubernetes.
async fn children(space: &Namespace) -> Vec<(String, Option<i64>, Option<String>)> {
    let deployments: Api<Deployment> = space.api();
    let services: Api<Service> = space.api();
    let mut all: Vec<_> = deployments
        .list(&ListParams::default())
        .await
        .expect("a list")
        .items
        .into_iter()
        .map(|it| (it.name_any(), it.metadata.generation, it.metadata.uid))
        .collect();
    let listed = services.list(&ListParams::default()).await.expect("a list").items;
    all.extend(listed.into_iter().map(|it| (it.name_any(), None, it.metadata.resource_version)));
    all
}
