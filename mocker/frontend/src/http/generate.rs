//! The generating routes, from a request's head to its answer.

use std::sync::Arc;
use std::time::Instant;

use ::http::request::Parts;
use ::http::{HeaderValue, Response, StatusCode, header};
use bytes::{Bytes, BytesMut};
use dynosim_wire::time;
use hyper::body::Incoming;
use uuid::Uuid;

use super::body;
use super::prepare::{Work, prepare};
use super::progress::Answer;
use super::reply::{self, REQUEST_ID};
use super::server::Limits;
use super::service::{Call, Delivery, Endpoint, Finished, Observer, Outcome, Service};
use super::stream::{ResponseBody, StreamBody, UsageChunk};
use super::unary;
use crate::openai::answer::{AnswerWriter, annotation};
use crate::openai::error::ApiError;
use crate::openai::options::Options;
use crate::openai::request::{Request, open};
use crate::text::answer::AnswerText;

/// A request with this header is told where it went.
const EXPLAIN: &str = "x-dynosim-explain";
/// By this one.
const ROUTED: &str = "x-dynosim-route";
/// Longest `x-request-id` in bytes.
const MAX_REQUEST_ID_BYTES: usize = 256;

/// One request, until it is answered or streams.
struct Exchange<S: Service> {
    service: Arc<S>,
    endpoint: Endpoint,
    received: Instant,
    /// Names the answer, and the request if the client did not.
    uuid: Uuid,
}

/// A request that can be sent to workers, with what its answer needs.
struct Ready<S: Service> {
    model: S::Model,
    work: Work,
    text: AnswerText,
    observer: S::Observer,
    delivery: Delivery,
    usage_chunk: UsageChunk,
    /// Events at the head of a stream.
    head: Bytes,
}

