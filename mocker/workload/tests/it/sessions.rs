//! Order and times of the turns of sessions.

use dynosim_engine::Nanos;
use dynosim_workload::{Arrivals, Trace, TraceOptions, Turn, Workload};
use proptest::prelude::*;

use crate::replay;

fn open(text: &str, options: &TraceOptions) -> Trace {
    Trace::from_bytes("trace.jsonl", text.as_bytes().to_vec(), options).unwrap()
}

fn ms(ms: f64) -> Nanos {
    Nanos::from_ms(ms)
}

/// All turns with their arrival or pause, session after session.
fn turns(trace: &mut Trace) -> Vec<(Nanos, Turn)> {
    let found = replay(trace).into_iter().map(|(time, turn, _)| (time, turn)).collect();
    assert_eq!(trace.take(&mut Vec::new()).unwrap(), None);
    found
}

const DOCUMENTED: &str = r#"
    {"session_id":"session-a","timestamp":1000,"input_length":2048,"output_length":128,"hash_ids":[1,2,3,4]}
    {"session_id":"session-a","delay_ms":50,"input_length":2560,"output_length":128,"hash_ids":[1,2,3,4,5]}
    {"session_id":"session-b","timestamp":1010,"input_length":1024,"output_length":64,"hash_ids":[9,10]}
    {"session_id":"session-b","timestamp":1060,"input_length":1536,"output_length":64,"hash_ids":[9,10,11]}
"#;

#[test]
fn the_documented_sessions_wait_as_documented() {
    let mut trace = open(DOCUMENTED, &TraceOptions::default());
    assert_eq!((trace.total_requests(), trace.total_sessions(), trace.is_multi_turn()), (4, 2, true));
    let found = turns(&mut trace);
    let times: Vec<Nanos> = found.iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [ms(0.0), ms(50.0), ms(10.0), ms(50.0)]);
    let inputs: Vec<u32> = found.iter().map(|(_, turn)| turn.input_tokens).collect();
    assert_eq!(inputs, [2048, 2560, 1024, 1536]);
    assert_eq!(trace.session_name(1), "session-b");
}

#[test]
fn a_speed_up_divides_gaps_and_pauses() {
    let options = TraceOptions { arrival_speedup_ratio: 4.0, ..TraceOptions::default() };
    let times: Vec<Nanos> = turns(&mut open(DOCUMENTED, &options)).iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [ms(0.0), ms(12.5), ms(2.5), ms(12.5)]);
}

#[test]
fn at_fixed_concurrency_arrivals_are_ignored_and_pauses_are_not() {
    let text = r#"
        {"session_id":"late","timestamp":1000,"output_length":1,"hash_ids":[1]}
        {"output_length":2,"hash_ids":[1]}
        {"session_id":"late","timestamp":1030,"output_length":3,"hash_ids":[1]}
        {"timestamp":5,"output_length":4,"hash_ids":[1]}
    "#;
    let options = TraceOptions { arrivals: Arrivals::InOrder, ..TraceOptions::default() };
    let mut trace = open(text, &options);
    let found = turns(&mut trace);
    let seen: Vec<_> = found.iter().map(|(time, turn)| (*time, turn.output_tokens)).collect();
    assert_eq!(seen, [(ms(0.0), 1), (ms(30.0), 3), (ms(0.0), 2), (ms(0.0), 4)]);
    assert_eq!(trace.session_name(0), "late");
    assert_eq!(trace.session_name(1), "request_2");
}

#[test]
fn pauses_count_from_the_last_timestamp_given() {
    let text = r#"
        {"session_id":"s","timestamp":100,"output_length":1,"hash_ids":[1]}
        {"session_id":"s","delay":7,"output_length":1,"hash_ids":[1]}
        {"session_id":"s","timestamp":130,"output_length":1,"hash_ids":[1]}
        {"session_id":"s","output_length":1,"hash_ids":[1]}
    "#;
    let times: Vec<Nanos> = turns(&mut open(text, &TraceOptions::default())).iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [ms(0.0), ms(7.0), ms(30.0), ms(0.0)]);
}

