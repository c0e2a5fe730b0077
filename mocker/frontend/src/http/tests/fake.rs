//! A serving side without workers: outputs are fed by the test.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ::http::StatusCode;
use bytes::Bytes;
use dynosim_wire::protocol::{CompletionUsage, EngineOutput, FinishReason, PreprocessedRequest, PromptTokensDetails};
use tokio::sync::mpsc;

use crate::generate::{GenerateError, Outputs};
use crate::http::service::{Call, Delivery, Endpoint, Finished, ListedModel, Observer, Page, Prepared, Service};
use crate::http::{Limits, Server};
use crate::text::TextModel;
use crate::text::tests::{card, files};

/// What the answer to the next requests is.
#[derive(Clone, Debug)]
pub(super) enum Script {
    /// Two-letter tokens, one output each, and `length` as an output of its own.
    Words,
    /// As many outputs at once as `max_tokens` says.
    Echo,
    /// What the test sends.
    Fed,
    /// One word, then nothing.
    Silent,
    /// No output.
    Refuse(GenerateError),
    /// One word, then the error.
    Break(GenerateError),
}

/// What the serving side saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Requests.
    pub(super) requests: Mutex<Vec<(PreprocessedRequest, String)>>,
    /// Senders of the outputs of `Script::Fed`.
    pub(super) feeds: Mutex<Vec<mpsc::Sender<Result<EngineOutput, GenerateError>>>>,
    /// Outputs that live.
    pub(super) live: AtomicUsize,
    /// Ends that observers were told.
    pub(super) ends: Mutex<Vec<Finished>>,
    /// Tokens that observers were told.
    pub(super) tokens: AtomicUsize,
}

/// The serving side.
pub(super) struct Fake {
    model: Arc<TextModel>,
    script: Script,
    pub(super) seen: Arc<Seen>,
}

impl Fake {
    /// Answers by `script`, for the model `tiny` with a context of 4,096 tokens.
    pub(super) fn new(script: Script) -> Self {
        let model = TextModel::build(&card(4096), &files()).unwrap();
        Self { model: Arc::new(model), script, seen: Arc::default() }
    }

    /// Serves on a free port.
    pub(super) async fn start(self, limits: Limits) -> (Server, Arc<Seen>) {
        let seen = Arc::clone(&self.seen);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        (Server::start(listener, Arc::new(self), limits).unwrap(), seen)
    }
}

/// Outputs of one request.
pub(super) struct FakeOutputs {
    first: Option<Box<EngineOutput>>,
    feed: Option<mpsc::Receiver<Result<EngineOutput, GenerateError>>>,
    seen: Arc<Seen>,
}

impl Drop for FakeOutputs {
    fn drop(&mut self) {
        self.seen.live.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Outputs for FakeOutputs {
    async fn next(&mut self) -> Result<Option<EngineOutput>, GenerateError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(*first));
        }
        match &mut self.feed {
            Some(feed) => feed.recv().await.transpose(),
            None => std::future::pending().await,
        }
    }

    fn next_ready(&mut self) -> Result<Option<EngineOutput>, GenerateError> {
        self.feed.as_mut().and_then(|feed| feed.try_recv().ok()).transpose()
    }
}

/// An output of these tokens.
pub(super) fn output(token_ids: &[u32]) -> EngineOutput {
    EngineOutput { token_ids: token_ids.to_vec(), ..EngineOutput::default() }
}

/// The output that ends an answer.
pub(super) fn end(reason: FinishReason, cached_tokens: u32) -> EngineOutput {
    let prompt_tokens_details = Some(PromptTokensDetails { cached_tokens: Some(cached_tokens) });
    let completion_usage = Some(CompletionUsage { prompt_tokens_details, ..CompletionUsage::default() });
    EngineOutput { finish_reason: Some(reason), completion_usage, ..EngineOutput::default() }
}

/// Watches one request.
pub(super) struct FakeObserver(Arc<Seen>);