/// Answers a request to one of the generating routes.
pub(crate) async fn answer<S: Service>(
    service: Arc<S>,
    endpoint: Endpoint,
    limits: Limits,
    head: Parts,
    body: Incoming,
) -> Response<ResponseBody<S>> {
    let exchange = Exchange { service, endpoint, received: time::now(), uuid: Uuid::new_v4() };
    let id = match request_id(&head, exchange.uuid) {
        Ok(id) => id,
        Err(error) => return reply::error(&error),
    };
    let explain = head.headers.contains_key(EXPLAIN);
    let answered = exchange.run(&id, limits, head, body).await;
    let mut response = answered.unwrap_or_else(|error| reply::error(&error));
    if explain {
        let routed = id.to_str().ok().and_then(|id| exchange.service.routed(id));
        if let Some(line) = routed.and_then(|line| HeaderValue::try_from(line).ok()) {
            response.headers_mut().insert(ROUTED, line);
        }
    }
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// The client's name for the request, or ours.
fn request_id(head: &Parts, uuid: Uuid) -> Result<HeaderValue, ApiError> {
    match head.headers.get(REQUEST_ID) {
        Some(id) if !id.is_empty() => match id.to_str() {
            Ok(text) if text.len() <= MAX_REQUEST_ID_BYTES => Ok(id.clone()),
            _ => {
                let allowed = format!("at most {MAX_REQUEST_ID_BYTES} visible ASCII characters");
                Err(ApiError::value(format!("header {REQUEST_ID}"), &String::from_utf8_lossy(id.as_bytes()), &allowed))
            }
        },
        _ => {
            let mut text = Uuid::encode_buffer();
            HeaderValue::from_str(uuid.as_hyphenated().encode_lower(&mut text))
                .map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
        }
    }
}

impl<S: Service> Exchange<S> {
    async fn run(
        &self,
        id: &HeaderValue,
        limits: Limits,
        head: Parts,
        body: Incoming,
    ) -> Result<Response<ResponseBody<S>>, ApiError> {
        let Ready { model, work, text, mut observer, delivery, usage_chunk, head: events } = {
            let body = body::read(&head.headers, body, limits.body_bytes, limits.body_time).await;
            let body = body.inspect_err(|_| self.refused("", Outcome::Refused))?;
            self.ready(&head, &body)?
        };
        let call = Call { request_id: id.to_str().unwrap_or_default().to_owned(), headers: head.headers };
        let prompt_tokens = work.prepared.prompt_tokens;
        observer.prepared(work.prepared);
        let mut outputs = match self.service.generate(&model, work.request, call).await {
            Ok(outputs) => outputs,
            Err(error) => {
                let error = ApiError::from(error);
                observer.finish(ended(outcome_of(&error)));
                return Err(error);
            }
        };
        let mut name = Uuid::encode_buffer();
        let name = self.uuid.as_hyphenated().encode_lower(&mut name);
        let writer = AnswerWriter::new(self.endpoint, name, time::unix_ms() / 1000, model.as_ref().name());
        let mut answer = Answer::new(model, text, observer, prompt_tokens);
        if delivery == Delivery::Stream {
            return Ok(reply::stream(StreamBody::new(outputs, answer, writer, usage_chunk, events)));
        }
        let (text, reason) = unary::collect::<S>(&mut outputs, &mut answer).await?;
        Ok(reply::json(StatusCode::OK, writer.whole(&text, reason, &answer.usage()).freeze()))
    }

    /// Everything that can be wrong with a request shows here, before any work is done.
    fn ready(&self, head: &Parts, body: &[u8]) -> Result<Ready<S>, ApiError> {
        let opened = open(body).inspect_err(|_| self.refused("", Outcome::Refused))?;
        let name = opened.0.clone();
        let request = Request::parse(self.endpoint, opened).inspect_err(|_| self.refused(&name, Outcome::Refused))?;
        let options = request.options();
        let Some(model) = self.service.model(&name) else {
            self.refused(&name, Outcome::NotFound);
            return Err(ApiError::no_model(&name));
        };
        let mut observer = self.service.observe(&name, self.endpoint, options.delivery, self.received);
        let work = prepare(&request, model.as_ref(), &head.headers)
            .inspect_err(|_| observer.finish(ended(Outcome::Refused)))?;
        let text = AnswerText::new(model.as_ref(), options.stops.clone(), options.special_tokens);
        Ok(Ready {
            text,
            observer,
            delivery: options.delivery,
            usage_chunk: if options.include_usage { UsageChunk::Last } else { UsageChunk::None },
            head: head_events(options, &work),
            work,
            model,
        })
    }

    /// Tells metrics of a request that got no further.
    fn refused(&self, model: &str, outcome: Outcome) {
        let mut observer = self.service.observe(model, self.endpoint, Delivery::Unary, self.received);
        observer.finish(ended(outcome));
    }
}

fn head_events(options: &Options, work: &Work) -> Bytes {
    let mut events = BytesMut::new();
    if let Some(prompt) = work.prompt.as_ref().filter(|_| options.annotations.formatted_prompt) {
        annotation("formatted_prompt", prompt, &mut events);
    }
    if options.annotations.token_ids {
        let tokens: Vec<_> = work.request.token_ids.iter().map(ToString::to_string).collect();
        annotation("token_ids", &format!("[{}]", tokens.join(",")), &mut events);
    }
    events.freeze()
}

fn outcome_of(error: &ApiError) -> Outcome {
    match error.status {
        StatusCode::SERVICE_UNAVAILABLE => Outcome::Unavailable,
        status if status.is_server_error() => Outcome::Failed,
        _ => Outcome::Refused,
    }
}

fn ended(outcome: Outcome) -> Finished {
    Finished { outcome, output_tokens: 0, cached_tokens: None, detokenize: std::time::Duration::ZERO }
}

/// `Retry-After` counts whole seconds.
pub(crate) fn retry_after(error: &ApiError) -> Option<(header::HeaderName, HeaderValue)> {
    let seconds = error.retry_after?.as_millis().div_ceil(1000).max(1) as u64;
    Some((header::RETRY_AFTER, HeaderValue::from(seconds)))
}
