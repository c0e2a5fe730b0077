//! Who meets whom.

use super::*;
use crate::handoff::MAX_PAST_HANDOFFS;

#[tokio::test(start_paused = true)]
async fn a_side_that_comes_alone_gives_up_after_the_rendezvous_time() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let start = tokio::time::Instant::now();
    assert!(matches!(worker.meet(1).await, Err(HandoffError::Rendezvous(time)) if time.as_secs() == 30));
    assert_eq!(start.elapsed().as_secs(), 30);
    let error = worker.dial(2).await.unwrap_err();
    assert!(matches!(error, HandoffError::Rendezvous(_) | HandoffError::Closed), "{error}");
    assert!((60..=61).contains(&start.elapsed().as_secs()));
    tokio::task::yield_now().await;
    assert_eq!(worker.rendezvous.current(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handoff_is_joined_once_by_each_side() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let (source, destination) = worker.begin(1).await;
    assert!(matches!(worker.rendezvous.expect(identity(1)), Err(HandoffError::Duplicate)));
    assert!(matches!(worker.dial(1).await, Err(HandoffError::Refused(_))));
    let (source, destination) = tokio::join!(prefill(source), decode(destination));
    source.unwrap();
    destination.unwrap();
    // It is over, but known.
    assert!(matches!(worker.rendezvous.expect(identity(1)), Err(HandoffError::Duplicate)));
    assert!(matches!(worker.dial(1).await, Err(HandoffError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn two_destinations_that_wait_for_one_request_do_not_displace_each_other() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let second = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        worker.dial(1).await
    };
    let source = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        prefill(worker.meet(1).await?).await
    };
    let first = async { decode(worker.dial(1).await?).await };
    let (first, second, source) = tokio::join!(first, second, source);
    first.unwrap();
    source.unwrap();
    assert!(matches!(second, Err(HandoffError::Refused(_))));
}

#[tokio::test(start_paused = true)]
async fn what_the_two_sides_were_told_must_agree() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let other_room = Meeting { identity: Identity { bootstrap_room: 8, ..identity(1) }, ..meeting(1) };
    let other_request = Meeting { identity: Identity { request_id: Uuid::nil(), ..identity(1) }, ..meeting(1) };
    let sglang = terms(EngineType::Sglang);
    let cases = [(other_room, worker.terms.clone()), (other_request, worker.terms.clone()), (meeting(1), sglang)];
    for (number, (meeting, terms)) in (1..).zip(cases) {
        let handoff_id = Uuid::from_u128(number);
        let meeting = Meeting { identity: Identity { handoff_id, ..meeting.identity }, ..meeting };
        let expected = Identity { handoff_id, ..identity(1) };
        let source = async { worker.rendezvous.expect(expected)?.meet().await };
        let destination = DestinationSession::register(worker.connect(), &meeting, &terms, 0);
        let (source, destination) = tokio::join!(source, destination);
        assert!(matches!(source, Err(HandoffError::Mismatch)), "{number}: {source:?}");
        assert!(matches!(destination, Err(HandoffError::Refused(_))), "{number}: {destination:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_comes_after_its_request_has_gone_is_told_at_once() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    drop(worker.rendezvous.expect(identity(1)).unwrap());
    let mut session = worker.dial(1).await.unwrap();
    let error = session.asked_to_reserve().await.unwrap_err();
    assert!(matches!(&error, HandoffError::Aborted(reason) if reason.contains("canceled")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_leaves_while_it_waits_makes_room_for_another() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let gone = tokio::time::timeout(Duration::from_secs(1), worker.dial(1)).await;
    assert!(gone.is_err());
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(worker.rendezvous.current(), 0);
    let (source, destination) = worker.begin(1).await;
    let (source, destination) = tokio::join!(prefill(source), decode(destination));
    source.unwrap();
    destination.unwrap();
}

#[tokio::test(start_paused = true)]
async fn past_handoffs_are_forgotten_in_time_and_in_number() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    for number in 0..MAX_PAST_HANDOFFS as u128 + 10 {
        drop(worker.rendezvous.expect(identity(number)).unwrap());
    }
    assert_eq!(worker.rendezvous.known(), MAX_PAST_HANDOFFS);
    assert!(worker.rendezvous.expect(identity(0)).is_ok(), "the oldest were forgotten");
    tokio::time::sleep(Duration::from_secs(31)).await;
    drop(worker.rendezvous.expect(identity(1_000_000)).unwrap());
    assert_eq!(worker.rendezvous.known(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_handoffs_are_refused_on_both_sides() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let all: Vec<_> = (0..crate::handoff::MAX_HANDOFFS as u128)
        .map(|number| worker.rendezvous.expect(identity(number)).unwrap())
        .collect();
    assert!(matches!(worker.rendezvous.expect(identity(1 << 40)), Err(HandoffError::Overloaded)));
    assert!(matches!(worker.dial(1 << 40).await, Err(HandoffError::Overloaded)));
    drop(all);
    assert!(worker.rendezvous.expect(identity(1 << 40)).is_ok());
}
