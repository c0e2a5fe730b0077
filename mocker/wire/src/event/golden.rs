//! Messages recorded from release 1.6.1: ours must read them and be written byte for byte like them.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::envelope::Envelope;
use super::payload::*;
use super::vllm::{VllmEvent, batch};
use crate::codec::Codec;

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(hex: &str, expected: &T) {
    assert_eq!(Codec::MessagePack.decode::<T>(&bytes(hex)).unwrap(), *expected);
    assert_eq!(Codec::MessagePack.encode(expected).unwrap(), bytes(hex), "written otherwise than published");
}

fn change(event_id: u64, data: EventData) -> Vec<RouterEvent> {
    vec![RouterEvent::new(WORKER, CacheEvent { event_id, data, dp_rank: 0 })]
}

fn stored(parent_hash: Option<u64>, blocks: &[(u64, u64)]) -> EventData {
    let block = |&(block_hash, tokens_hash): &_| BlockData { block_hash, tokens_hash, mm_extra_info: None };
    let blocks = blocks.iter().map(block).collect();
    EventData::Stored(StoredBlocks { parent_hash, start_position: None, blocks })
}

fn first_event() -> Vec<RouterEvent> {
    change(1, stored(None, &[(FIRST, FIRST), (SECOND, 11_407_239_804_111_175_307)]))
}

#[test]
fn cache_changes_are_written_as_published() {
    same(KV_EVENT_1, &first_event());
    same(KV_EVENT_2, &change(2, stored(Some(SECOND), &[(16_935_895_552_869_002_341, 10_973_838_154_947_661_830)])));
    same(KV_EVENT_12, &change(12, EventData::Removed { block_hashes: vec![7_110_752_207_733_397_828] }));
}

#[test]
fn loads_are_written_as_published() {
    same(LOAD, &KvMetrics { worker_id: WORKER, kv_used_blocks: Some(3), ..KvMetrics::default() });
}

#[test]
fn passes_are_written_as_published() {
    let batch = ScheduledRequests { num_prefill_requests: 1, sum_prefill_tokens: 182, ..Default::default() };
    let pass = ForwardPassMetrics {
        version: 1,
        worker_id: WORKER.to_string(),
        counter_id: 3,
        wall_time: 0.000_192_787_999_999_836_74,
        scheduled_requests: batch,
        ..ForwardPassMetrics::default()
    };
    same(PASS, &pass);
}

#[test]
fn recovery_requests_and_answers_are_written_as_published() {
    let request = RecoveryRequest {
        worker_id: 0x77,
        supports_tree_dump_failed: true,
        kind: Some(RECOVERY.to_owned()),
        ..RecoveryRequest::default()
    };
    same(REQUEST, &request);
    let too_new =
        RecoveryResponse::TooNew { requested_start: Some(1000), requested_end: Some(10), newest_available: 10 };
    same(TOO_NEW, &too_new);
    same(INVALID_RANGE, &RecoveryResponse::InvalidRange { start_id: 5, end_id: 3 });
    let dump = RecoveryResponse::TreeDump { events: Vec::new(), last_event_id: 0, reset_scope: ResetScope::All };
    same(EMPTY_DUMP, &dump);
}

#[test]
fn the_whole_zmq_message_is_written_as_published() {
    let payload = Codec::MessagePack.encode(&first_event()).unwrap();
    let envelope = Envelope {
        publisher_id: PUBLISHER,
        sequence: 0,
        published_at: 0x01a2_2f38_61a8,
        topic: "kv-events",
        payload: &payload,
    };
    let body = Bytes::from(bytes(ENVELOPE));
    let number = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
    let frames = [Bytes::from_static(b"kv-events"), number(PUBLISHER), number(0), body.clone()];
    assert_eq!(Envelope::decode_frames(&frames).unwrap(), envelope);
    assert_eq!(envelope.to_bytes(), body[5..], "as over NATS");
    assert!(envelope.to_frames().ends_with(&body));
}

