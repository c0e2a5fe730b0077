//! Equal hash ids are equal prompts: the server's prefix cache hits where the workload says.

use std::collections::BTreeSet;

use dynosim_load::PromptFormat;
use dynosim_replay::Admission;
use dynosim_workload::{SharedPrefix, Synthetic, SyntheticOptions, Trace, TraceOptions, Workload};

use crate::server::{BLOCK, Pace, Server};
use crate::setup::{config, run};

/// Cached tokens of an endless cache with the server's block size, request after request.
fn expected(workload: &mut dyn Workload) -> Vec<f64> {
    let (mut known, mut hashes, mut cached) = (BTreeSet::new(), Vec::new(), Vec::new());
    while workload.take(&mut hashes).unwrap().is_some() {
        let hits = hashes.iter().take_while(|hash| known.contains(*hash)).count();
        cached.push((hits * BLOCK) as f64);
        known.extend(hashes.iter().copied());
    }
    cached
}

const TRACE: &str = r#"{"timestamp":0,"input_length":1000,"output_length":1,"hash_ids":[1,2]}
{"timestamp":1,"input_length":700,"output_length":1,"hash_ids":[1,2]}
{"timestamp":2,"input_length":1500,"output_length":1,"hash_ids":[1,2,3]}
{"timestamp":3,"input_length":1536,"output_length":1,"hash_ids":[1,5,3]}
{"timestamp":4,"input_length":1536,"output_length":1,"hash_ids":[9,9,9]}
{"timestamp":5,"input_length":1024,"output_length":1,"hash_ids":[9,9]}
{"timestamp":6,"input_length":600,"output_length":1,"hash_ids":[2,1]}
"#;

#[test]
fn traces_hit_the_cache_of_any_block_size_as_in_an_offline_run() {
    let open = |engine_block_size| {
        let options = TraceOptions { engine_block_size, ..TraceOptions::default() };
        Trace::from_bytes("trace", TRACE.into(), &options).unwrap()
    };
    let expected = expected(&mut open(BLOCK as u32));
    assert_eq!(expected, [0.0, 688.0, 992.0, 512.0, 0.0, 1024.0, 0.0]);
    for format in [PromptFormat::Tokens, PromptFormat::Text] {
        let server = Server::start(Pace::default());
        let config = dynosim_load::LoadConfig {
            format,
            block_size: 1,
            admission: Admission::Concurrency(1),
            ..config(&server.url())
        };
        let ran = run(&config, &mut open(1));
        assert_eq!(ran.column("reused_input_tokens"), expected, "{format:?}");
        let all: f64 = ran.column("input_length").iter().sum();
        let ratio = expected.iter().sum::<f64>() / all;
        assert!((ran.number("prefix_cache_reused_ratio") - ratio).abs() < 1e-12);
    }
}

#[test]
fn groups_of_a_synthetic_workload_share_exactly_their_blocks() {
    let options = SyntheticOptions {
        input_tokens: 100,
        output_tokens: 1,
        request_count: 40,
        shared_prefix: SharedPrefix { ratio: 0.5, groups: 3 },
        block_size: BLOCK as u32,
        ..SyntheticOptions::default()
    };
    let expected = expected(&mut Synthetic::new(options).unwrap());
    let server = Server::start(Pace::default());
    let config = dynosim_load::LoadConfig { admission: Admission::Concurrency(1), ..config(&server.url()) };
    let ran = run(&config, &mut Synthetic::new(options).unwrap());
    assert_eq!(ran.column("reused_input_tokens"), expected);
    assert_eq!(expected.iter().filter(|&&tokens| tokens == 64.0).count(), 37);
}
