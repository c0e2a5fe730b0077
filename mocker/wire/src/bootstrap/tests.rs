use super::*;
use crate::limits::MAX_BOOTSTRAP_FRAME_BYTES;

/// Conversations of the release that is followed, line by line: who spoke, and the JSON of the frame.
const RECORDED: [(&str, &str); 2] = [
    ("vLLM, with a transfer of 10 ms", include_str!("tests/source_first.txt")),
    ("SGLang, with a transfer of 10 ms", include_str!("tests/destination_first.txt")),
];

fn framed(json: &[u8]) -> Vec<u8> {
    let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(json);
    bytes
}

fn identity() -> Identity {
    Identity { handoff_id: uuid::Uuid::from_u128(1), bootstrap_room: 2, request_id: uuid::Uuid::from_u128(3) }
}

fn with_message(message: &str) -> Vec<u8> {
    let identity = serde_json::to_string(&identity()).unwrap();
    framed(format!(r#"{{"identity":{identity},"message":{message}}}"#).as_bytes())
}

#[test]
fn recorded_conversations_are_read_and_written_byte_for_byte() {
    for (name, conversation) in RECORDED {
        assert_eq!(conversation.lines().count(), 9, "{name}");
        for line in conversation.lines() {
            let (_, json) = line.split_once(' ').unwrap();
            let bytes = framed(json.as_bytes());
            let (frame, used) = decode(&bytes).unwrap().expect("whole");
            assert_eq!(used, bytes.len());
            let mut again = Vec::new();
            encode_into(&frame, &mut again).unwrap();
            assert_eq!(again, bytes, "{name}: {json}");
        }
    }
}

#[test]
fn a_recorded_conversation_goes_in_the_order_of_its_engine() {
    let first_action = |conversation: &str| {
        let frames = conversation.lines().map(|line| line.split_once(' ').unwrap().1);
        let messages: Vec<Message> = frames.map(|json| serde_json::from_str::<Frame>(json).unwrap().message).collect();
        let Message::Register(registration) = &messages[0] else { panic!("{:?}", messages[0]) };
        assert_eq!(registration.engine_type.order(), Some(registration.order));
        let held = messages.iter().position(|message| matches!(message, Message::Fact(Fact::SourceHeld { .. })));
        let action = messages.iter().position(|message| matches!(message, Message::Action(_)));
        (held.unwrap(), action.unwrap())
    };
    let (held, reserve) = first_action(RECORDED[0].1);
    assert!(held < reserve);
    let (held, reserve) = first_action(RECORDED[1].1);
    assert!(reserve < held);
}

#[test]
fn frames_in_one_buffer_come_one_after_the_other() {
    let mut bytes = Vec::new();
    for message in [Message::Registered, Message::Complete] {
        encode_into(&Frame { identity: identity(), message }, &mut bytes).unwrap();
    }
    let (first, used) = decode(&bytes).unwrap().unwrap();
    assert_eq!(first.message, Message::Registered);
    let (second, rest) = decode(&bytes[used..]).unwrap().unwrap();
    assert_eq!((second.message, used + rest), (Message::Complete, bytes.len()));
}

#[test]
fn half_a_frame_is_waited_for() {
    let bytes = with_message("\"Complete\"");
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).unwrap().is_none(), "{cut}");
    }
}

#[test]
fn fields_that_are_not_known_are_ignored() {
    for message in [
        r#"{"Register":{"role":"Destination","dp_rank":0,"order":"SourceFirst","engine_type":"vllm","more":1}}"#,
        r#"{"Abort":{"message":"gone","code":7}}"#,
    ] {
        assert!(decode(&with_message(message)).unwrap().is_some(), "{message}");
    }
}

