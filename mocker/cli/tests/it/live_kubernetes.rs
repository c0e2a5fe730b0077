//! `dynosim mocker` and `dynosim frontend` as pods of a Kubernetes cluster, with each other and with the published release.
//!
//! A real API server; the tests write what its nodes would. Processes run as service accounts that may do no more than
//! the release needs.

mod graph;
mod refused;

use dynosim_peers::{ApiServer, Namespace, release, wait_until};
use serde_json::Value;

use crate::live_mocker::{PROMPT, check_caching};
use graph::{Asking, Graph, Processes, instances};

/// Most processes that are killed while a client asks.
const KILLS: usize = 2;
const STRICT: [(&str, &str); 2] = [("DYN_NAMESPACE_PREFIX", "ns-g"), ("DYN_NAMESPACE_PREFIX_STRICT", "true")];

/// The answer that ran when the process died may be broken off.
fn check_never_unknown(statuses: &[u16]) {
    let good = statuses.iter().all(|status| [200, 500, 503].contains(status));
    let broken = statuses.iter().filter(|status| **status == 500).count();
    assert!(good && broken <= KILLS && statuses.contains(&200), "{statuses:?}");
}

#[test]
fn the_published_frontend_serves_our_worker_over_restarts_in_its_pod() {
    let (Some(python), Some(server)) = (release(), ApiServer::shared()) else { return };
    let mut graph = Graph::new(Namespace::new(server, "published-frontend"));
    graph.namespace.slice("s", &[("w", "u-w", true)]);
    let http = graph.published_frontend(&python, "kv");
    // It serves the model's files itself.
    let files = [("DYN_SYSTEM_PORT", "0")];
    graph.worker("w", &["--block-size", "16"], &files);
    http.wait_for_model("tiny");
    check_caching(&http);
    let stream = http.chat_stream("tiny", PROMPT, 12);
    assert!(stream.iter().any(|chunk| chunk["choices"][0]["delta"]["content"].is_string()), "{stream:?}");
    let last = stream.iter().rev().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(last, Some("length"));
    // From now on its card is the same each time: files at another port would make it another one.
    graph.kill("w");
    graph.worker("w", &["--block-size", "16"], &[]);
    graph.wait_until_served(&http);
    let asking = Asking::start(http.again());
    graph.kill("w");
    graph.worker("w", &["--block-size", "16"], &[]);
    graph.wait_until_served(&http);
    check_never_unknown(&asking.end());
    check_caching(&http);
    // Another card: the router counts in other blocks from now on.
    graph.kill("w");
    graph.worker("w", &["--block-size", "32"], &[]);
    graph.wait_until_served(&http);
    check_caching(&http);
    assert!(graph.stop("w").success());
    assert_eq!(graph.namespace.published("w"), None);
    wait_until("the model is listed no more", || {
        http.send("GET", "/v1/models", "").is_some_and(|body| !body.contains("tiny"))
    });
}

#[test]
fn our_frontend_serves_the_published_worker() {
    let (Some(python), Some(server)) = (release(), ApiServer::shared()) else { return };
    let mut graph = Graph::new(Namespace::new(server, "published-worker"));
    graph.namespace.slice("s", &[("w", "u-w", true)]);
    let http = graph.frontend(&[]);
    graph.published_worker(&python, "w");
    http.wait_for_model("tiny");
    let answer = http.ask("tiny", PROMPT, 20);
    assert_eq!(answer["usage"]["completion_tokens"], 20, "{answer}");
    graph.namespace.slice("s", &[("w", "u-w", false)]);
    wait_until("the model is listed no more", || {
        http.send("GET", "/v1/models", "").is_some_and(|body| !body.contains("tiny"))
    });
}

#[test]
fn a_worker_that_restarts_in_its_pod_is_never_unknown_not_even_with_another_card() {
    let Some(server) = ApiServer::shared() else { return };
    let mut graph = Graph::new(Namespace::new(server, "restarts"));
    graph.namespace.slice("s", &[("w", "u-w", true)]);
    let http = graph.frontend(&[]);
    graph.worker("w", &["--block-size", "16"], &[]);
    http.wait_for_model("tiny");
    graph.wait_until_served(&http);
    let asking = Asking::start(http.again());
    for size in ["16", "32"] {
        graph.kill("w");
        graph.worker("w", &["--block-size", size], &[]);
        graph.wait_until_served(&http);
    }
    check_never_unknown(&asking.end());
}