#[test]
fn priorities_and_policy_classes_travel_with_the_turn() {
    let text = r#"
        {"timestamp":0,"output_length":1,"hash_ids":[1],"priority":-2,"strict_priority":3,"policy_class":"batch"}
        {"timestamp":0,"output_length":1,"hash_ids":[1],"policy_class":"chat"}
        {"timestamp":0,"output_length":1,"hash_ids":[1],"policy_class":"batch"}
    "#;
    let mut trace = open(text, &TraceOptions::default());
    let found = turns(&mut trace);
    assert_eq!((found[0].1.priority, found[0].1.strict_priority), (-2, 3));
    let classes: Vec<_> = found.iter().map(|(_, turn)| turn.policy_class.unwrap()).collect();
    assert_eq!(classes, [0, 1, 0]);
    assert_eq!((trace.policy_class_name(1), trace.policy_class_name(2)), (Some("chat"), None));
}

#[test]
fn a_turn_is_taken_once() {
    let mut trace = open(DOCUMENTED, &TraceOptions::default());
    let mut hashes = Vec::new();
    let first = trace.take(&mut hashes).unwrap().unwrap();
    assert!(trace.take_next(0, &mut hashes).is_err());
    assert_eq!(trace.next_delay(&first), Some(ms(50.0)));
    assert!(trace.take_next(0, &mut hashes).is_ok());
    assert!(trace.take_next(0, &mut hashes).is_err());
}

/// A row: session if below 6, gap to the row before in microseconds.
fn rows() -> impl Strategy<Value = Vec<(u8, u32, bool)>> {
    prop::collection::vec((0u8..9, 0u32..5_000_000, any::<bool>()), 1..60)
}

fn render(rows: &[(u8, u32, bool)], swap: bool) -> String {
    let mut now_us = 0u64;
    let mut lines = Vec::new();
    for (row, &(session, gap_us, blank)) in rows.iter().enumerate() {
        now_us += u64::from(gap_us);
        let session = if session < 6 { format!(r#""session_id":"s{session}","#) } else { String::new() };
        let blank = if blank { "\n \n" } else { "" };
        lines.push(format!(
            r#"{{{session}"timestamp":{}.{:03},"output_length":{},"hash_ids":[{row}]}}{blank}"#,
            now_us / 1000,
            now_us % 1000,
            row + 1
        ));
    }
    if swap {
        // Independent rows may stand anywhere.
        let (mut named, mut free): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.contains("session_id"));
        free.reverse();
        free.append(&mut named);
        lines = free;
    }
    lines.join("\n")
}

proptest! {
    #[test]
    fn every_row_is_taken_once_in_order(rows in rows(), swap in any::<bool>()) {
        let mut trace = open(&render(&rows, swap), &TraceOptions::default());
        let (mut ready, mut hashes, mut last) = (Vec::new(), Vec::new(), Nanos::ZERO);
        let mut seen = vec![false; rows.len()];
        let mut turns_of = vec![0; trace.total_sessions() as usize];
        let mut rows_of = vec![0; trace.total_sessions() as usize];
        loop {
            // Later turns are taken in another order than their sessions came.
            let turn = if let Some(time) = trace.peek().unwrap() {
                prop_assert!(time >= last, "arrivals in time order");
                last = time;
                trace.take(&mut hashes).unwrap().unwrap()
            } else if let Some(session) = ready.pop() {
                trace.take_next(session, &mut hashes).unwrap()
            } else {
                break;
            };
            let session = turn.session as usize;
            prop_assert_eq!(turn.turn, turns_of[session]);
            prop_assert!(turn.turn == 0 || turn.row > rows_of[session]);
            turns_of[session] += 1;
            rows_of[session] = turn.row;
            prop_assert!(!std::mem::replace(&mut seen[turn.output_tokens as usize - 1], true));
            prop_assert_eq!(hashes.len(), 8);
            if trace.next_delay(&turn).is_some() {
                ready.push(turn.session);
            }
        }
        prop_assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn a_session_ends_when_its_last_timestamp_says(rows in rows()) {
        let mut trace = open(&render(&rows, false), &TraceOptions::default());
        let mut at_us = vec![0u64; rows.len()];
        let mut now = 0u64;
        for (at, &(_, gap, _)) in at_us.iter_mut().zip(&rows) {
            now += u64::from(gap);
            *at = now;
        }
        let mut time = Nanos::ZERO;
        for (step, turn) in turns(&mut trace) {
            time = if turn.turn == 0 { step } else { time + step };
            prop_assert_eq!(time, Nanos((at_us[turn.row as usize] - at_us[0]) * 1000));
        }
    }
}
