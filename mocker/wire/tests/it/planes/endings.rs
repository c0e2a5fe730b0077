//! How answers end: well, refused, cancelled, broken.

use dynosim_wire::protocol::{EngineOutput, PreprocessedRequest};
use dynosim_wire::request::{Call, CallError};
use dynosim_wire::response::{Cancel, StreamError};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{DEADLINE, Pair, all_tokens, answering, send_tokens};

fn request() -> PreprocessedRequest {
    PreprocessedRequest::default()
}

#[tokio::test]
async fn refusals_say_why_and_whether_another_worker_may_be_tried() {
    let Pair { client, record, server: _server } = Pair::tcp(answering(async |call: Call| {
        let refused = if call.id == "bad" {
            call.responder.refuse("prompt too long").await
        } else {
            call.responder.decline("full").await
        };
        refused.unwrap();
    }))
    .await;
    let error = client.call::<EngineOutput>(&record, "bad", &request()).await.unwrap_err();
    assert!(matches!(&error, CallError::Failed(reason) if reason == "prompt too long"), "{error}");
    let error = client.call::<EngineOutput>(&record, "other", &request()).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused { reason, .. } if reason == "full"), "{error}");
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_any_more_refuses() {
    let Pair { client, record, server } = Pair::tcp(answering(async |call: Call| {
        call.responder.open().await.unwrap().finish().await.unwrap();
    }))
    .await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    assert!(all_tokens(&mut stream).await.unwrap().is_empty());
    server.remove(&super::endpoint(), super::INSTANCE).await;
    let error = client.call::<EngineOutput>(&record, "2", &request()).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Refused { reason, .. } if reason.starts_with("Server unavailable:")),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_is_closed_is_unreachable_and_its_answers_go_on() {
    let (sender, mut sinks) = mpsc::unbounded_channel();
    let Pair { client, record, server } = Pair::tcp(answering(move |call: Call| {
        let sender = sender.clone();
        async move { sender.send(call.responder.open().await.unwrap()).unwrap() }
    }))
    .await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    server.close().await;
    let error = timeout(DEADLINE, client.call::<EngineOutput>(&record, "2", &request())).await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Unreachable { .. }), "{error}");
    let mut sink = sinks.recv().await.unwrap();
    send_tokens(&mut sink, 0..3).await;
    let (finished, tokens) = tokio::join!(sink.finish(), all_tokens(&mut stream));
    finished.unwrap();
    assert_eq!(tokens.unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn a_worker_that_dies_in_the_middle_breaks_the_stream() {
    let Pair { client, record, server: _server } = Pair::tcp(answering(async |call: Call| {
        let mut sink = call.responder.open().await.unwrap();
        send_tokens(&mut sink, 0..2).await;
    }))
    .await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap().data.unwrap().token_ids, [0]);
    let error = timeout(DEADLINE, all_tokens(&mut stream)).await.unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Broken { .. }), "{error}");
    assert!(error.to_string().contains("before the final frame"), "{error}");
}

/// A worker that streams until it is cancelled and tells how.
async fn cancelled_worker() -> (Pair, mpsc::UnboundedReceiver<Cancel>) {
    let (sender, cancels) = mpsc::unbounded_channel();
    let pair = Pair::tcp(answering(move |call: Call| {
        let sender = sender.clone();
        async move {
            let mut sink = call.responder.open().await.unwrap();
            send_tokens(&mut sink, 0..2).await;
            let cancel = sink.cancelled().await;
            sender.send(cancel).unwrap();
            if cancel == Cancel::Stop {
                send_tokens(&mut sink, 2..3).await;
                sink.finish().await.unwrap();
            }
        }
    }));
    (pair.await, cancels)
}

#[tokio::test]
async fn a_stop_is_heard_and_what_is_left_still_comes() {
    let (Pair { client, record, server: _server }, mut cancels) = cancelled_worker().await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    stream.stop().await;
    assert_eq!(timeout(DEADLINE, cancels.recv()).await.unwrap(), Some(Cancel::Stop));
    assert_eq!(timeout(DEADLINE, all_tokens(&mut stream)).await.unwrap().unwrap(), [0, 1, 2]);
}

