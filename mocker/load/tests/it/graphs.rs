//! Requests that wait for others, sent to a server.

use dynosim_load::LoadConfig;
use dynosim_workload::{OpenOptions, TraceFormat, open_bytes};

use crate::server::{Pace, Server};
use crate::setup::{config, run};

/// A request that two wait for, one that waits for these two, and one that is independent.
const TRACE: &str = r#"{"request_id":"a","session_id":"a","timestamp":0,"input_length":100,"output_length":3,"hash_ids":[1]}
{"request_id":"b","session_id":"b","input_length":100,"output_length":3,"hash_ids":[1],"wait_for":["a"],"delay":20}
{"request_id":"c","session_id":"c","input_length":100,"output_length":3,"hash_ids":[1],"wait_for":["a"]}
{"request_id":"d","session_id":"a","input_length":200,"output_length":3,"hash_ids":[1],"wait_for":["b","c"],"tool_wait_ms":5}
{"request_id":"e","timestamp":300,"input_length":100,"output_length":3,"hash_ids":[2]}
"#;

#[test]
fn a_request_is_sent_after_all_it_waits_for_and_its_delay() {
    let server = Server::start(Pace::default());
    let options = OpenOptions { format: TraceFormat::AgenticMooncake, engine_block_size: 1, ..OpenOptions::default() };
    let mut workload = open_bytes("trace", TRACE.into(), &options).unwrap().workload;
    let ran = run(&LoadConfig { block_size: 1, ..config(&server.url()) }, &mut *workload);
    assert_eq!((ran.report["num_requests"].as_u64(), ran.outcome.completed), (Some(5), 5));
    let number = |session: &str, turn: u64, key: &str| {
        let row = ran.rows.iter().find(|row| row["session_id"] == session && row["turn_index"] == turn).unwrap();
        row[key].as_f64().unwrap()
    };
    let sent = |session: &str, turn| number(session, turn, "arrival_time_ms");
    let ended = |session: &str, turn| number(session, turn, "last_token_ms");
    assert!(sent("b", 0) >= ended("a", 0) + 20.0 && sent("c", 0) >= ended("a", 0), "{:?}", ran.rows);
    assert!(sent("a", 1) >= ended("b", 0).max(ended("c", 0)) + 5.0, "{:?}", ran.rows);
    assert!(sent("request_5", 0) >= 300.0, "{:?}", ran.rows);
}
