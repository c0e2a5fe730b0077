//! An answer as server-sent events: a body that reads outputs only when the connection takes more.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use dynosim_wire::protocol::EngineOutput;
use dynosim_wire::time;
use tokio_util::sync::ReusableBoxFuture;

use super::progress::{Answer, Step, broken_off};
use super::service::{Outcome, Service};
use crate::generate::{GenerateError, Outputs};
use crate::openai::answer::{AnswerWriter, DONE, error_event};
use crate::openai::error::ApiError;

/// Bytes of events that are gathered before they are given to the connection.
const MAX_FRAME_BYTES: usize = 16 * 1024;
/// First size of the buffer for events: two chunks.
const FRAME_BYTES: usize = 512;

/// Whether a stream ends with token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageChunk {
    /// It does.
    Last,
    /// It does not.
    None,
}

/// Everything that a stream needs while it runs.
struct State<S: Service> {
    outputs: S::Outputs,
    answer: Answer<S>,
    writer: AnswerWriter,
    usage_chunk: UsageChunk,
    text: String,
    buffer: BytesMut,
}

type Next = Result<Option<EngineOutput>, GenerateError>;

/// The body of a stream. Dropped before its end, it cancels the work.
///
/// The same future is used for every wait, and it owns the state, so that a wait costs no allocation and is never
/// broken off.
pub(crate) struct StreamBody<S: Service> {
    next: ReusableBoxFuture<'static, (Box<State<S>>, Next)>,
    head: Option<Bytes>,
    over: bool,
}

impl<S: Service> StreamBody<S> {
    /// A stream that begins with the events `head`.
    pub(crate) fn new(
        outputs: S::Outputs,
        answer: Answer<S>,
        writer: AnswerWriter,
        usage_chunk: UsageChunk,
        head: Bytes,
    ) -> Self {
        let buffer = BytesMut::with_capacity(FRAME_BYTES);
        let state = State { outputs, answer, writer, usage_chunk, text: String::new(), buffer };
        Self {
            next: ReusableBoxFuture::new(wait(Box::new(state))),
            head: (!head.is_empty()).then_some(head),
            over: false,
        }
    }

    /// The next events; none at the end.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(head) = self.head.take() {
            return Poll::Ready(Some(head));
        }
        if self.over {
            return Poll::Ready(None);
        }
        loop {
            let (mut state, next) = ready!(self.next.poll(context));
            self.over = state.gather(next) == Gathered::Last;
            let frame = state.buffer.split().freeze();
            if self.over {
                return Poll::Ready(Some(frame));
            }
            self.next.set(wait(state));
            if !frame.is_empty() {
                return Poll::Ready(Some(frame));
            }
        }
    }

    /// Nothing follows.
    pub(crate) fn is_over(&self) -> bool {
        self.over && self.head.is_none()
    }
}

async fn wait<S: Service>(mut state: Box<State<S>>) -> (Box<State<S>>, Next) {
    let next = state.outputs.next().await;
    (state, next)
}

/// Whether events may follow those that were gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathered {
    Some,
    Last,
}

impl<S: Service> State<S> {
    /// Writes the events of `next` and of all outputs that have come already.
    fn gather(&mut self, mut next: Next) -> Gathered {
        let begin = time::now();
        self.buffer.reserve(FRAME_BYTES);
        loop {
            let gathered = match next {
                Ok(Some(output)) => self.write(&output),
                Ok(None) => self.fail(broken_off()),
                Err(error) => self.fail(error),
            };
            if gathered == Gathered::Last {
                return gathered;
            }
            if self.buffer.len() >= MAX_FRAME_BYTES {
                break;
            }
            next = match self.outputs.next_ready() {
                Ok(None) => break,
                other => other,
            };
        }
        self.answer.pause(begin);
        Gathered::Some
    }

    fn write(&mut self, output: &EngineOutput) -> Gathered {
        self.text.clear();
        match self.answer.take(output, &mut self.text) {
            Step::On => {
                if !output.token_ids.is_empty() {
                    self.writer.chunk(&self.text, None, &mut self.buffer);
                }
                Gathered::Some
            }
            Step::End(reason) => {
                self.writer.chunk(&self.text, Some(reason), &mut self.buffer);
                if self.usage_chunk == UsageChunk::Last {
                    self.writer.usage_chunk(&self.answer.usage(), &mut self.buffer);
                }
                self.buffer.extend_from_slice(DONE);
                self.answer.finish(Outcome::Complete);
                Gathered::Last
            }
            Step::Failed(reason) => self.fail(GenerateError::Failed(reason)),
        }
    }

    fn fail(&mut self, error: GenerateError) -> Gathered {
        error_event(&ApiError::from(error), &mut self.buffer);
        self.buffer.extend_from_slice(DONE);
        self.answer.finish(Outcome::Failed);
        Gathered::Last
    }
}

/// What a response carries.
pub(crate) enum ResponseBody<S: Service> {
    /// All of it.
    Whole(Option<Bytes>),
    /// Events as they come.
    Stream(StreamBody<S>),
}

impl<S: Service> http_body::Body for ResponseBody<S> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let data = match self.get_mut() {
            Self::Whole(bytes) => bytes.take(),
            Self::Stream(stream) => ready!(stream.poll(context)),
        };
        Poll::Ready(data.map(|data| Ok(http_body::Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(stream) => stream.is_over(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(_) => http_body::SizeHint::default(),
        }
    }
}
