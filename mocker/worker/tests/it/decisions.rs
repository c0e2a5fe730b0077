//! The decision log of a live worker is that of an offline engine with the same arrivals.

use dynosim_engine::{BlockHashes, Engine, Horizon, Nanos, Request};
use serde_json::{Value, json};

use crate::setup::{DEADLINE, Graph, request};

/// The steps that an engine makes of the arrivals in a log.
fn offline(mut engine: Engine, lines: &[Value]) -> Vec<Value> {
    let mut arrivals = lines.iter().filter(|line| line["arrived"].is_u64()).peekable();
    let mut serials = Vec::new();
    let mut steps = Vec::new();
    loop {
        let arrival = arrivals.peek().map(|line| Nanos(line["at"].as_u64().expect("a time")));
        let Some(now) = arrival.into_iter().chain(engine.busy_until()).min() else { return steps };
        let mut changed = false;
        if engine.busy_until() == Some(now) {
            let step = engine.finish();
            let pass = &step.ranks[0];
            let of = |request: dynosim_engine::RequestId| serials[request.index()];
            steps.push(json!({
                "start": step.start.0,
                "ends": step.ends.iter().map(|end| end.0).collect::<Vec<_>>(),
                "rank": 0,
                "prefill": [pass.prefill.requests, pass.prefill.prefix_tokens, pass.prefill.new_tokens],
                "decode": [pass.decode.requests, pass.decode.kv_tokens],
                "admitted": pass.admitted.iter().map(|a| (of(a.request), a.cached_tokens)).collect::<Vec<_>>(),
                "preempted": pass.preempted.iter().map(|&id| of(id)).collect::<Vec<u64>>(),
                "reserved": [],
                "emitted": pass.emitted.iter().map(|e| (of(e.request), e.tokens)).collect::<Vec<_>>(),
                "finished": pass.finished.iter().map(|&id| of(id)).collect::<Vec<_>>(),
            }));
            changed = true;
        }
        while let Some(line) = arrivals.next_if(|line| line["at"].as_u64() <= Some(now.0)) {
            let number = |name: &str| line[name].as_u64().expect("a number");
            let known = line["blocks"].as_array().expect("hashes").iter().filter_map(Value::as_u64).collect();
            let request = Request {
                prompt_tokens: number("prompt_tokens") as u32,
                max_output_tokens: number("output_tokens") as u32,
                hashes: BlockHashes { known, salt: number("salt") },
                ..Request::default()
            };
            let slot = engine.submit(now, None, request).request.index();
            if serials.len() <= slot {
                serials.resize(slot + 1, 0);
            }
            serials[slot] = number("arrived");
            changed = true;
        }
        if changed && engine.busy_until().is_none() {
            engine.start(now, Horizon::Pass);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_worker_decides_as_an_offline_engine_with_the_same_arrivals() {
    for engine in [
        r#"{"block_size":16,"num_gpu_blocks":40,"max_num_batched_tokens":128,"speedup_ratio":20}"#,
        r#"{"engine_type":"sglang","block_size":16,"num_gpu_blocks":60,"speedup_ratio":20}"#,
    ] {
        let graph = Graph::new().await;
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = graph.config(engine);
        let path = folder.path().join("decisions");
        config.decision_log = Some(path.clone());
        let fresh = Engine::new(config.engine.clone());
        let worker = graph.worker(config).await;
        let asked = (0..12u32).map(|number| {
            let (graph, worker) = (&graph, &worker);
            async move {
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(number) * 2)).await;
                let ask = request((0..60).chain(number % 3 * 100..number % 3 * 100 + 90), 10 + number * 3);
                graph.ask(worker, &ask).await.expect("an answer").tokens.len()
            }
        });
        let counts = futures_util::future::join_all(asked).await;
        assert_eq!(counts, (0..12).map(|number| 10 + number * 3).collect::<Vec<usize>>());
        worker.drain(DEADLINE).await;
        let text = std::fs::read_to_string(&path).expect("a log");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let steps: Vec<_> = lines.iter().filter(|line| line["start"].is_u64()).cloned().collect();
        assert!(steps.len() > 50, "{} steps", steps.len());
        assert_eq!(offline(fresh, &lines), steps);
    }
}
