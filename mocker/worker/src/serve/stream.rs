//! The answer to a request, as the engine makes it.

use std::time::{Duration, Instant};

use dynosim_engine::Role;
use dynosim_wire::protocol::{
    CompletionTokensDetails, CompletionUsage, EngineOutput, FinishReason, PromptTokensDetails,
};
use dynosim_wire::response::{Cancel, Responder, ResponseSink, SinkError};
use dynosim_wire::time;
use serde_json::Value;

use super::Serving;
use super::plan::Plan;
use crate::driver::{InFlight, TooManyRequests};
use crate::handoff::{HandoffError, SourceSession};
use crate::metrics::Held;
use crate::pace::Prompt;
use crate::progress::End;
use crate::timer::sleep;
use crate::tokens::OutputTokens;

/// What a prefill worker tells the decode worker besides the handshake (as published).
const DISAGGREGATED_PARAMS: &str = "dummy";

/// Answers with an error instead of output.
pub(super) async fn reject(serving: &Serving, responder: Responder, reason: &str) {
    let answered = async {
        let mut sink = responder.open().await?;
        let reason = FinishReason::Error(format!("request rejected: {reason}"));
        sink.push(&EngineOutput { finish_reason: Some(reason), ..EngineOutput::default() })?;
        finish(serving, sink).await
    };
    if let Err(error) = answered.await {
        tracing::debug!(%error, "a rejection could not be sent");
    }
}

/// Runs a request whose KV stays here and streams its output.
pub(super) async fn run(
    serving: &Serving,
    start: Instant,
    mut plan: Plan,
    responder: Responder,
) -> Result<(), SinkError> {
    let request = match serving.engine.submit(plan.request(Prompt::Here)) {
        Ok(request) => request,
        Err(full) => return refuse_full(serving, responder, full).await,
    };
    let _held = Held::new(&serving.metrics.engine_requests);
    let sink = open(serving, start, responder).await?;
    Answer::new(serving, &plan, &request, sink).stream(None).await
}

/// The engine has no room.
async fn refuse_full(serving: &Serving, responder: Responder, full: TooManyRequests) -> Result<(), SinkError> {
    serving.metrics.refused.inc();
    serving.metrics.rejections.inc();
    responder.refuse(&full.to_string()).await
}

/// Says that an answer follows.
pub(super) async fn open(serving: &Serving, start: Instant, responder: Responder) -> Result<ResponseSink, SinkError> {
    let sink = responder.open().await?;
    serving.metrics.first_response.observe(time::now().duration_since(start).as_secs_f64());
    Ok(sink)
}

/// Ends an answer that has no tokens.
pub(super) async fn fail(serving: &Serving, mut sink: ResponseSink, reason: FinishReason) -> Result<(), SinkError> {
    sink.push(&EngineOutput { finish_reason: Some(reason), ..EngineOutput::default() })?;
    finish(serving, sink).await
}

async fn finish(serving: &Serving, mut sink: ResponseSink) -> Result<(), SinkError> {
    serving.metrics.response_bytes.inc_by(sink.pending_bytes() as u64);
    sink.flush().await?;
    sink.finish().await
}

/// How an output ended.
pub(super) enum Ended {
    /// By itself.
    End(End),
    /// By its client.
    Cancelled(Cancel),
    /// Its KV could not be handed off.
    HandoffFailed(HandoffError),
}

/// An answer in the making.
pub(super) struct Answer<'a> {
    serving: &'a Serving,
    plan: &'a Plan,
    request: &'a InFlight,
    sink: ResponseSink,
    /// Output tokens sent.
    sent: u32,
    buffer: Vec<u32>,
}

impl<'a> Answer<'a> {
    pub(super) fn new(serving: &'a Serving, plan: &'a Plan, request: &'a InFlight, sink: ResponseSink) -> Self {
        Self { serving, plan, request, sink, sent: 0, buffer: Vec::new() }
    }

    /// Streams to the end. `source` is where a prefill worker's KV goes.
    pub(super) async fn stream(mut self, mut source: Option<SourceSession>) -> Result<(), SinkError> {
        let ended = match &mut source {
            None => self.output().await?,
            Some(session) => match session.during(self.output()).await {
                Ok(ended) => ended?,
                Err(error) => Ended::HandoffFailed(error),
            },
        };
        let ended = match ended {
            Ended::End(End::Complete) if self.serving.role() == Role::Prefill => self.hand_over(source).await?,
            ended => ended,
        };
        self.end(ended).await
    }