#[test]
fn frames_that_contradict_the_envelope_are_refused() {
    let number = |number: u64| Bytes::copy_from_slice(&number.to_be_bytes());
    let topic = Bytes::from_static(b"kv-events");
    let body = Bytes::from(bytes(ENVELOPE));
    let cases = [
        (vec![topic.clone(), number(PUBLISHER), body.clone()], "3 frames"),
        (vec![Bytes::from_static(b"kv-event"), number(PUBLISHER), number(0), body.clone()], "differ"),
        (vec![topic.clone(), number(PUBLISHER), number(1), body.clone()], "differ"),
        (vec![topic.clone(), Bytes::from_static(b"1"), number(0), body.clone()], "8 bytes"),
        (vec![topic.clone(), number(PUBLISHER), number(0), body.slice(1..)], "another version"),
        (vec![topic.clone(), number(PUBLISHER), number(0), body.slice(..4)], "too short"),
        (vec![topic.clone(), number(PUBLISHER), number(0), body.slice(..100)], "length differs"),
    ];
    for (frames, expected) in cases {
        let error = Envelope::decode_frames(&frames).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} should say: {expected}");
    }
    for cut in 5..body.len() {
        assert!(Envelope::decode(&body[5..cut]).is_err(), "cut off after {cut} bytes");
    }
}

#[test]
fn batches_are_written_as_vllm_does() {
    let removed = VllmEvent::Removed { block_hashes: vec![7_110_752_207_733_397_828] };
    assert_eq!(batch::encode(REMOVED_AT, &[removed], 0), bytes(VLLM_REMOVED));
    let text = "abcdefgh ".repeat(6).bytes().map(u32::from).collect::<Vec<_>>();
    let generated = [
        2_754_779_820,
        3_827_990_954,
        1_700_458_419,
        1_526_620_902,
        390_374_743,
        1_467_708_475,
        3_649_065_230,
        1_799_548_518,
        3_244_240_033,
        1_919_247_092,
    ];
    let stored = VllmEvent::Stored {
        block_hashes: vec![625_304_664_530_093_945],
        parent_block_hash: Some(SECOND),
        token_ids: [&text[..], &generated].concat(),
        block_size: 64,
    };
    assert_eq!(batch::encode(STORED_AT, &[stored], 0), bytes(VLLM_STORED));
}

const WORKER: u64 = 10_803_479_202_108_216_567;
const PUBLISHER: u64 = 0x0002_759f_fb6f_d189;
const FIRST: u64 = 1_884_095_022_776_870_853;
const SECOND: u64 = 17_357_802_485_560_329_866;
const STORED_AT: f64 = 1_796_088_817.640_395_4;
const REMOVED_AT: f64 = 1_796_088_817.708_137_3;

const REQUEST: &str = "86a9776f726b65725f696477a764705f72616e6b00ae73746172745f6576656e745f6964c0ac656e645f6576656e745f6964c0b9737570\
     706f7274735f747265655f64756d705f6661696c6564c3a46b696e64a87265636f76657279";
const TOO_NEW: &str = "81a6546f6f4e657783af7265717565737465645f7374617274cd03e8ad7265717565737465645f656e640ab06e65776573745f617661\
     696c61626c650a";
const INVALID_RANGE: &str = "81ac496e76616c696452616e676582a873746172745f696405a6656e645f696403";
const EMPTY_DUMP: &str =
    "81a85472656544756d7083a66576656e747390ad6c6173745f6576656e745f696400ab72657365745f73636f7065a3616c6c";
const PASS: &str = "87a776657273696f6e01a9776f726b65725f6964b43130383033343739323032313038323136353637a764705f72616e6b00\
     aa636f756e7465725f696403a977616c6c5f74696d65cb3f2944e44f641893b27363686564756c65645f7265717565737473\
     87b46e756d5f70726566696c6c5f726571756573747301b273756d5f70726566696c6c5f746f6b656e73ccb6b27661725f70\
     726566696c6c5f6c656e677468cb0000000000000000b573756d5f70726566696c6c5f6b765f746f6b656e7300b36e756d5f\
     6465636f64655f726571756573747300b473756d5f6465636f64655f6b765f746f6b656e7300b47661725f6465636f64655f\
     6b765f746f6b656e73cb0000000000000000af7175657565645f726571756573747386b46e756d5f70726566696c6c5f7265\
     71756573747300b273756d5f70726566696c6c5f746f6b656e7300b27661725f70726566696c6c5f6c656e677468cb000000\
     0000000000b36e756d5f6465636f64655f726571756573747300b473756d5f6465636f64655f6b765f746f6b656e7300b476\
     61725f6465636f64655f6b765f746f6b656e73cb0000000000000000";
