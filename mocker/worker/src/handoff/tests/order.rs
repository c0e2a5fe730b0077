//! Handoffs that go well.

use tokio::time::Instant;

use super::*;

async fn both(prefill_worker: &Prefill, number: u128, source_waits: Duration, destination_waits: Duration) {
    let source = async {
        tokio::time::sleep(source_waits).await;
        prefill(prefill_worker.meet(number).await?).await
    };
    let destination = async {
        tokio::time::sleep(destination_waits).await;
        decode(prefill_worker.dial(number).await?).await
    };
    let (source, destination) = tokio::join!(source, destination);
    source.unwrap();
    destination.unwrap();
}

#[tokio::test(start_paused = true)]
async fn either_side_may_come_first_in_both_orders() {
    for engine in [EngineType::Vllm, EngineType::Sglang] {
        let worker = Prefill::new(terms(engine));
        for (number, source, destination) in [(1, 0, 20), (2, 20, 0), (3, 0, 0)] {
            let wait = Duration::from_secs;
            both(&worker, number, wait(source), wait(destination)).await;
            assert_eq!(worker.rendezvous.current(), 0, "{engine:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_transfer_takes_its_time_before_the_destination_may_decode() {
    let modes = [(TransferMode::FullPrompt, 100), (TransferMode::DestinationMissing, 112)];
    for engine in [EngineType::Vllm, EngineType::Sglang] {
        for (mode, expected_ms) in modes {
            let worker = Prefill::new(Terms { transfer: KvTransfer { mode, ..SLOW_LINK }, ..terms(engine) });
            let start = Instant::now();
            both(&worker, 1, Duration::ZERO, Duration::ZERO).await;
            let elapsed = start.elapsed();
            // 5 ms of computing, then the transfer; the clock of the test stands still otherwise.
            let expected = Duration::from_millis(5 + expected_ms);
            assert!(
                elapsed >= expected && elapsed < expected + Duration::from_millis(3),
                "{engine:?} {mode:?} {elapsed:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_destination_that_goes_first_the_prompt_waits_for_its_blocks() {
    let worker = Prefill::new(terms(EngineType::Sglang));
    let destination = async {
        let mut session = worker.dial(1).await?;
        session.asked_to_reserve().await?;
        session.during(tokio::time::sleep(Duration::from_secs(10))).await?;
        session.reserved(BLOCK_TOKENS).await?;
        assert_eq!(session.timing().map(|timing| timing.full_prompt_tokens), Some(PROMPT_TOKENS));
        session.applied().await?;
        session.completed().await
    };
    let source = async {
        let start = Instant::now();
        let session = worker.meet(1).await?;
        assert!(start.elapsed() >= Duration::from_secs(10));
        prefill(session).await
    };
    let (source, destination) = tokio::join!(source, destination);
    source.unwrap();
    destination.unwrap();
}
