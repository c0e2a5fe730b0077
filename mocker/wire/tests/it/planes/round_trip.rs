//! A request goes out, its answer comes back.

use dynosim_wire::Codec;
use dynosim_wire::protocol::{Annotated, EngineOutput, FinishReason, PreprocessedRequest};
use tokio::time::timeout;

use super::{DEADLINE, Pair, all_tokens, answering};

fn request(tokens: u32) -> PreprocessedRequest {
    PreprocessedRequest { model: "tiny".to_owned(), token_ids: (0..tokens).collect(), ..PreprocessedRequest::default() }
}

/// Answers with the tokens of the prompt, one by one.
async fn echo(call: dynosim_wire::request::Call) {
    let request: PreprocessedRequest = call.decode().unwrap();
    let mut sink = call.responder.open().await.unwrap();
    for token in request.token_ids {
        sink.push_tokens(&[token]);
    }
    let last = EngineOutput { finish_reason: Some(FinishReason::Length), ..EngineOutput::default() };
    sink.push(&last).unwrap();
    sink.finish().await.unwrap();
}

#[tokio::test]
async fn a_prompt_comes_back_as_tokens_in_both_codecs() {
    let Pair { server, client, record } = Pair::tcp(answering(echo)).await;
    for codec in [Codec::MessagePack, Codec::Json] {
        let mut record = record.clone();
        record.request_plane_codec = codec;
        let mut stream = client.call::<EngineOutput>(&record, "one", &request(5)).await.unwrap();
        let mut items = Vec::new();
        while let Some(item) = timeout(DEADLINE, stream.next()).await.unwrap().unwrap() {
            items.push(item);
        }
        let token = |token| Annotated::of(EngineOutput { token_ids: vec![token], ..EngineOutput::default() });
        assert_eq!(items[..5], (0..5).map(token).collect::<Vec<_>>());
        assert_eq!(items[5].data.as_ref().unwrap().finish_reason, Some(FinishReason::Length));
        assert_eq!(stream.next().await.unwrap(), None, "the end stays the end");
    }
    client.close().await;
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_answers_stream_at_once() {
    let Pair { client, record, server: _server } = Pair::tcp(answering(echo)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let (client, record) = (client.clone(), record.clone());
        tasks.spawn(async move {
            let mut stream = client.call(&record, &number.to_string(), &request(number)).await.unwrap();
            assert_eq!(all_tokens(&mut stream).await.unwrap(), (0..number).collect::<Vec<_>>());
        });
    }
    let all = async { while tasks.join_next().await.transpose().unwrap().is_some() {} };
    timeout(DEADLINE * 3, all).await.unwrap();
}
