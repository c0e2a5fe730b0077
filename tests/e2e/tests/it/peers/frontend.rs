//! The published frontend, on the machine that is the node.

use std::net::{IpAddr, TcpListener};

use dynosim_e2e::operator::{Graph, installed};
use dynosim_e2e::{Namespace, in_namespace};
use dynosim_peers::{Process, free_port, http, release, skip};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::account::Account;
use crate::graphs::{MODEL, example, prompt, serving};

/// Tokens of an answer.
const TOKENS: u32 = 20;

/// The address of the node if it is this machine: then pods can be reached, and reach what listens here.
async fn address(space: &Namespace) -> Option<IpAddr> {
    let nodes: Api<Node> = Api::all(space.client());
    let nodes = nodes.list(&ListParams::default()).await.expect("nodes").items;
    let addresses = nodes.into_iter().filter_map(|node| node.status?.addresses).flatten();
    let internal = addresses.filter(|address| address.type_ == "InternalIP").filter_map(|it| it.address.parse().ok());
    let here = internal.into_iter().find(|address: &IpAddr| TcpListener::bind((*address, 0)).is_ok());
    if here.is_none() {
        skip("a node on this machine");
    }
    here
}

/// A published frontend with the rights of a graph's own.
struct Frontend {
    process: Process,
    port: u16,
    _account: Account,
    _log: tempfile::TempDir,
}

impl Frontend {
    async fn start(space: &Namespace, graph: &str, python: &std::path::Path, node: IpAddr) -> Self {
        let account = Account::of(space, &format!("{graph}-k8s-service-discovery")).await;
        let (port, log) = (free_port(), tempfile::tempdir().expect("a folder"));
        let mut command = Process::of_release(python, "dynamo.frontend");
        command.args(["--http-host", "127.0.0.1", "--http-port", &port.to_string(), "--router-mode", "kv"]);
        command.env("KUBECONFIG", account.kubeconfig()).envs([
            ("DYN_DISCOVERY_BACKEND", "kubernetes"),
            ("DYN_LOG", "info"),
            ("POD_NAME", "outside"),
            ("POD_UID", "no-pod-at-all"),
            ("POD_NAMESPACE", space.name()),
            ("DYN_NAMESPACE_PREFIX", &format!("{}-{graph}", space.name())),
            ("DYN_NAMESPACE_PREFIX_STRICT", "true"),
            // Where workers send what they answer.
            ("DYN_TCP_RPC_HOST", &node.to_string()),
        ]);
        for name in ["DYN_NAMESPACE", "NATS_SERVER", "DYN_KUBE_DISCOVERY_MODE", "DYN_SYSTEM_PORT"] {
            command.env_remove(name);
        }
        let process = Process::start(&mut command, &log.path().join("log"));
        Self { process, port, _account: account, _log: log }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let answer = http(self.port, method, path, body).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if head.split(' ').nth(1) == Some("200") { Ok(body.to_owned()) } else { Err(answer) }
    }

    /// A chat completion as events: chunks with text, and what the last one says of its use.
    fn chat(&self, content: &str) -> Result<(usize, Value), String> {
        let body = json!({
            "model": MODEL, "stream": true, "max_tokens": TOKENS, "min_tokens": TOKENS, "ignore_eos": true,
            "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": content}],
        });
        let answer = self.ask("POST", "/v1/chat/completions", &body.to_string())?;
        let events = answer.lines().filter_map(|line| line.strip_prefix("data: "));
        let chunks: Vec<Value> = events.filter_map(|event| serde_json::from_str(event).ok()).collect();
        let is_text =
            |chunk: &&Value| chunk["choices"][0]["delta"]["content"].as_str().is_some_and(|it| !it.is_empty());
        let usage = chunks.iter().rev().find(|chunk| chunk["usage"].is_object()).map(|chunk| chunk["usage"].clone());
        Ok((chunks.iter().filter(is_text).count(), usage.ok_or(answer)?))
    }

    /// Waits until a prompt is answered.
    async fn serves(&self, space: &Namespace) {
        space
            .wait("the published frontend serves", async || {
                self.chat("are you there?").map(drop).map_err(|error| format!("{error}\n{}", self.process.log()))
            })
            .await;
    }
}

/// Serves a graph by the published frontend beside its own.
async fn serves(test: &str, file: &str, name: &str, seen: impl AsyncFnOnce(&Graph<'_>, &Frontend)) {
    let Some(python) = release() else { return };
    in_namespace(test, async |space| {
        let Some(node) = address(space).await else { return };
        installed().await;
        space.apply(&example(file)).await;
        // A graph whose models are none of its business.
        let other = example("agg.yaml").replace("mocker-agg", &format!("{name}-x")).replace(MODEL, "another");
        space.apply(&other).await;
        let graph = Graph::new(space, name);
        serving(space, &graph).await;
        Graph::new(space, &format!("{name}-x")).ready().await;
        let frontend = Frontend::start(space, name, &python, node).await;
        frontend.serves(space).await;
        let models: Value =
            serde_json::from_str(&frontend.ask("GET", "/v1/models", "").expect("models")).expect("JSON");
        let ids: Vec<_> = models["data"].as_array().into_iter().flatten().map(|model| &model["id"]).collect();
        assert_eq!(ids, [MODEL]);
        seen(&graph, &frontend).await;
    })
    .await;
}

#[tokio::test]
async fn the_published_frontend_serves_an_aggregated_graph() {
    serves("published-agg", "agg.yaml", "mocker-agg", async |_, frontend| {
        let (chunks, usage) = frontend.chat(&prompt("published")).expect("an answer");
        assert!(chunks > 1, "{chunks} chunks");
        assert_eq!(usage["completion_tokens"], TOKENS);
        let (_, again) = frontend.chat(&prompt("published")).expect("an answer");
        let cached = again["prompt_tokens_details"]["cached_tokens"].as_u64();
        assert!(cached > Some(0), "{again}");
    })
    .await;
}

#[tokio::test]
async fn the_published_frontend_serves_a_disaggregated_graph() {
    serves("published-disagg", "disagg.yaml", "mocker-disagg", async |graph, frontend| {
        let [prefill, decode] = [graph.pod("prefill").await, graph.pod("decode").await];
        let made = async |pod| graph.metric(pod, "vllm:generation_tokens_total").await;
        let before = [made(&prefill).await, made(&decode).await];
        let (_, usage) = frontend.chat(&prompt("published")).expect("an answer");
        assert_eq!(usage["completion_tokens"], TOKENS);
        let after = [made(&prefill).await, made(&decode).await];
        assert!(after[0] > before[0], "prefill made {before:?}, then {after:?} tokens");
        assert!(after[1] - before[1] >= f64::from(TOKENS - 1), "decode made {before:?}, then {after:?} tokens");
    })
    .await;
}
