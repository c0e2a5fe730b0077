//! The operator that looks after a fleet: one pod, its figures.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{Fleet, patiently};
use crate::operator::SYSTEM;
use crate::{Endpoint, wait};

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

impl Fleet {
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