#[test]
fn no_request_is_lost_when_one_of_two_workers_leaves() {
    let Some(server) = ApiServer::shared() else { return };
    let mut graph = Graph::new(Namespace::new(server, "leaving"));
    graph.namespace.slice("s", &[("a", "u-a", true), ("b", "u-b", true)]);
    let http = graph.frontend(&[]);
    graph.worker("a", &[], &[]);
    graph.worker("b", &[], &[]);
    graph.wait_until_served(&http);
    wait_until("both are there", || instances(&http) == 2);
    let asking = [(); 4].map(|()| Asking::start(http.again()));
    assert!(graph.stop("a").success());
    assert_eq!(instances(&http), 1);
    for asking in asking {
        let statuses = asking.end();
        assert!(!statuses.is_empty() && statuses.iter().all(|status| *status == 200), "{statuses:?}");
    }
}

#[test]
fn graphs_whose_names_begin_alike_do_not_see_each_other() {
    let Some(server) = ApiServer::shared() else { return };
    let mut graph = Graph::new(Namespace::new(server, "alike"));
    graph.namespace.slice("s", &[("a", "u-a", true), ("b", "u-b", true), ("c", "u-c", true)]);
    let strict = graph.frontend(&STRICT);
    let all = graph.frontend(&[]);
    // Two generations of one graph, and another graph.
    graph.worker("a", &["--model-name", "mine"], &[("DYN_NAMESPACE", "ns-g")]);
    let hash = ("DYN_NAMESPACE_WORKER_SUFFIX", "0a1b2c3d");
    graph.worker("b", &["--model-name", "mine"], &[("DYN_NAMESPACE", "ns-g"), hash]);
    graph.worker("c", &["--model-name", "theirs"], &[("DYN_NAMESPACE", "ns-g-foo"), hash]);
    all.wait_for_model("theirs");
    all.wait_for_model("mine");
    strict.wait_for_model("mine");
    wait_until("both generations are there", || instances(&strict) == 2);
    assert_eq!(instances(&all), 3);
    let listed = strict.send("GET", "/v1/models", "").expect("models");
    assert!(!listed.contains("theirs"), "{listed}");
}

#[test]
fn a_frontend_that_cannot_read_the_cluster_lives_but_is_not_ready_until_it_can() {
    let Some(mut server) = ApiServer::start() else { return };
    Namespace::new(&server, "late");
    let kubeconfig = server.kubeconfig();
    server.kill();
    let mut processes = Processes::new("late");
    let http = processes.frontend(&kubeconfig, &[]);
    assert_eq!((http.get("/live"), http.get("/health")), (200, 503));
    server.resume();
    wait_until("it has read the cluster", || http.get("/health") == 200);
}

#[test]
fn a_pods_addresses_are_those_that_its_environment_names() {
    let Some(server) = ApiServer::shared() else { return };
    let mut graph = Graph::new(Namespace::new(server, "addresses"));
    let addresses = [
        ("DYN_TCP_RPC_HOST", "127.0.0.2"),
        ("DYN_EVENT_PLANE_HOST", "127.0.0.3"),
        ("DYN_SYSTEM_HOST", "127.0.0.4"),
        ("DYN_HTTP_RPC_HOST", "127.0.0.5"),
        ("DYN_SYSTEM_PORT", "0"),
    ];
    let port = dynosim_peers::free_port().to_string();
    graph.worker("w", &["--disaggregation-mode", "prefill", "--bootstrap-ports", &port], &addresses);
    let object: Value = serde_json::from_str(&graph.namespace.published("w").expect("an object")).expect("JSON");
    let data = &object["spec"]["data"];
    let each = |map: &str| data[map].as_object().expect("a map").values().collect::<Vec<_>>();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    for endpoint in each("endpoints") {
        assert!(text(&endpoint["transport"]["tcp"]).starts_with("127.0.0.2:"), "{endpoint}");
    }
    for channel in each("event_channels") {
        assert!(text(&channel["transport"]["config"]["endpoint"]).starts_with("tcp://127.0.0.3:"), "{channel}");
    }
    let card = &each("model_cards")[0]["card_json"];
    let file = text(&card["tokenizer"]["hf_tokenizer_json"]["path"]);
    let path = "/v1/metadata/dynamo/prefill/generate/tiny/_base/tokenizer.json";
    assert!(file.starts_with("http://127.0.0.4:") && file.ends_with(path), "{file}");
    let handoff = &card["runtime_config"]["disaggregated_endpoint"];
    assert_eq!((&handoff["bootstrap_host"], handoff["bootstrap_port"].to_string()), (&"127.0.0.5".into(), port));
    assert!(graph.stop("w").success());
}
