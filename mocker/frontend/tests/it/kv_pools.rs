//! KV-aware routing of prefill and decode pools.

use dynosim_wire::card::WorkerType;
use dynosim_wire::discovery::MemStore;
use serde_json::json;

use crate::cache::Cache;
use crate::client::post;
use crate::fake::{Conduct, Fake, card, prefill_card, runtime};
use crate::fleet::{ready, until_instances};
use crate::kv::{APPLIED, KNOWN, asks, kv, last_choices, prompt, until_metric};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prompts_go_to_the_prefill_worker_that_has_them_and_outputs_to_the_least_busy() {
    let store = MemStore::default();
    let (mut prefills, mut caches, mut decodes) = (Vec::new(), Vec::new(), Vec::new());
    for port in 0..3 {
        let mut fake = Fake::start(&store, prefill_card(25_100 + port), Conduct::Prefill).await;
        caches.push(Cache::of(&mut fake, &runtime(&store)).await);
        prefills.push(fake);
    }
    for _ in 0..2 {
        decodes.push(Fake::start(&store, card(WorkerType::Decode), Conduct::Serve).await);
    }
    let frontend = ready(kv(runtime(&store), &json!({}))).await;
    until_instances(&frontend, 8).await;
    until_metric(&frontend, KNOWN, 3.0).await;
    for (holder, name) in [(1, 1), (2, 2), (0, 3)] {
        caches[holder].store(&prompt(name, 3));
        until_metric(&frontend, APPLIED, f64::from(name)).await;
        let before = prefills[holder].seen.count();
        for _ in 0..4 {
            assert_eq!(post(frontend.address(), &asks(&prompt(name, 3), 2)).await.status, 200);
        }
        assert_eq!(prefills[holder].seen.count(), before + 4);
        let choices = last_choices(&frontend).await;
        assert_eq!(
            (choices.len(), &choices[0]["phase"], &choices[1]["phase"]),
            (2, &json!("prefill"), &json!("decode"))
        );
        assert_eq!(choices[0]["decision"]["matched"]["device"], 3);
        let meeting = prefills[holder].seen.last().bootstrap_info.expect("a meeting");
        assert_eq!(usize::from(meeting.bootstrap_port), 25_100 + holder);
    }
    let outputs: Vec<usize> = decodes.iter().map(|fake| fake.seen.count()).collect();
    assert_eq!(outputs.iter().sum::<usize>(), 12);
    assert!(outputs.iter().all(|count| *count > 0), "ties are drawn: {outputs:?}");
    frontend.shutdown().await;
}
