//! The planes against the published release 1.6.1.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dynosim_peers::{Nats, Process, free_port, release};
use dynosim_wire::RequestPlane;
use dynosim_wire::card::builtin_files;
use dynosim_wire::discovery::{EndpointRecord, Record};
use dynosim_wire::protocol::{EngineOutput, FinishReason, PreprocessedRequest, StopConditions};
use dynosim_wire::request::{Call, RequestClient, RequestServer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{INSTANCE, answering, endpoint, runtime, until};

/// The release takes some seconds to start, more on a busy machine.
const START: Duration = Duration::from_secs(90);

/// A store of files, a model folder and the release's interpreter.
struct Site {
    folder: TempDir,
    python: PathBuf,
    plane: RequestPlane,
}

impl Site {
    fn new(plane: RequestPlane) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let python = release()?;
        let model = folder.path().join("model");
        std::fs::create_dir(&model).unwrap();
        for (name, content) in builtin_files() {
            std::fs::write(model.join(name), content).unwrap();
        }
        Some(Self { folder, python, plane })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a module of the release with the records in `store`.
    fn start(&self, module: &str, store: &str, arguments: &[&str]) -> Process {
        let mut command = Process::of_release(&self.python, module);
        command.args(["--discovery-backend", "file", "--event-plane", "zmq"]).args(arguments);
        command.env("DYN_FILE_KV", self.path(store));
        match &self.plane {
            RequestPlane::Tcp => command.args(["--request-plane", "tcp"]),
            RequestPlane::Nats(server) => command.args(["--request-plane", "nats"]).env("NATS_SERVER", server),
        };
        Process::start(&mut command, &self.path("log"))
    }

    fn start_worker(&self) -> Process {
        let model = self.path("model");
        let arguments = ["--model-path", model.to_str().unwrap(), "--model-name", "tiny", "--speedup-ratio", "1000"];
        self.start("dynamo.mocker", "worker", &arguments)
    }

    /// The record whose file name contains `name`.
    async fn record(&self, bucket: &str, name: &str) -> Value {
        let folder = self.path("worker").join("v1").join(bucket);
        until(START, async || {
            let files = std::fs::read_dir(&folder).ok()?.flatten().map(|file| file.path());
            let mut named = files.filter(|file| file.to_string_lossy().contains(name));
            serde_json::from_slice(&std::fs::read(named.next()?).ok()?).ok()
        })
        .await
    }

    async fn endpoint_record(&self, name: &str) -> EndpointRecord {
        match serde_json::from_value(self.record("instances", name).await).unwrap() {
            Record::Endpoint(record) => record,
            other => panic!("{other:?} is no endpoint"),
        }
    }
}

fn nats_plane() -> Option<(Nats, RequestPlane)> {
    let nats = Nats::start()?;
    let plane = RequestPlane::Nats(nats.url());
    Some((nats, plane))
}

/// Asks the release's worker for tokens, and for the events that it remembers.
async fn ask_worker(plane: RequestPlane) {
    let Some(site) = Site::new(plane.clone()) else { return };
    let _worker = site.start_worker();
    let record = site.endpoint_record("%2Fgenerate%2F").await;
    let client = RequestClient::start(&runtime(plane)).await.unwrap();
    let stop_conditions = StopConditions { max_tokens: Some(7), ..StopConditions::default() };
    let token_ids = (0..100).collect();
    let request = PreprocessedRequest { model: "tiny".into(), token_ids, stop_conditions, ..Default::default() };
    for id in ["first", "second"] {
        let mut stream = timeout(START, client.call::<EngineOutput>(&record, id, &request)).await.unwrap().unwrap();
        let (mut tokens, mut reason) = (0, None);
        while let Some(item) = timeout(START, stream.next()).await.unwrap().unwrap() {
            let output = item.data.unwrap();
            tokens += output.token_ids.len();
            reason = reason.or(output.finish_reason);
        }
        assert_eq!((tokens, reason), (7, Some(FinishReason::Length)));
    }
    let query = site.endpoint_record("query").await;
    let question = json!({"worker_id": record.instance_id, "dp_rank": 0, "kind": "recovery"});
    let mut stream = client.call_plain::<Value>(&query, "query", &question).await.unwrap();
    let answer = timeout(START, stream.next()).await.unwrap().unwrap().unwrap().data.unwrap();
    assert!(answer.is_object(), "{answer}");
    assert_eq!(stream.next().await.unwrap(), None);
}

#[tokio::test]
async fn the_published_worker_answers_over_tcp() {
    ask_worker(RequestPlane::Tcp).await;
}

#[tokio::test]
async fn the_published_worker_answers_over_nats() {
    let Some((_nats, plane)) = nats_plane() else { return };
    ask_worker(plane).await;
}

/// Answers with the number of tokens that is asked for.
async fn answer(call: Call) {
    let request: PreprocessedRequest = call.decode().unwrap();
    let wanted = request.stop_conditions.max_tokens.unwrap();
    match wanted {
        100 => return call.responder.refuse("a hundred is too many").await.unwrap(),
        101 => return drop(call.responder.open().await.unwrap()),
        _ => {}
    }
    let mut sink = call.responder.open().await.unwrap();
    for token in 0..wanted {
        sink.push_tokens(&[1000 + token]);
    }
    let last = EngineOutput { finish_reason: Some(FinishReason::Length), ..EngineOutput::default() };
    sink.push(&last).unwrap();
    sink.finish().await.unwrap();
}

/// Writes a record where the release finds it, under its key.
fn put(store: &Path, bucket: &str, record: &Value) -> PathBuf {
    let folder = store.join("v1").join(bucket);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("dynamo%2Fbackend%2Fgenerate%2F{INSTANCE:x}"));
    std::fs::write(&file, serde_json::to_vec(record).unwrap()).unwrap();
    file
}