const KV_EVENT_1: &str = "9184a9776f726b65725f6964cf95edab1853fb14f7ac73746f726167655f74696572a6646576696365b07265736964656e63\
     795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696401a46461746181a673746f72656483ab706172\
     656e745f68617368c0ae73746172745f706f736974696f6ec0a6626c6f636b739283aa626c6f636b5f68617368cf1a25a670\
     dbb267c5ab746f6b656e735f68617368cf1a25a670dbb267c5ad6d6d5f65787472615f696e666fc083aa626c6f636b5f6861\
     7368cff0e34d652137468aab746f6b656e735f68617368cf9e4ea829e7be3e8bad6d6d5f65787472615f696e666fc0a76470\
     5f72616e6b00";
const LOAD: &str = "85a9776f726b65725f6964cf95edab1853fb14f7a764705f72616e6b00b46163746976655f6465636f64655f626c6f636b73\
     c0b56163746976655f70726566696c6c5f746f6b656e73c0ae6b765f757365645f626c6f636b7303";
const KV_EVENT_2: &str = "9184a9776f726b65725f6964cf95edab1853fb14f7ac73746f726167655f74696572a6646576696365b07265736964656e63\
     795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f696402a46461746181a673746f72656483ab706172\
     656e745f68617368cff0e34d652137468aae73746172745f706f736974696f6ec0a6626c6f636b739183aa626c6f636b5f68\
     617368cfeb0863466ddfec65ab746f6b656e735f68617368cf984ae7a8f8489006ad6d6d5f65787472615f696e666fc0a764\
     705f72616e6b00";
const KV_EVENT_12: &str = "9184a9776f726b65725f6964cf95edab1853fb14f7ac73746f726167655f74696572a6646576696365b07265736964656e63\
     795f646f6d61696ea6776f726b6572a56576656e7483a86576656e745f69640ca46461746181a772656d6f76656481ac626c\
     6f636b5f68617368657391cf62ae777563c61944a764705f72616e6b00";
const ENVELOPE: &str = "010000015285ac7075626c69736865725f6964cf0002759ffb6fd189a873657175656e636500ac7075626c69736865645f61\
     74cf000001a22f3861a8a5746f706963a96b762d6576656e7473a77061796c6f6164c501009184a9776f726b65725f6964cf\
     95edab1853fb14f7ac73746f726167655f74696572a6646576696365b07265736964656e63795f646f6d61696ea6776f726b\
     6572a56576656e7483a86576656e745f696401a46461746181a673746f72656483ab706172656e745f68617368c0ae737461\
     72745f706f736974696f6ec0a6626c6f636b739283aa626c6f636b5f68617368cf1a25a670dbb267c5ab746f6b656e735f68\
     617368cf1a25a670dbb267c5ad6d6d5f65787472615f696e666fc083aa626c6f636b5f68617368cff0e34d652137468aab74\
     6f6b656e735f68617368cf9e4ea829e7be3e8bad6d6d5f65787472615f696e666fc0a764705f72616e6b00";
const VLLM_STORED: &str = "93cb41dac388fc68fc3d9186a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf08ad874785b6\
     0779b1706172656e745f626c6f636b5f68617368cff0e34d652137468aa9746f6b656e5f696473dc00406162636465666768\
     20616263646566676820616263646566676820616263646566676820616263646566676820616263646566676820cea4329a\
     accee42a81aace655aefb3ce5afe62e6ce1744a557ce577b743bced980510ece6b42ee66cec15f2ca1ce726562f4aa626c6f\
     636b5f73697a6540a967726f75705f6964780000";
const VLLM_REMOVED: &str = "93cb41dac388fc6d521f9183a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf62ae777563\
     c61944a967726f75705f6964780000";
