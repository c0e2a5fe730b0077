//! `dynosim mocker` behind the published frontend, and its flags.

mod flags;
pub(crate) mod peers;

use dynosim_peers::{free_port, release, wait_until};
use peers::{Children, Http};

/// Starts the published frontend and our workers over files, and waits for the model.
fn graph(children: &mut Children, python: &std::path::Path, mockers: &[&[&str]]) -> Http {
    let http = children.frontend(python, "kv");
    for flags in mockers {
        children.mocker(flags);
    }
    http.wait_for_model("tiny");
    http
}

pub(crate) const PROMPT: &str = "Tell me what a simulated engine is good for, at some length, so that there are full blocks of tokens \
                      to find again when the same question is asked a second time, which is what this test is about.";

/// The second identical prompt is found in the cache by worker and router.
pub(crate) fn check_caching(http: &Http) {
    let first = http.chat("tiny", PROMPT, 20);
    assert_eq!(first["usage"]["completion_tokens"], 20, "{first}");
    assert_eq!(first["choices"][0]["finish_reason"], "length");
    let text = first["choices"][0]["message"]["content"].as_str().expect("text");
    assert!(text.len() >= 20, "{first}");
    // The router hears of the blocks a moment after the answer.
    let found = (0..100).find_map(|_| {
        let again = http.chat("tiny", PROMPT, 20);
        let cached = again["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        let hit_rate = again["nvext"]["timing"]["kv_hit_rate"].as_f64().unwrap_or(0.0);
        (cached > 100 && hit_rate > 0.5).then_some(again)
    });
    assert!(found.is_some(), "no answer told of cached tokens and a hit rate");
}

#[test]
fn the_published_frontend_serves_our_worker_and_sees_its_cache() {
    let Some(python) = release() else { return };
    let mut children = Children::over_files();
    let http = graph(&mut children, &python, &[&["--block-size", "16"]]);
    check_caching(&http);
    let stream = http.chat_stream("tiny", PROMPT, 12);
    let chunks: Vec<_> = stream.iter().filter(|chunk| chunk["choices"][0]["delta"]["content"].is_string()).collect();
    assert!(chunks.len() >= 12, "{stream:?}");
    let last = stream.iter().rev().find_map(|chunk| chunk["choices"][0]["finish_reason"].as_str());
    assert_eq!(last, Some("length"));
}

#[test]
fn the_published_frontend_serves_our_worker_over_etcd_and_nats_and_sees_its_cache() {
    let Some(python) = release() else { return };
    let Some(mut children) = Children::over_servers() else { return };
    let http = graph(&mut children, &python, &[&["--block-size", "16"]]);
    check_caching(&http);
}

#[test]
fn the_published_frontend_serves_four_ranks_and_four_workers() {
    let Some(python) = release() else { return };
    for flags in [["--data-parallel-size", "4"], ["--num-workers", "4"]] {
        let mut children = Children::over_files();
        let flags = [&flags[..], &["--block-size", "16", "--speedup-ratio", "10"]].concat();
        let http = graph(&mut children, &python, &[&flags]);
        check_caching(&http);
    }
}

/// A request goes through a prefill and a decode worker of ours.
fn check_handoff(mut children: Children, python: &std::path::Path) {
    let port = free_port().to_string();
    let prefill = ["--block-size", "16", "--disaggregation-mode", "prefill", "--bootstrap-ports", &port];
    let decode = ["--block-size", "16", "--disaggregation-mode", "decode"];
    let http = graph(&mut children, python, &[&prefill, &decode]);
    // The frontend may take a moment to see that both halves are there.
    let answer = (0..100)
        .map(|_| http.chat("tiny", PROMPT, 20))
        .find(|answer| {
            answer["nvext"]["worker_id"]["prefill_worker_id"] != answer["nvext"]["worker_id"]["decode_worker_id"]
        })
        .expect("a request goes through both workers");
    assert_eq!(answer["usage"]["completion_tokens"], 20, "{answer}");
}

#[test]
fn the_published_frontend_runs_our_prefill_and_decode_workers() {
    let Some(python) = release() else { return };
    check_handoff(Children::over_files(), &python);
}

#[test]
fn the_published_frontend_runs_our_prefill_and_decode_workers_over_etcd_and_nats() {
    let Some(python) = release() else { return };
    let Some(children) = Children::over_servers() else { return };
    check_handoff(children, &python);
}

#[test]
fn workers_leave_discovery_when_they_are_told_to_stop() {
    let mut children = Children::over_files();
    let worker = children.mocker(&["--startup-time", "0"]);
    assert!(children.records() >= 4);
    assert!(children.stop(worker).success());
    assert_eq!(children.records(), 0);
}

#[test]
fn workers_leave_discovery_when_they_are_told_to_stop_while_others_have_not_started() {
    let mut children = Children::over_files();
    let worker = children.start_mocker(&["--num-workers", "3", "--stagger-delay", "600"]);
    wait_until("the first worker is there", || children.records() >= 4);
    assert!(children.stop(worker).success());
    assert_eq!(children.records(), 0);
}

#[test]
fn workers_leave_discovery_when_another_cannot_start() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let mut children = Children::over_files();
    let ports = format!("{},{port}", free_port());
    let flags = ["--num-workers", "2", "--disaggregation-mode", "prefill", "--bootstrap-ports", &ports];
    let worker = children.start_mocker(&flags);
    assert_eq!(children.wait(worker).code(), Some(4), "an I/O error");
    assert_eq!(children.records(), 0);
}
