//! Handoffs that end early: the other side learns of it at once, whatever it was about to do.

use super::*;

/// Far below what a test waits, far above what a task needs.
const AT_ONCE: Duration = Duration::from_millis(900);

async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(AT_ONCE, work).await.expect("within a second")
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_dropped_at_any_time_ends_the_destination() {
    for engine in [EngineType::Vllm, EngineType::Sglang] {
        let worker = Prefill::new(terms(engine));
        // Before the prompt is computed.
        let (source, mut destination) = worker.begin(1).await;
        drop(source);
        let next = if engine == EngineType::Vllm {
            soon(destination.asked_to_reserve()).await
        } else {
            soon(destination.reserved(0)).await
        };
        assert!(matches!(&next, Err(HandoffError::Aborted(reason)) if reason.contains("canceled")), "{next:?}");
        assert_eq!(worker.rendezvous.current(), 0);
    }
    // While the destination looks for blocks, and while the KV is on its way.
    for (number, during_transfer) in [(1, false), (2, true)] {
        let worker = Prefill::new(terms(EngineType::Vllm));
        let (mut source, mut destination) = worker.begin(number).await;
        let source =
            async move { tokio::time::timeout(Duration::from_millis(50), source.transfer(PROMPT_TOKENS)).await };
        let destination = async move {
            destination.asked_to_reserve().await?;
            if during_transfer {
                return destination.reserved(BLOCK_TOKENS).await;
            }
            destination.during(std::future::pending::<()>()).await
        };
        let (source, destination) = tokio::join!(source, soon(destination));
        assert!(source.is_err(), "it was dropped");
        assert!(matches!(destination, Err(HandoffError::Aborted(_))), "{destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_dies_before_it_has_let_go_ends_the_destination() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let (mut source, mut destination) = worker.begin(1).await;
    let source = async {
        source.transfer(PROMPT_TOKENS).await.unwrap();
        drop(source);
    };
    let destination = async {
        destination.asked_to_reserve().await.unwrap();
        destination.reserved(BLOCK_TOKENS).await.unwrap();
        destination.applied().await.unwrap();
        destination.completed().await
    };
    let ((), destination) = tokio::join!(source, destination);
    assert!(matches!(destination, Err(HandoffError::Aborted(_))), "{destination:?}");
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_dies_at_any_time_ends_the_source() {
    for engine in [EngineType::Vllm, EngineType::Sglang] {
        let worker = Prefill::new(terms(engine));
        // While the prompt is computed.
        let (mut source, destination) = worker.begin(1).await;
        drop(destination);
        let ended = soon(source.during(std::future::pending::<()>())).await;
        assert!(matches!(ended, Err(HandoffError::Closed)), "{ended:?}");
        drop(source);
        assert_eq!(worker.rendezvous.current(), 0);
    }
    // Before its blocks are reserved, and after.
    for (number, reserved) in [(1, false), (2, true)] {
        let worker = Prefill::new(terms(EngineType::Vllm));
        let (mut source, mut destination) = worker.begin(number).await;
        let destination = async move {
            destination.asked_to_reserve().await.unwrap();
            if reserved {
                let transfer = destination.reserved(BLOCK_TOKENS);
                assert!(tokio::time::timeout(Duration::from_millis(50), transfer).await.is_err(), "it takes longer");
            }
        };
        let (source, ()) = tokio::join!(soon(source.transfer(PROMPT_TOKENS)), destination);
        assert!(matches!(source, Err(HandoffError::Closed)), "{source:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_dies_while_it_reserves_first_ends_the_source() {
    let worker = Prefill::new(terms(EngineType::Sglang));
    let destination = async {
        let mut session = worker.dial(1).await.unwrap();
        session.asked_to_reserve().await.unwrap();
    };
    let (source, ()) = tokio::join!(soon(worker.meet(1)), destination);
    assert!(matches!(source, Err(HandoffError::Closed)), "{source:?}");
    assert_eq!(worker.rendezvous.current(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handoff_that_takes_too_long_ends_on_both_sides() {
    let terms = Terms { session: Duration::from_secs(6), ..terms(EngineType::Vllm) };
    let worker = Prefill::new(terms);
    let (mut source, mut destination) = worker.begin(1).await;
    let start = tokio::time::Instant::now();
    let destination = async move {
        destination.asked_to_reserve().await.unwrap();
        destination.during(std::future::pending::<()>()).await
    };
    let (source, destination) = tokio::join!(source.transfer(PROMPT_TOKENS), destination);
    assert_eq!(start.elapsed().as_secs(), 6);
    assert!(matches!(source, Err(HandoffError::Session(_))), "{source:?}");
    assert!(matches!(destination, Err(HandoffError::Session(_) | HandoffError::Aborted(_))), "{destination:?}");
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_when_the_other_side_goes_counts() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let (mut source, destination) = worker.begin(1).await;
    drop(destination);
    assert_eq!(source.during(std::future::ready(7)).await.unwrap(), 7);
    assert!(source.transfer(PROMPT_TOKENS).await.is_err());
}
