//! Sessions whose prompts grow: `mooncake-delta` and `applied_compute_agentic`.

use dynosim_engine::Nanos;
use dynosim_workload::{Arrivals, BlockSizes, Ending, OpenOptions, SharedPrefix, TraceFormat, Turn, Workload, rechunk};

use crate::graphs::{open, options};

/// All turns, session after session, each ending as `ending` says.
fn turns(workload: &mut dyn Workload, ending: Ending) -> Vec<(Option<Nanos>, Turn, Vec<u64>)> {
    let (mut found, mut hashes) = (Vec::new(), Vec::new());
    while let Some(mut turn) = workload.take(&mut hashes).unwrap() {
        found.push((None, turn, hashes.clone()));
        while let Some(pause) = workload.ended(&turn, Nanos::ZERO, ending) {
            turn = workload.take_next(turn.session, &mut hashes).unwrap();
            found.push((Some(pause), turn, hashes.clone()));
        }
    }
    assert_eq!(found.len() as u64, workload.total_requests());
    found
}

const DELTA: &str = r#"
    {"session_id":"s","timestamp":0,"input_length":100,"output_length":60,"hash_ids":[1,2]}
    {"session_id":"t","timestamp":5,"input_length":100,"output_length":60,"hash_ids":[1,2]}
    {"session_id":"s","delay":9,"input_length":40,"output_length":2,"hash_ids":[3]}
    {"session_id":"s","input_length":70,"output_length":2,"hash_ids":[4,5]}
"#;

fn delta_options() -> OpenOptions {
    OpenOptions { trace_block_size: Some(64), engine_block_size: 16, ..options(TraceFormat::MooncakeDelta) }
}

#[test]
fn a_later_prompt_is_all_before_it_and_the_answer_and_what_is_new() {
    let found = turns(&mut *open(DELTA, &delta_options()), Ending::Completed);
    let lengths: Vec<_> = found.iter().map(|(_, turn, _)| (turn.session, turn.turn, turn.input_tokens)).collect();
    assert_eq!(lengths, [(0, 0, 100), (0, 1, 200), (0, 2, 272), (1, 0, 100)]);
    assert_eq!(found[1].0, Some(Nanos::from_ms(9.0)));
    let [first, second, third, other] = [0, 1, 2, 3].map(|place: usize| &found[place].2);
    // The hashes go on over the answer: 160, 202 and 274 tokens.
    assert_eq!([first.len(), second.len(), third.len(), other.len()], [10, 12, 17, 10]);
    assert_eq!((&second[..10], &third[..12]), (&first[..], &second[..]));
    // Equal prompts, but answers of their own.
    assert_eq!(first[..6], other[..6]);
    assert!(first[6..].iter().all(|hash| !other.contains(hash)));
    let mut prompt = Vec::new();
    rechunk(&[1, 2], 100, BlockSizes { trace: 64, engine: 16 }, &mut prompt);
    assert_eq!(first[..6], prompt[..]);
}

#[test]
fn the_answer_to_a_rejected_turn_is_not_appended() {
    let found = turns(&mut *open(DELTA, &delta_options()), Ending::Rejected);
    let lengths: Vec<_> = found.iter().map(|(_, turn, _)| turn.input_tokens).collect();
    assert_eq!(lengths, [100, 140, 210, 100]);
    let mut prompt = Vec::new();
    // 100 tokens of the first prompt, 40 of the second, 70 of the third.
    let tokens = [vec![1; 64], vec![2; 36], vec![3; 40], vec![4; 64], vec![5; 6]].concat();
    rechunk(&tokens, 210, BlockSizes { trace: 1, engine: 16 }, &mut prompt);
    assert_eq!(found[2].2[..13], prompt[..]);
}