#[tokio::test]
async fn a_stream_that_is_dropped_kills_whether_or_not_it_was_read() {
    let (Pair { client, record, server: _server }, mut cancels) = cancelled_worker().await;
    for read in [0, 1, 2] {
        let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
        for _ in 0..read {
            stream.next().await.unwrap();
        }
        drop(stream);
        assert_eq!(timeout(DEADLINE, cancels.recv()).await.unwrap(), Some(Cancel::Kill));
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_is_not_answered() {
    let (sender, mut calls) = mpsc::unbounded_channel();
    let Pair { client, record, server: _server } = Pair::tcp(move |call| sender.send(call).unwrap()).await;
    let calling = tokio::spawn(async move { client.call::<EngineOutput>(&record, "1", &request()).await.map(drop) });
    let call: Call = timeout(DEADLINE, calls.recv()).await.unwrap().unwrap();
    calling.abort();
    assert!(calling.await.unwrap_err().is_cancelled());
    let killed = async {
        match call.responder.open().await {
            Ok(mut sink) => assert_eq!(sink.cancelled().await, Cancel::Kill),
            // The listener went with the last client.
            Err(error) => assert!(error.to_string().contains("refused"), "{error}"),
        }
    };
    timeout(DEADLINE, killed).await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_holds_the_worker_back() {
    let (sender, mut counts) = mpsc::unbounded_channel();
    let Pair { client, record, server: _server } = Pair::tcp(answering(move |call: Call| {
        let sender = sender.clone();
        async move {
            let mut sink = call.responder.open().await.unwrap();
            // 64 MB in all, far more than the buffers of two sockets.
            for block in 0..64_000 {
                sink.push_tokens(&[block; 200]);
                sink.flush().await.unwrap();
                let _ = sender.send(block);
            }
            sink.finish().await.unwrap();
        }
    }))
    .await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    // It is held back once nothing more was sent for a while.
    let mut sent = 0;
    while let Ok(Some(block)) = timeout(std::time::Duration::from_millis(500), counts.recv()).await {
        sent = block;
    }
    assert!(sent < 50_000, "{sent} blocks were sent to a reader that did not read");
    assert_eq!(all_tokens(&mut stream).await.unwrap().len(), 64_000 * 200);
}

#[tokio::test]
async fn a_worker_that_waits_for_a_reader_hears_that_it_has_gone() {
    let (sender, mut ends) = mpsc::unbounded_channel();
    let Pair { client, record, server: _server } = Pair::tcp(answering(move |call: Call| {
        let sender = sender.clone();
        async move {
            let mut sink = call.responder.open().await.unwrap();
            let end = loop {
                sink.push_tokens(&[7; 1000]);
                if let Err(error) = sink.flush().await {
                    break error;
                }
            };
            sender.send(end.to_string()).unwrap();
        }
    }))
    .await;
    let mut stream = client.call::<EngineOutput>(&record, "1", &request()).await.unwrap();
    stream.next().await.unwrap();
    drop(stream);
    assert!(timeout(DEADLINE, ends.recv()).await.unwrap().is_some());
}

#[tokio::test]
async fn a_request_that_a_dying_worker_has_taken_fails_soon() {
    let (sender, mut calls) = mpsc::unbounded_channel();
    let Pair { client, record, server } = Pair::tcp(move |call| sender.send(call).unwrap()).await;
    let calling = tokio::spawn(async move { client.call::<EngineOutput>(&record, "1", &request()).await.map(drop) });
    let _unanswered: Call = timeout(DEADLINE, calls.recv()).await.unwrap().unwrap();
    server.close().await;
    let error = timeout(DEADLINE, calling).await.unwrap().unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Unreachable { .. }), "{error}");
}