#[test]
fn the_longest_frame_is_taken_and_one_byte_more_refused_before_it_comes() {
    let around = with_message(r#"{"Abort":{"message":""}}"#).len() - 4;
    let longest = Message::Abort { message: "x".repeat(MAX_BOOTSTRAP_FRAME_BYTES - around) };
    let mut bytes = Vec::new();
    encode_into(&Frame { identity: identity(), message: longest }, &mut bytes).unwrap();
    assert_eq!(bytes.len(), 4 + MAX_BOOTSTRAP_FRAME_BYTES);
    assert!(decode(&bytes).unwrap().is_some());

    let longer = Message::Abort { message: "x".repeat(MAX_BOOTSTRAP_FRAME_BYTES - around + 1) };
    let mut bytes = vec![7];
    let error = encode_into(&Frame { identity: identity(), message: longer }, &mut bytes).unwrap_err();
    assert!(error.to_string().contains("65537"), "{error}");
    assert_eq!(bytes, [7], "nothing was appended");
    for announced in [MAX_BOOTSTRAP_FRAME_BYTES as u32 + 1, 1 << 24, u32::MAX] {
        assert!(matches!(decode(&announced.to_le_bytes()), Err(FrameError::Length(_))), "{announced}");
    }
}

#[test]
fn bad_headers_are_refused_by_what_is_bad() {
    for (header, expected) in [
        (*b"XMHF\x01\0\0\0", "begins with"),
        (*b"GET / HT", "begins with"),
        (*b"\0\0\0\0\0\0\0\0", "begins with"),
        (*b"DMHF\x00\0\0\0", "version 0"),
        (*b"DMHF\x02\0\0\0", "version 2"),
        (*b"DMHF\x00\x01\0\0", "version 256"),
        (*b"DMHF\x01\0\x01\0", "flags 0x0001"),
        (*b"DMHF\x01\0\0\x80", "flags 0x8000"),
    ] {
        let error = check_header(&header).unwrap_err().to_string();
        assert!(error.contains(expected), "{header:?}: {error}");
    }
    check_header(&HEADER).unwrap();
}

#[test]
fn bad_frames_are_refused() {
    let good = r#"{"handoff_id":"00000000-0000-0000-0000-000000000001","bootstrap_room":2,"request_id":"00000000-0000-0000-0000-000000000003"}"#;
    let whole = |identity: &str, message: &str| format!(r#"{{"identity":{identity},"message":{message}}}"#);
    let of = |message: &str| whole(good, message);
    let rows: Vec<(&str, String)> = vec![
        ("no JSON", "{]".into()),
        ("cut JSON", of("\"Complete\"").trim_end_matches('}').into()),
        ("more after the JSON", of("\"Complete\"") + "{}"),
        ("a list", "[]".into()),
        ("null", "null".into()),
        ("no message", format!(r#"{{"identity":{good}}}"#)),
        ("no identity", r#"{"message":"Complete"}"#.into()),
        ("identity null", whole("null", "\"Complete\"")),
        ("handoff id no uuid", whole(&good.replace("00000000-0000-0000-0000-000000000001", "h"), "\"Complete\"")),
        ("request id no uuid", whole(&good.replace("00000000-0000-0000-0000-000000000003", "r"), "\"Complete\"")),
        ("room negative", whole(&good.replace(":2,", ":-2,"), "\"Complete\"")),
        ("room above u64", whole(&good.replace(":2,", ":18446744073709551616,"), "\"Complete\"")),
        ("room a fraction", whole(&good.replace(":2,", ":2.5,"), "\"Complete\"")),
        ("room missing", whole(&good.replace("\"bootstrap_room\":2,", ""), "\"Complete\"")),
        ("unknown message", of("\"Hello\"")),
        ("unknown message with content", of(r#"{"Hello":{}}"#)),
        ("two messages", of(r#"{"Abort":{"message":""},"Complete":null}"#)),
        ("message without its content", of("\"Abort\"")),
        ("abort without a reason", of(r#"{"Abort":{}}"#)),
        (
            "register without a rank",
            of(r#"{"Register":{"role":"Destination","order":"SourceFirst","engine_type":"vllm"}}"#),
        ),
        ("unknown order", of(r#"{"Register":{"role":"Destination","dp_rank":0,"order":"Both","engine_type":"vllm"}}"#)),
        (
            "unknown engine",
            of(r#"{"Register":{"role":"Destination","dp_rank":0,"order":"SourceFirst","engine_type":"x"}}"#),
        ),
        ("unknown fact", of(r#"{"Fact":{"Rumour":{"handoff_id":"00000000-0000-0000-0000-000000000001"}}}"#)),
        (
            "held without a timing",
            of(
                r#"{"Fact":{"SourceHeld":{"handoff_id":"00000000-0000-0000-0000-000000000001","transfer_timing":null}}}"#,
            ),
        ),
        (
            "unknown mode",
            of(
                r#"{"Fact":{"SourceHeld":{"handoff_id":"00000000-0000-0000-0000-000000000001","transfer_timing":{"mode":"none","full_prompt_tokens":1,"kv_bytes_per_token":null,"bandwidth_gb_s":null}}}}"#,
            ),
        ),
        (
            "unknown action",
            of(r#"{"Action":{"id":1,"action":{"Dance":{"handoff_id":"00000000-0000-0000-0000-000000000001"}}}}"#),
        ),
        (
            "action without a number",
            of(r#"{"Action":{"action":{"ReserveDestination":{"handoff_id":"00000000-0000-0000-0000-000000000001"}}}}"#),
        ),
        (
            "action that starts a transfer",
            of(
                r#"{"Action":{"id":1,"action":{"StartTransfer":{"handoff_id":"00000000-0000-0000-0000-000000000001"}}}}"#,
            ),
        ),
        ("unknown outcome", of(r#"{"ActionAck":{"action_id":1,"outcome":"Rejected"}}"#)),
        ("deep nesting", of(&"[".repeat(10_000))),
    ];
    for (name, json) in rows {
        assert!(matches!(decode(&framed(json.as_bytes())), Err(FrameError::Json(_))), "{name}: {json:.200}");
    }
    assert!(matches!(decode(&framed(b"")), Err(FrameError::Length(0))));
    let mut not_text = framed(of(r#"{"Abort":{"message":"?"}}"#).as_bytes());
    let at = not_text.iter().position(|&byte| byte == b'?').unwrap();
    not_text[at] = 0xff;
    assert!(matches!(decode(&not_text), Err(FrameError::Json(_))));
}

#[test]
fn the_fuzzing_entry_takes_a_whole_conversation_and_any_cut_of_it() {
    let mut bytes = HEADER.to_vec();
    for line in RECORDED[0].1.lines() {
        bytes.extend(framed(line.split_once(' ').unwrap().1.as_bytes()));
    }
    for cut in (0..bytes.len()).step_by(7) {
        let _ = fuzzing::bootstrap_stream(&bytes[..cut]);
    }
    assert!(fuzzing::bootstrap_stream(&bytes));
}