#[test]
fn answers_that_rows_tell_are_equal_if_their_tokens_are() {
    let row = |session: &str, tokens: &str| {
        format!(
            "{{\"session_id\":\"{session}\",\"timestamp\":0,\"input_length\":16,\"output_length\":16,\
             \"hash_ids\":[1],\"output_token_ids\":[{tokens}]}}\n"
        )
    };
    let (same, other) = (vec!["7"; 16].join(","), vec!["8"; 16].join(","));
    let text = [row("a", &same), row("b", &same), row("c", &other)].concat();
    let found = turns(&mut *open(&text, &delta_options()), Ending::Completed);
    assert_eq!(found[0].2, found[1].2);
    assert_eq!((found[0].2[0], found[0].2.len()), (found[2].2[0], 2));
    assert_ne!(found[0].2[1], found[2].2[1]);
}

const APPLIED: &str = r#"
    {"num_turns":2,"input_prompt_length":100,"assistant_response_length":[10,20],"tool_call_output_length":[30,0],"tool_call_latency":[1.4,0],"final_assistant_response_length":5}
    {"num_turns":0,"input_prompt_length":100,"assistant_response_length":[],"tool_call_output_length":[],"tool_call_latency":[],"final_assistant_response_length":7}
"#;

fn applied_options(ratio: f64, groups: u32) -> OpenOptions {
    OpenOptions {
        trace_block_size: Some(16),
        engine_block_size: 16,
        arrivals: Arrivals::InOrder,
        shared_prefix: SharedPrefix { ratio, groups },
        ..options(TraceFormat::AppliedComputeAgentic)
    }
}

#[test]
fn a_session_is_a_request_per_tool_call_and_a_last_one() {
    let mut trace = open(APPLIED, &applied_options(0.0, 0));
    assert_eq!((trace.total_requests(), trace.total_sessions()), (4, 2));
    let found = turns(&mut *trace, Ending::Completed);
    let lengths: Vec<_> =
        found.iter().map(|(_, turn, _)| (turn.session, turn.row, turn.input_tokens, turn.output_tokens)).collect();
    assert_eq!(lengths, [(0, 0, 100, 10), (0, 1, 140, 20), (0, 2, 160, 5), (1, 3, 100, 7)]);
    let pauses: Vec<_> = found.iter().map(|(pause, ..)| pause.map(Nanos::as_ms)).collect();
    assert_eq!(pauses, [None, Some(1400.0), Some(0.0), None]);
    // Each prompt begins with the one before; other sessions share nothing.
    assert_eq!(found[1].2[..6], found[0].2[..]);
    assert_eq!(found[2].2[..8], found[1].2[..]);
    assert!(found[3].2.iter().all(|hash| !found[2].2.contains(hash)));
}

#[test]
fn a_turn_that_is_not_due_is_refused() {
    let mut trace = open(APPLIED, &applied_options(0.0, 0));
    let mut hashes = Vec::new();
    let first = trace.take(&mut hashes).unwrap().unwrap();
    assert!(trace.take_next(0, &mut hashes).is_err());
    assert!(trace.ended(&first, Nanos::ZERO, Ending::Completed).is_some());
    assert!(trace.take_next(0, &mut hashes).is_ok());
    let error = trace.take_next(0, &mut hashes).unwrap_err().to_string();
    assert_eq!(error, "session 0 has no turn waiting to be taken");
}

#[test]
fn groups_share_the_first_blocks_of_first_prompts() {
    // 100 tokens are 7 blocks, half of them are 4.
    let found = turns(&mut *open(APPLIED, &applied_options(0.5, 1)), Ending::Completed);
    assert_eq!(found[0].2[..4], found[3].2[..4]);
    assert_ne!(found[0].2[4], found[3].2[4]);
    let apart = turns(&mut *open(APPLIED, &applied_options(0.5, 2)), Ending::Completed);
    assert_ne!(apart[0].2[0], apart[3].2[0]);
}

#[test]
fn sessions_without_times_need_a_fixed_concurrency() {
    let open = OpenOptions { arrivals: Arrivals::Timestamps, ..applied_options(0.0, 0) };
    let error = dynosim_workload::open_bytes("t", APPLIED.as_bytes().to_vec(), &open).err().unwrap().to_string();
    let expected = "trace format `applied_compute_agentic` has no arrival times, so it needs a fixed concurrency";
    assert_eq!(error, expected);
}
