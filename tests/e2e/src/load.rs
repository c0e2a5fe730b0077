//! Load on a graph from inside the cluster, so that no proxy is between.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::operator::Graph;
use crate::{Namespace, image};

/// Streams that are open at any time.
const STREAMS: u32 = 64;
/// Tokens of each: some seconds.
const TOKENS: u32 = 200;
/// Requests after which the load is at its height, and those that are seen through after the last change.
const SOME: f64 = 100.0;

/// A pod that keeps streams open until it is asked to end; then it tells what came of them.
pub struct Load<'a> {
    space: &'a Namespace,
    graph: &'a Graph<'a>,
    log: JoinHandle<String>,
}

impl<'a> Load<'a> {
    /// Starts it: streams of a model, through the frontend of a graph.
    ///
    /// # Panics
    /// If the pod does not start.
    pub async fn on(space: &'a Namespace, graph: &'a Graph<'a>, model: &str) -> Self {
        let (url, tokens, streams) =
            (format!("http://{}-frontend:8000", graph.name()), TOKENS.to_string(), STREAMS.to_string());
        let workload = ["--input-tokens", "100", "--output-tokens", &tokens, "--request-count", "100000"];
        let run = ["load", "--url", &url, "--model", model, "--replay-concurrency", &streams];
        let report = ["--quiet", "--report-json", "/dev/stdout"];
        let args = [&run[..], &workload, &report].concat();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "load"},
            "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": false,
                "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "main", "image": image(), "imagePullPolicy": "IfNotPresent",
                    "command": ["/usr/bin/dynosim"], "args": args,
                    "securityContext": {
                        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                    },
                }],
            },
        });
        space.apply(&pod.to_string()).await;
        space.pod_is_ready("load").await;
        let log = tokio::spawn(space.whole_log("load").await);
        Self { space, graph, log }
    }

    /// Requests that the frontend has answered.
    ///
    /// # Errors
    /// Why its metrics can't be read.
    pub async fn answered(&self) -> Result<f64, String> {
        let text = self.graph.frontend().get("/metrics").await?.body;
        let counts = text.lines().filter(|line| line.starts_with("dynamo_frontend_requests_total{"));
        Ok(counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Waits for some more requests to end.
    ///
    /// # Panics
    /// If they don't.
    pub async fn more(&self) {
        let from = self.answered().await.expect("metrics");
        self.space
            .wait("requests end", async || match self.answered().await? - from {
                some if some >= SOME => Ok(()),
                some => Err(format!("{some} of {SOME}")),
            })
            .await;
    }

    /// Ends it; no request has failed. Gives the number of those that are complete.
    ///
    /// # Panics
    /// If one has.
    pub async fn assert_no_failure(self) -> u64 {
        self.space.delete_pod("load").await;
        let log = self.log.await.expect("no panic");
        let report: Value = serde_json::from_str(&log).unwrap_or_else(|error| panic!("{error}: {log}"));
        let number = |name: &str| report[name].as_u64().unwrap_or_else(|| panic!("no {name}: {log}"));
        let completed = number("completed_requests");
        assert!(completed as f64 >= 2.0 * SOME, "{log}");
        for failure in ["failed_requests", "rejected_requests", "output_length_mismatches"] {
            assert_eq!(number(failure), 0, "{failure}: {log}");
        }
        completed
    }
}