    async fn end(self, ended: Ended) -> Result<(), SinkError> {
        match ended {
            // Who wants nothing more gets nothing more.
            Ended::Cancelled(Cancel::Kill) => {
                self.serving.metrics.cancellations.inc();
                Ok(())
            }
            Ended::Cancelled(Cancel::Stop) => {
                self.serving.metrics.cancellations.inc();
                self.close(FinishReason::Cancelled).await
            }
            Ended::End(End::Complete) => self.close(FinishReason::Length).await,
            Ended::End(End::Rejected(rejection)) => {
                self.close(FinishReason::Error(format!("request rejected: {rejection}"))).await
            }
            Ended::End(End::OutOfMemory) => {
                self.close(FinishReason::Error("out of KV cache, even alone".to_owned())).await
            }
            Ended::HandoffFailed(error) => self.close(FinishReason::Error(error.to_string())).await,
            // The frontend sees a broken stream, as of a worker that died, and may try another one.
            Ended::End(End::Stopped) => Ok(()),
        }
    }

    /// Sends tokens until there will be no more. All that is there goes in one frame and one write.
    async fn output(&mut self) -> Result<Ended, SinkError> {
        loop {
            let state = self.request.snapshot();
            if state.tokens > self.sent {
                self.push(state.tokens)?;
            }
            if let Some(end) = state.end {
                return Ok(Ended::End(end));
            }
            self.flush().await?;
            tokio::select! {
                cancel = self.sink.cancelled() => return Ok(Ended::Cancelled(cancel)),
                () = self.request.changed() => {}
            }
        }
    }

    fn push(&mut self, tokens: u32) -> Result<(), SinkError> {
        self.buffer.clear();
        self.buffer.extend((self.sent..tokens).map(|position| self.plan.output.get(position)));
        self.sent = tokens;
        if self.serving.role() != Role::Prefill {
            self.sink.push_tokens(&self.buffer);
            return Ok(());
        }
        self.sink.push(&EngineOutput {
            token_ids: self.buffer.clone(),
            disaggregated_params: Some(Value::String(DISAGGREGATED_PARAMS.to_owned())),
            ..EngineOutput::default()
        })
    }

    async fn flush(&mut self) -> Result<(), SinkError> {
        self.serving.metrics.response_bytes.inc_by(self.sink.pending_bytes() as u64);
        self.sink.flush().await
    }

    /// The prompt is computed: its KV leaves, then its blocks are free. Without a meeting it just takes its time.
    async fn hand_over(&mut self, source: Option<SourceSession>) -> Result<Ended, SinkError> {
        self.flush().await?;
        let (prompt_tokens, request) = (self.plan.prompt_tokens, self.request);
        let delay = self.serving.transfer.delay(prompt_tokens, 0);
        let leave = async {
            let Some(mut session) = source else {
                sleep(Duration::from_nanos(delay.0)).await;
                request.release();
                return Ok(());
            };
            session.transfer(prompt_tokens).await?;
            request.release();
            session.complete().await
        };
        Ok(tokio::select! {
            cancel = self.sink.cancelled() => Ended::Cancelled(cancel),
            left = leave => match left {
                Ok(()) => Ended::End(End::Complete),
                Err(error) => Ended::HandoffFailed(error),
            }
        })
    }

    async fn close(mut self, reason: FinishReason) -> Result<(), SinkError> {
        let cached_tokens = self.request.snapshot().cached_tokens.unwrap_or(0);
        let usage = usage(self.plan.prompt_tokens, cached_tokens, self.sent, &self.plan.output);
        let last =
            EngineOutput { finish_reason: Some(reason), completion_usage: Some(usage), ..EngineOutput::default() };
        self.sink.push(&last)?;
        finish(self.serving, self.sink).await
    }
}

fn usage(prompt_tokens: u32, cached_tokens: u32, tokens: u32, output: &OutputTokens) -> CompletionUsage {
    let reasoning_tokens = output.reasoning_tokens(tokens);
    CompletionUsage {
        prompt_tokens,
        completion_tokens: tokens,
        total_tokens: prompt_tokens.saturating_add(tokens),
        prompt_tokens_details: Some(PromptTokensDetails { cached_tokens: Some(cached_tokens) }),
        completion_tokens_details: (reasoning_tokens > 0)
            .then_some(CompletionTokensDetails { reasoning_tokens: Some(reasoning_tokens) }),
    }
}
