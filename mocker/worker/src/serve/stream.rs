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
use crate::driver::InFlight;
use crate::pace::Prompt;
use crate::progress::End;
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

/// Runs a request and streams its output.
pub(super) async fn run(
    serving: &Serving,
    start: Instant,
    mut plan: Plan,
    responder: Responder,
) -> Result<(), SinkError> {
    let prompt = if plan.bootstrap.is_some() { Prompt::ByRole } else { Prompt::Here };
    let request = match serving.engine.submit(plan.request(prompt)) {
        Ok(request) => request,
        Err(full) => {
            serving.metrics.refused.inc();
            serving.metrics.rejections.inc();
            return responder.refuse(&full.to_string()).await;
        }
    };
    serving.metrics.engine_requests.inc();
    let answered = async {
        let sink = responder.open().await?;
        serving.metrics.first_response.observe(time::now().duration_since(start).as_secs_f64());
        Answer { serving, plan: &plan, request: &request, sink, sent: 0, buffer: Vec::new() }.stream().await
    };
    let answered = answered.await;
    serving.metrics.engine_requests.dec();
    answered
}

async fn finish(serving: &Serving, mut sink: ResponseSink) -> Result<(), SinkError> {
    serving.metrics.response_bytes.inc_by(sink.pending_bytes() as u64);
    sink.flush().await?;
    sink.finish().await
}

/// How an output ended.
enum Ended {
    /// By itself.
    End(End),
    /// By its client.
    Cancelled(Cancel),
}

/// An answer in the making.
struct Answer<'a> {
    serving: &'a Serving,
    plan: &'a Plan,
    request: &'a InFlight,
    sink: ResponseSink,
    /// Output tokens sent.
    sent: u32,
    buffer: Vec<u32>,
}

impl Answer<'_> {
    async fn stream(mut self) -> Result<(), SinkError> {
        let ended = self.output().await?;
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
            Ended::End(End::Complete) => {
                if self.serving.role() == Role::Prefill {
                    self.hand_over().await;
                }
                self.close(FinishReason::Length).await
            }
            Ended::End(End::Rejected(rejection)) => {
                self.close(FinishReason::Error(format!("request rejected: {rejection}"))).await
            }
            Ended::End(End::OutOfMemory) => {
                self.close(FinishReason::Error("out of KV cache, even alone".to_owned())).await
            }
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

    /// A prefill worker without a meeting: the KV takes its time to leave, then its blocks are free.
    async fn hand_over(&mut self) {
        let delay = self.serving.transfer.delay(self.plan.prompt_tokens, 0);
        if delay.0 > 0 {
            tokio::time::sleep(Duration::from_nanos(delay.0)).await;
        }
        self.request.release();
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