/// Touches the records again and again: they live as long as their owner does that.
async fn keep(files: [PathBuf; 2]) {
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = std::time::UNIX_EPOCH + Duration::from_millis(dynosim_wire::time::unix_ms());
        for file in &files {
            std::fs::File::options().append(true).open(file).unwrap().set_modified(now).unwrap();
        }
    }
}

/// Status and body of a chat completion.
async fn chat(port: u16, max_tokens: u32) -> Option<(u16, Value)> {
    let message = json!({"role": "user", "content": "hi"});
    let body = json!({"model": "tiny", "max_tokens": max_tokens, "messages": [message]}).to_string();
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let head = format!("{head}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    let json = answer.split_once("\r\n\r\n")?.1;
    Some((status, serde_json::from_str(json.get(json.find('{')?..=json.rfind('}')?)?).ok()?))
}

/// Lets the release's frontend ask our worker.
async fn ask_us(plane: RequestPlane) {
    let Some(site) = Site::new(plane.clone()) else { return };
    // The release's own worker writes the card.
    let worker = site.start_worker();
    let mut card = site.record("mdc", "generate").await;
    drop(worker);
    let server = RequestServer::start(&runtime(plane)).await.unwrap();
    let record = server.serve(&endpoint(), INSTANCE, Arc::new(answering(answer))).await.unwrap();
    card["instance_id"] = INSTANCE.into();
    card["card_json"]["runtime_config"]["enable_local_indexer"] = false.into();
    let store = site.path("ours");
    let record = serde_json::to_value(Record::Endpoint(record)).unwrap();
    let files = [put(&store, "instances", &record), put(&store, "mdc", &card)];
    let _keeping = AbortOnDropHandle::new(tokio::spawn(keep(files)));
    let port = free_port();
    let http = port.to_string();
    let _frontend = site.start("dynamo.frontend", "ours", &["--http-host", "127.0.0.1", "--http-port", &http]);
    let first = until(START, async || chat(port, 5).await.filter(|(status, _)| *status == 200));
    let (_, answer) = first.await;
    assert_eq!(answer["usage"]["completion_tokens"], 5, "{answer}");
    assert_eq!(answer["choices"][0]["finish_reason"], "length", "{answer}");
    assert_eq!(chat(port, 100).await.unwrap().0, 400, "a request that is refused");
    assert_eq!(chat(port, 64).await.unwrap().1["usage"]["completion_tokens"], 64);
    assert_eq!(chat(port, 101).await.unwrap().0, 503, "a stream that is broken off");
    server.close().await;
}

#[tokio::test]
async fn the_published_frontend_takes_our_answers_over_tcp() {
    ask_us(RequestPlane::Tcp).await;
}

#[tokio::test]
async fn the_published_frontend_takes_our_answers_over_nats() {
    let Some((_nats, plane)) = nats_plane() else { return };
    ask_us(plane).await;
}
