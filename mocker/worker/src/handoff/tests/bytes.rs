//! Peers that say what they must not say.

use dynosim_wire::bootstrap::{self, Frame, HEADER, Message, Outcome, Registration};
use dynosim_wire::bootstrap::{Action, Fact, IssuedAction, Order, Participant, Subject};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn frame(message: Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    bootstrap::encode_into(&Frame { identity: identity(1), message }, &mut bytes).unwrap();
    bytes
}

fn register(role: Participant) -> Vec<u8> {
    let (order, engine_type) = (Order::SourceFirst, EngineType::Vllm);
    frame(Message::Register(Registration { role, dp_rank: 0, order, engine_type }))
}

/// What comes back until the connection closes.
async fn answers(stream: &mut DuplexStream) -> Vec<Message> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let mut rest = bytes.as_slice();
    let mut messages = Vec::new();
    while let Some((frame, used)) = bootstrap::decode(rest).unwrap() {
        messages.push(frame.message);
        rest = &rest[used..];
    }
    assert!(rest.is_empty());
    messages
}

#[tokio::test(start_paused = true)]
async fn connections_that_begin_badly_are_closed() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let refused = |answer: &[Message]| matches!(answer, [Message::ProtocolError { .. }]);
    for (name, bytes, told) in [
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec(), false),
        ("another version", b"DMHF\x02\0\0\0".to_vec(), false),
        ("4 GiB", [&HEADER[..], &[0xff; 4]].concat(), false),
        ("no JSON", [&HEADER[..], &[2, 0, 0, 0], b"{]"].concat(), false),
        ("a source", [&HEADER[..], &register(Participant::Source)].concat(), true),
        ("no registration", [&HEADER[..], &frame(Message::Complete)].concat(), true),
        (
            "talk before the request is there",
            [&HEADER[..], &register(Participant::Destination), &frame(Message::Complete)].concat(),
            true,
        ),
    ] {
        let start = tokio::time::Instant::now();
        let mut stream = worker.connect();
        stream.write_all(&bytes).await.unwrap();
        let answer = answers(&mut stream).await;
        assert!(if told { refused(&answer) } else { answer.is_empty() }, "{name}: {answer:?}");
        assert!(start.elapsed().as_secs() < 1, "{name}");
    }
    assert_eq!(worker.rendezvous.current(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_says_nothing_or_half_is_closed_after_the_rendezvous_time() {
    let worker = Prefill::new(terms(EngineType::Vllm));
    for begun in [Vec::new(), b"DMHF".to_vec(), [&HEADER[..], &[9, 0]].concat()] {
        let start = tokio::time::Instant::now();
        let mut stream = worker.connect();
        stream.write_all(&begun).await.unwrap();
        assert_eq!(answers(&mut stream).await, []);
        assert_eq!(start.elapsed().as_secs(), 30);
    }
}

/// A session of the source whose destination is these bytes after it was registered; what the source says of it.
async fn source_hears(bytes: Vec<u8>) -> (HandoffError, Vec<Message>) {
    let worker = Prefill::new(terms(EngineType::Vllm));
    let mut stream = worker.connect();
    stream.write_all(&[&HEADER[..], &register(Participant::Destination)].concat()).await.unwrap();
    let mut session = worker.meet(1).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    let error = session.transfer(PROMPT_TOKENS).await.unwrap_err();
    drop(session);
    (error, answers(&mut stream).await)
}

#[tokio::test(start_paused = true)]
async fn a_source_gives_up_when_the_destination_says_the_wrong_thing() {
    let accepted = frame(Message::ActionAck { action_id: 1, outcome: Outcome::Accepted });
    let failed = frame(Message::ActionAck { action_id: 1, outcome: Outcome::Failed("no".into()) });
    let mut of_another = Vec::new();
    bootstrap::encode_into(&Frame { identity: identity(9), message: Message::Complete }, &mut of_another).unwrap();
    for (name, bytes) in [
        ("another acknowledgement", frame(Message::ActionAck { action_id: 9, outcome: Outcome::Accepted })),
        ("a refusal", failed),
        ("a registration again", register(Participant::Destination)),
        ("of another handoff", of_another),
        ("accepted twice", [accepted.clone(), accepted.clone()].concat()),
        ("too long", vec![0xff; 8]),
        ("failed", frame(Message::Fact(Fact::Failed(Subject { handoff_id: identity(1).handoff_id })))),
    ] {
        let (error, said) = source_hears(bytes).await;
        let last = said.last();
        assert!(matches!(last, Some(Message::Abort { .. })), "{name}: {error}: {last:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destination_refuses_what_is_not_its_turn() {
    let subject = Subject { handoff_id: identity(1).handoff_id };
    let action = |action| frame(Message::Action(IssuedAction { id: 5, action }));
    for (name, bytes) in [
        ("activation before blocks are reserved", action(Action::ActivateDestination(subject))),
        ("an action for the source", action(Action::ReleaseSource(subject))),
        ("an early end", frame(Message::Complete)),
        ("registered twice", frame(Message::Registered)),
        ("an acknowledgement", frame(Message::ActionAck { action_id: 1, outcome: Outcome::Applied })),
        ("an empty frame", vec![0; 4]),
    ] {
        let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
        ours.write_all(&frame(Message::Registered)).await.unwrap();
        ours.write_all(&bytes).await.unwrap();
        let mut session = DestinationSession::register(theirs, &meeting(1), &terms(EngineType::Vllm), 0).await.unwrap();
        let error = session.asked_to_reserve().await.unwrap_err();
        drop(session);
        let mut header = [0; 8];
        ours.read_exact(&mut header).await.unwrap();
        let said = answers(&mut ours).await;
        assert!(matches!(said.last(), Some(Message::ProtocolError { .. })), "{name}: {error}: {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_is_told_to_cancel_says_so_and_ends() {
    let cancel = Action::CancelDestination(Subject { handoff_id: identity(1).handoff_id });
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    ours.write_all(&frame(Message::Registered)).await.unwrap();
    ours.write_all(&frame(Message::Action(IssuedAction { id: 5, action: cancel }))).await.unwrap();
    let mut session = DestinationSession::register(theirs, &meeting(1), &terms(EngineType::Vllm), 0).await.unwrap();
    assert!(matches!(session.asked_to_reserve().await, Err(HandoffError::Aborted(_))));
    drop(session);
    let mut header = [0; 8];
    ours.read_exact(&mut header).await.unwrap();
    let applied = Message::ActionAck { action_id: 5, outcome: Outcome::Applied };
    assert_eq!(answers(&mut ours).await.last(), Some(&applied));
}
