//! What a stream costs. Run alone: `cargo test --release -p dynosim-wire --test it -- --ignored --nocapture throughput`.

use std::io::Write as _;

use dynosim_wire::protocol::{EngineOutput, FinishReason, PreprocessedRequest};
use dynosim_wire::request::Call;

use super::{Pair, answering};

const STREAMS: u32 = 20_000;
const AT_ONCE: u32 = 64;
const TOKENS: u32 = 32;

async fn in_one_go(call: Call) {
    let mut sink = call.responder.open().await.unwrap();
    for token in 0..TOKENS {
        sink.push_tokens(&[1000 + token]);
    }
    let last = EngineOutput { finish_reason: Some(FinishReason::Length), ..EngineOutput::default() };
    sink.push(&last).unwrap();
    sink.finish().await.unwrap();
}

/// CPU time of this process in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // The kernel counts in hundredths.
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures"]
async fn throughput_of_streams_of_32_tokens() {
    let Pair { client, record, server: _server } = Pair::tcp(answering(in_one_go)).await;
    let (begin, cpu_before) = (dynosim_wire::time::now(), cpu());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..AT_ONCE {
        let (client, record) = (client.clone(), record.clone());
        let request = PreprocessedRequest { token_ids: (0..300).collect(), ..PreprocessedRequest::default() };
        tasks.spawn(async move {
            for _ in 0..STREAMS / AT_ONCE {
                let mut stream = client.call::<EngineOutput>(&record, "an id of some length", &request).await.unwrap();
                let mut items = 0;
                while stream.next().await.unwrap().is_some() {
                    items += 1;
                }
                assert_eq!(items, TOKENS + 1);
            }
        });
    }
    while tasks.join_next().await.transpose().unwrap().is_some() {}
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu() - cpu_before);
    let streams = f64::from(STREAMS);
    let line = format!("{:.0} streams/s, {:.1} µs CPU per stream\n", streams / seconds, cpu / streams * 1e6);
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}
