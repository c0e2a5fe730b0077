//! What routers hear and can ask for.

use dynosim_wire::codec::Codec;
use dynosim_wire::discovery::{Bucket, ChannelRecord, Record, SourceRecord};
use dynosim_wire::event::{EventData, EventSubscriber, KV_EVENTS, RecoveryRequest, RecoveryResponse, RouterEvent};
use dynosim_wire::hash::block_hashes;
use dynosim_wire::protocol::RoutingHints;
use tokio::time::timeout;

use crate::setup::{BLOCK, DEADLINE, Graph, request};

const ARGS: &str =
    r#"{"block_size":16,"speedup_ratio":1000,"num_gpu_blocks":64,"enable_local_indexer":true,"dp_size":2}"#;

impl Graph {
    async fn sources(&self) -> Vec<(SourceRecord, ChannelRecord)> {
        let channels = self.records(Bucket::EventChannels).await;
        let sources = self.records(Bucket::EventSources).await.into_iter();
        let mut sources: Vec<_> = sources
            .filter_map(|record| match record {
                Record::EventSource(source) => Some(source),
                _ => None,
            })
            .map(|source| {
                let own = channels.iter().find_map(|channel| match channel {
                    Record::EventChannel(channel) if channel.instance_id == source.publisher_id => Some(channel),
                    _ => None,
                });
                (source, own.expect("a source has a channel").clone())
            })
            .collect();
        sources.sort_by_key(|(source, _)| source.metadata.worker.dp_rank);
        sources
    }

    async fn recover(&self, source: &SourceRecord, start: Option<u64>) -> RecoveryResponse {
        let target = source.metadata.recovery_target.as_ref().expect("a recovery endpoint");
        let query = RecoveryRequest {
            worker_id: source.metadata.worker.worker_id,
            dp_rank: source.metadata.worker.dp_rank,
            start_event_id: start,
            kind: Some("recovery".to_owned()),
            ..RecoveryRequest::default()
        };
        let mut stream = self.client.call_plain(target, "query", &query).await.expect("an answer");
        stream.next().await.expect("not broken").and_then(|item| item.data).expect("a response")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn routers_hear_of_every_block_once_with_both_hashes_and_can_ask_again() {
    let graph = Graph::new().await;
    let worker = graph.worker(graph.config(ARGS)).await;
    let sources = graph.sources().await;
    assert_eq!(sources.len(), 2);
    let (source, channel) = &sources[1];
    assert_eq!((source.metadata.worker.worker_id, source.metadata.worker.dp_rank), (worker.id(), 1));
    assert_eq!(channel.topic, KV_EVENTS);
    let mut subscriber = EventSubscriber::connect(&graph.runtime, channel).await.expect("a subscriber");

    // A subscription takes effect some time after it was made, also amid a request: other prompts are sent until one comes
    // after an event was heard.
    let mut heard: Vec<RouterEvent> = Vec::new();
    let mut tokens = Vec::new();
    for attempt in 0..50 {
        let stands = !heard.is_empty();
        let mut ask = request(attempt * 1000..attempt * 1000 + 100, 30);
        ask.routing = Some(RoutingHints { dp_rank: Some(1), ..RoutingHints::default() });
        let answer = graph.ask(&worker, &ask).await.expect("an answer");
        tokens = ask.token_ids.iter().copied().chain(answer.tokens).collect();
        let wait = std::time::Duration::from_millis(200);
        while let Ok(Some(message)) = timeout(wait, subscriber.next()).await {
            let batch: Vec<RouterEvent> = Codec::MessagePack.decode(&message.payload).expect("events");
            heard.extend(batch);
        }
        if stands {
            break;
        }
    }
    let expected = block_hashes(&tokens, BLOCK as usize);
    let blocks: Vec<_> = heard
        .iter()
        .filter_map(|event| match &event.event.data {
            EventData::Stored(stored) => Some(stored.blocks.iter().map(|block| (block.block_hash, block.tokens_hash))),
            _ => None,
        })
        .flatten()
        .filter(|(hash, _)| expected.iter().any(|block| block.sequence == *hash))
        .collect();
    // The last token is never computed, so its block is not full.
    let expected: Vec<_> = expected.iter().map(|block| (block.sequence, block.local)).take(129 / 16).collect();
    assert_eq!(blocks, expected);
    let ids: Vec<_> = heard.iter().map(|event| event.event.event_id).collect();
    assert!(ids.windows(2).all(|pair| pair[1] == pair[0] + 1), "{ids:?}");

    match graph.recover(source, Some(1)).await {
        RecoveryResponse::Events { events, last_event_id } => {
            assert_eq!(events.first().map(|event| event.event.event_id), Some(1));
            assert_eq!(Some(&last_event_id), ids.last());
        }
        other => panic!("{other:?}"),
    }
    let RecoveryResponse::TreeDump { events, .. } = graph.recover(&sources[0].0, None).await else {
        panic!("the whole tree was asked for");
    };
    assert!(events.is_empty(), "nothing ran on rank 0");
    timeout(DEADLINE, worker.drain(DEADLINE)).await.expect("in time");
    assert!(graph.sources().await.is_empty());
}
