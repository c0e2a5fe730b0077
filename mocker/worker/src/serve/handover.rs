//! Requests whose KV goes from a prefill worker to a decode worker: the router told both where to meet.

use std::sync::atomic::Ordering;
use std::time::Instant;

use dynosim_wire::protocol::{BootstrapInfo, FinishReason};
use dynosim_wire::response::{Responder, ResponseSink, SinkError};

use super::plan::Plan;
use super::stream::{Answer, fail, open};
use super::{Handoffs, Serving};
use crate::driver::{InFlight, TooManyRequests};
use crate::handoff::{DestinationSession, HandoffError, HandoffListener, Meeting, SourceSession, Terms};
use crate::metrics::Held;
use crate::pace::Prompt;
use crate::progress::End;

/// Why a request did not come to its tokens.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Handoff(#[from] HandoffError),
    #[error(transparent)]
    Full(#[from] TooManyRequests),
    #[error("bootstrap_info: this worker {0}")]
    NoHandoffs(&'static str),
    #[error("the engine gave up: {0:?}")]
    Ended(End),
}

/// Runs a request and streams its output. The answer begins before the other side is there: the frontend waits for it.
pub(super) async fn run(
    serving: &Serving,
    start: Instant,
    id: &str,
    plan: Plan,
    responder: Responder,
) -> Result<(), SinkError> {
    let sink = open(serving, start, responder).await?;
    let Some(info) = plan.bootstrap.clone() else { return Ok(()) };
    match &serving.handoffs {
        Handoffs::Source(listener) => prefill(serving, listener, &info, id, plan, sink).await,
        Handoffs::Destination(terms) => decode(serving, terms, &info, id, plan, sink).await,
        Handoffs::None => {
            let why = "has no bootstrap port, or its engine hands no KV off";
            fail(serving, sink, FinishReason::Error(Failed::NoHandoffs(why).to_string())).await
        }
    }
}

/// Does what comes before the first token; none if the client left meanwhile or was told why not.
async fn prepare<T>(
    serving: &Serving,
    mut sink: ResponseSink,
    work: impl Future<Output = Result<T, Failed>>,
) -> Result<Option<(T, ResponseSink)>, SinkError> {
    let prepared = tokio::select! {
        _ = sink.cancelled() => {
            serving.metrics.cancellations.inc();
            return Ok(None);
        }
        prepared = work => prepared,
    };
    match prepared {
        Ok(prepared) => Ok(Some((prepared, sink))),
        Err(error) => {
            fail(serving, sink, FinishReason::Error(error.to_string())).await?;
            Ok(None)
        }
    }
}

async fn prefill(
    serving: &Serving,
    listener: &HandoffListener,
    info: &BootstrapInfo,
    id: &str,
    mut plan: Plan,
    sink: ResponseSink,
) -> Result<(), SinkError> {
    let meet = async {
        let meeting = Meeting::new(info, id)?;
        let session: SourceSession = listener.expect(meeting.identity)?.meet().await?;
        Ok((session, serving.engine.submit(plan.request(Prompt::ByRole))?))
    };
    let Some(((session, request), sink)) = prepare(serving, sink, meet).await? else { return Ok(()) };
    let _held = Held::new(&serving.metrics.engine_requests);
    Answer::new(serving, &plan, &request, sink).stream(Some(session)).await
}

async fn decode(
    serving: &Serving,
    terms: &Terms,
    info: &BootstrapInfo,
    id: &str,
    mut plan: Plan,
    sink: ResponseSink,
) -> Result<(), SinkError> {
    let ranks = serving.config.dp_size;
    let rank = plan.rank.unwrap_or_else(|| serving.turn.fetch_add(1, Ordering::Relaxed) % ranks);
    plan.rank = Some(rank);
    let fetch = async {
        let meeting = Meeting::new(info, id)?;
        let mut session = DestinationSession::dial(&meeting, terms, rank).await?;
        session.asked_to_reserve().await?;
        let request = serving.engine.submit(plan.request(Prompt::ByRole))?;
        let found = session.during(reserved(&request)).await??;
        let whole = plan.prompt_tokens.div_ceil(serving.block_size) * serving.block_size;
        session.reserved(whole.saturating_sub(found)).await?;
        request.activate();
        session.applied().await?;
        Ok((session, request))
    };
    let Some(((mut session, request), sink)) = prepare(serving, sink, fetch).await? else { return Ok(()) };
    let _held = Held::new(&serving.metrics.engine_requests);
    // The KV is here: how the source lets go of its own changes nothing any more.
    let completed = async {
        if let Err(error) = session.completed().await {
            tracing::debug!(%id, %error, "the source of a handoff did not say that it is over");
        }
    };
    let (answered, ()) = tokio::join!(Answer::new(serving, &plan, &request, sink).stream(None), completed);
    answered
}

/// Waits until the engine has blocks for the prompt; what comes back is how many tokens of it were here.
async fn reserved(request: &InFlight) -> Result<u32, Failed> {
    loop {
        let state = request.snapshot();
        match (state.reserved_tokens, state.end) {
            (Some(tokens), _) => return Ok(tokens),
            (None, Some(end)) => return Err(Failed::Ended(end)),
            (None, None) => request.changed().await,
        }
    }
}
