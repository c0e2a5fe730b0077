//! Requests over a real NATS server.

use dynosim_peers::{Nats, free_port};
use dynosim_wire::RequestPlane;
use dynosim_wire::protocol::{EngineOutput, PreprocessedRequest};
use dynosim_wire::request::{Call, CallError};
use tokio::time::timeout;

use super::until;
use super::{DEADLINE, Pair, all_tokens, answering, send_tokens};

async fn three_tokens(call: Call) {
    let mut sink = call.responder.open().await.unwrap();
    send_tokens(&mut sink, 0..3).await;
    sink.finish().await.unwrap();
}

async fn call(pair: &Pair) -> Result<Vec<u32>, CallError> {
    let request = PreprocessedRequest::default();
    let calling = pair.client.call::<EngineOutput>(&pair.record, "1", &request);
    let mut stream = timeout(DEADLINE * 2, calling).await.expect("a call hangs")?;
    Ok(all_tokens(&mut stream).await.unwrap())
}

#[tokio::test]
async fn requests_travel_over_nats_and_are_refused_when_nobody_listens() {
    let Some(nats) = Nats::start() else { return };
    let plane = RequestPlane::Nats(nats.url());
    let pair = Pair::new(plane, answering(three_tokens)).await;
    let expected = r#"{"nats_tcp":"dynamo_backend.generate-1234abcd"}"#;
    assert_eq!(serde_json::to_string(&pair.record.transport).unwrap(), expected);
    assert_eq!(call(&pair).await.unwrap(), [0, 1, 2]);
    pair.server.remove(&super::endpoint(), super::INSTANCE).await;
    let gone = until(DEADLINE, async || call(&pair).await.err()).await;
    assert!(matches!(gone, CallError::Unreachable { .. } | CallError::Refused { .. }), "{gone}");
    let gone = until(DEADLINE, async || {
        call(&pair).await.err().filter(|error| matches!(error, CallError::Unreachable { .. }))
    });
    assert!(gone.await.to_string().contains("no responders"));
}

#[tokio::test]
async fn requests_travel_again_after_nats_was_away() {
    let Some(mut nats) = Nats::start() else { return };
    let pair = Pair::new(RequestPlane::Nats(nats.url()), answering(three_tokens)).await;
    assert_eq!(call(&pair).await.unwrap(), [0, 1, 2]);
    nats.kill();
    let away = until(DEADLINE, async || call(&pair).await.err()).await;
    assert!(matches!(away, CallError::Unreachable { .. }), "{away}");
    nats.resume();
    let tokens = until(DEADLINE, async || call(&pair).await.ok()).await;
    assert_eq!(tokens, [0, 1, 2]);
}

#[tokio::test]
async fn a_prompt_that_nats_cannot_carry_is_too_large() {
    let Some(nats) = Nats::start() else { return };
    let pair = Pair::new(RequestPlane::Nats(nats.url()), answering(three_tokens)).await;
    let request = PreprocessedRequest { token_ids: vec![100_000; 300_000], ..PreprocessedRequest::default() };
    let error = pair.client.call::<EngineOutput>(&pair.record, "1", &request).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { limit: 1_048_576, .. }), "{error}");
}

#[tokio::test]
async fn a_nats_server_that_is_not_there_is_named() {
    let plane = RequestPlane::Nats(format!("nats://127.0.0.1:{}", free_port()));
    let error = dynosim_wire::request::RequestServer::start(&super::runtime(plane)).await.unwrap_err();
    assert!(error.to_string().starts_with("NATS nats://127.0.0.1:"), "{error}");
}
