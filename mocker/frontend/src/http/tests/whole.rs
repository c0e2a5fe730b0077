//! Whole answers, models, pages, connections that are used again.

use std::time::Duration;

use super::client::{Client, get, post};
use super::fake::{Fake, Script};
use crate::generate::GenerateError;
use crate::http::Limits;

const CHAT: &str = "/v1/chat/completions";
const PLAIN: &str = "/v1/completions";

#[tokio::test]
async fn a_whole_answer_has_text_end_and_counts() {
    let (server, seen) = Fake::new(Script::Echo).start(Limits::default()).await;
    let body = br#"{"model": "tiny", "prompt": "h\u00e9llo", "max_tokens": 6, "seed": 7, "min_tokens": 2}"#;
    let reply = post(server.local_address(), PLAIN, body, "").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    let answer = reply.json();
    assert_eq!(answer["choices"][0]["text"], "h\u{e9}llo");
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"]["prompt_tokens"], 6);
    assert_eq!(answer["usage"]["completion_tokens"], 6);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
    let id = reply.header("x-request-id").unwrap();
    let (request, name) = seen.requests.lock().unwrap().pop().unwrap();
    assert_eq!((name.as_str(), id.len()), (id, 36), "a fresh name is a UUID");
    assert_eq!(request.stop_conditions.max_tokens, Some(6));
    assert_eq!(request.stop_conditions.min_tokens, Some(2));
    assert_eq!(request.sampling_options.seed, Some(7));
    assert_eq!(request.eos_token_ids, [257]);
    assert!(request.request_timestamp_ms.is_some() && request.routing.is_none());
}

#[tokio::test]
async fn chat_renders_the_template_and_headers_choose_the_worker() {
    let (server, seen) = Fake::new(Script::Echo).start(Limits::default()).await;
    let body = br#"{"model": "tiny", "messages": [{"role": "system", "content": [{"type": "text", "text": "a"},
        {"type": "text", "text": "b"}]}, {"role": "user", "content": "hi"}], "max_completion_tokens": 40}"#;
    let reply = post(server.local_address(), CHAT, body, "x-worker-instance-id: 12\r\nx-dp-rank: 1\r\n").await;
    let answer = reply.json();
    assert_eq!(answer["choices"][0]["message"]["content"], "system: a\nb\nuser: hi\nassistant: ");
    let routing = seen.requests.lock().unwrap()[0].0.routing.clone().unwrap();
    assert_eq!((routing.backend_instance_id, routing.dp_rank), (Some(12), Some(1)));
}

#[tokio::test]
async fn prompts_may_be_tokens() {
    let (server, seen) = Fake::new(Script::Words).start(Limits::default()).await;
    for prompt in ["[104, 105]", "[[104, 105]]", "\"hi\"", "[\"hi\"]"] {
        let body = format!("{{\"model\": \"tiny\", \"prompt\": {prompt}, \"max_tokens\": 1}}");
        assert_eq!(post(server.local_address(), PLAIN, body.as_bytes(), "").await.status, 200, "{prompt}");
        assert_eq!(seen.requests.lock().unwrap().pop().unwrap().0.token_ids, [104, 105], "{prompt}");
    }
}

#[tokio::test]
async fn no_worker_is_503_with_the_time_to_try_again() {
    let refusal = GenerateError::Unavailable {
        reason: "no worker serves `tiny`".to_owned(),
        retry_after: Duration::from_millis(1500),
    };
    let (server, _) = Fake::new(Script::Refuse(refusal)).start(Limits::default()).await;
    let reply = post(server.local_address(), PLAIN, br#"{"model": "tiny", "prompt": "x"}"#, "").await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("2")));
    assert_eq!(reply.json()["error"]["message"], "no worker serves `tiny`");
}

#[tokio::test]
async fn failures_have_their_status() {
    for (refusal, status) in
        [(GenerateError::Invalid("no".to_owned()), 400), (GenerateError::Failed("broken".to_owned()), 500)]
    {
        let (server, _) = Fake::new(Script::Refuse(refusal)).start(Limits::default()).await;
        let body = br#"{"model": "tiny", "prompt": "x", "stream": true}"#;
        assert_eq!(post(server.local_address(), PLAIN, body, "").await.status, status);
    }
    let failure = GenerateError::Failed("the worker died".to_owned());
    let (server, _) = Fake::new(Script::Break(failure)).start(Limits::default()).await;
    let reply = post(server.local_address(), PLAIN, br#"{"model": "tiny", "prompt": "x"}"#, "").await;
    assert_eq!((reply.status, reply.json()["error"]["type"].as_str()), (500, Some("server_error")));
}

#[tokio::test]
async fn models_are_listed_as_published() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let address = server.local_address();
    let entry = r#"{"id":"tiny","object":"model","created":1796088552,"owned_by":"nvidia","context_window":4096}"#;
    let list = format!(r#"{{"object":"list","data":[{entry}]}}"#);
    assert_eq!(get(address, "GET", "/v1/models").await.body, list);
    assert_eq!(get(address, "GET", "/v1/models/tiny").await.body, entry);
    let missing = get(address, "GET", "/v1/models/none").await;
    assert_eq!((missing.status, missing.json()["error"]["code"].as_str()), (404, Some("model_not_found")));
}

#[tokio::test]
async fn pages_come_from_the_serving_side_and_a_head_request_has_no_body() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let address = server.local_address();
    assert_eq!(get(address, "GET", "/health").await.json()["status"], "healthy");
    assert_eq!(get(address, "GET", "/live").await.json()["status"], "live");
    let metrics = get(address, "GET", "/metrics").await;
    assert_eq!((metrics.header("content-type"), metrics.body.as_str()), (Some("text/plain; version=0.0.4"), "up 1\n"));
    let head = get(address, "HEAD", "/metrics").await;
    assert_eq!((head.status, head.header("content-length")), (200, Some("5")));
}

#[tokio::test]
async fn a_connection_is_used_again_and_pipelined_requests_are_answered_in_order() {
    let (server, _) = Fake::new(Script::Echo).start(Limits::default()).await;
    let mut client = Client::connect(server.local_address()).await;
    for prompt in ["aa", "bbb", "cccc"] {
        let body = format!("{{\"model\": \"tiny\", \"prompt\": \"{prompt}\", \"max_tokens\": 9, \"stream\": true}}");
        client.post(PLAIN, body.as_bytes(), "").await;
    }
    for prompt in ["aa", "bbb", "cccc"] {
        let reply = client.reply().await.unwrap();
        let events = reply.body.split("\n\n").filter(|event| event.contains(&format!("\"text\":\"{}\"", &prompt[..1])));
        assert_eq!(events.count(), prompt.len(), "{}", reply.body);
    }
    client.post(PLAIN, br#"{"model": "none", "prompt": "x"}"#, "").await;
    assert_eq!(client.reply().await.unwrap().status, 404, "an error leaves the connection usable");
    client.post(PLAIN, br#"{"model": "tiny", "prompt": "x"}"#, "connection: close\r\n").await;
    assert_eq!(client.reply().await.unwrap().status, 200);
    assert!(client.is_closed().await);
}