impl Observer for FakeObserver {
    fn prepared(&mut self, _: Prepared) {}
    fn tokens(&mut self, count: u32, _: Instant) {
        self.0.tokens.fetch_add(count as usize, Ordering::SeqCst);
    }
    fn finish(&mut self, end: Finished) {
        self.0.ends.lock().unwrap().push(end);
    }
}

impl AsRef<TextModel> for FakeModel {
    fn as_ref(&self) -> &TextModel {
        &self.0
    }
}

/// The model.
#[derive(Clone)]
pub(super) struct FakeModel(Arc<TextModel>);

impl Service for Fake {
    type Model = FakeModel;
    type Outputs = FakeOutputs;
    type Observer = FakeObserver;

    fn model(&self, name: &str) -> Option<FakeModel> {
        (name == "tiny").then(|| FakeModel(Arc::clone(&self.model)))
    }

    fn models(&self) -> Vec<ListedModel> {
        vec![ListedModel { id: "tiny".to_owned(), created_s: 1_796_088_552, context_window: 4096 }]
    }

    fn observe(&self, _: &str, _: Endpoint, _: Delivery, _: Instant) -> FakeObserver {
        FakeObserver(Arc::clone(&self.seen))
    }

    async fn generate(
        &self,
        _: &FakeModel,
        request: PreprocessedRequest,
        call: Call,
    ) -> Result<FakeOutputs, GenerateError> {
        let wanted = request.stop_conditions.max_tokens.unwrap_or(8);
        if let Script::Silent = self.script {
            self.seen.live.fetch_add(1, Ordering::SeqCst);
            return Ok(FakeOutputs {
                first: Some(Box::new(output(&[1000]))),
                feed: None,
                seen: Arc::clone(&self.seen),
            });
        }
        let (sender, feed) = mpsc::channel(wanted as usize + 2);
        let words = |count: u32| (0..count).map(|i| output(&[1000 + i % 1000]));
        let fill = |outputs: &mut dyn Iterator<Item = EngineOutput>| {
            outputs.for_each(|output| sender.try_send(Ok(output)).unwrap());
        };
        match self.script.clone() {
            Script::Refuse(error) => return Err(error),
            Script::Words => fill(&mut words(wanted).chain([end(FinishReason::Length, 0)])),
            Script::Echo => {
                let tokens = request.token_ids.iter().take(wanted as usize);
                fill(&mut tokens.map(|token| output(&[*token])).chain([end(FinishReason::Length, 3)]));
            }
            Script::Break(error) => {
                fill(&mut words(1));
                sender.try_send(Err(error)).unwrap();
            }
            Script::Fed | Script::Silent => self.seen.feeds.lock().unwrap().push(sender.clone()),
        }
        self.seen.live.fetch_add(1, Ordering::SeqCst);
        self.seen.requests.lock().unwrap().push((request, call.request_id));
        Ok(FakeOutputs { first: None, feed: Some(feed), seen: Arc::clone(&self.seen) })
    }

    fn routed(&self, request_id: &str) -> Option<String> {
        Some(format!("[{request_id}]"))
    }

    fn explain(&self, query: Option<&str>) -> Page {
        let body = Bytes::from(query.unwrap_or_default().to_owned());
        Page { status: StatusCode::OK, content_type: "application/json", body }
    }

    fn health(&self) -> Page {
        page(StatusCode::OK, "application/json", "{\"status\":\"healthy\"}")
    }

    fn live(&self) -> Page {
        page(StatusCode::OK, "application/json", "{\"status\":\"live\"}")
    }

    fn metrics(&self) -> Page {
        page(StatusCode::OK, "text/plain; version=0.0.4", "up 1\n")
    }
}

fn page(status: StatusCode, content_type: &'static str, body: &'static str) -> Page {
    Page { status, content_type, body: Bytes::from_static(body.as_bytes()) }
}

/// Waits until `condition` holds.
pub(super) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
