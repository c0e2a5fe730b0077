//! The events of one rank: in order, without gaps, from the beginning.

use std::sync::Arc;
use std::time::Duration;

use dynosim_router::Target;
use dynosim_wire::discovery::{ChannelRecord, EndpointRecord};
use dynosim_wire::event::{EventSubscriber, RECOVERY, RecoveryRequest, RecoveryResponse, RouterEvent};
use dynosim_wire::request::RequestClient;
use dynosim_wire::{Codec, Runtime};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use uuid::Uuid;

use super::pool::KvRouter;
use crate::metrics::KvMetrics;

/// Pause before a channel that cannot be read is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// A worker may take that long to tell what it has cached.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
/// What was published before the subscription stood is asked for at once, and then again: nothing tells when it stands,
/// and a worker that is idle sends nothing that would show a gap.
const LOOKS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(500), Duration::from_secs(3)];

/// Brings a router the events of one rank.
#[derive(Debug)]
pub(super) struct Source {
    router: Arc<KvRouter>,
    target: Target,
    /// Who tells what was missed.
    recovery: Option<EndpointRecord>,
    client: RequestClient,
    metrics: Arc<KvMetrics>,
    /// The last event that the index contains; none: nothing is known of the cache.
    last: Option<u64>,
    /// Metrics were told that the cache is known.
    known: bool,
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.known {
            self.metrics.known(false);
        }
    }
}

impl Source {
    pub(super) fn new(
        router: Arc<KvRouter>,
        target: Target,
        recovery: Option<EndpointRecord>,
        client: RequestClient,
        metrics: Arc<KvMetrics>,
    ) -> Self {
        Self { router, target, recovery, client, metrics, last: None, known: false }
    }

    /// Reads events until it is aborted.
    pub(super) async fn follow(mut self, runtime: Runtime, channel: ChannelRecord) {
        loop {
            match EventSubscriber::connect(&runtime, &channel).await {
                Ok(subscriber) => self.read(subscriber).await,
                Err(error) => tracing::warn!(target = %self.target, %error, "KV events cannot be read; trying again"),
            }
            sleep(RETRY_AFTER).await;
        }
    }

    async fn read(&mut self, mut subscriber: EventSubscriber) {
        let begin = Instant::now();
        let mut looks = LOOKS.iter().map(|after| begin + *after);
        let mut next = looks.next().filter(|_| self.recovery.is_some());
        loop {
            let received = tokio::select! {
                biased;
                () = sleep_until(next.unwrap_or(begin)), if next.is_some() => {
                    next = looks.next();
                    self.catch_up().await;
                    continue;
                }
                received = subscriber.next() => received,
            };
            let Some(received) = received else { return };
            match Codec::MessagePack.decode::<Vec<RouterEvent>>(&received.payload) {
                Ok(events) => self.take(&events).await,
                Err(error) => tracing::warn!(target = %self.target, %error, "a batch of KV events cannot be read"),
            }
        }
    }

    /// Applies a batch, after what is missing before it.
    async fn take(&mut self, events: &[RouterEvent]) {
        let mine =
            |event: &&RouterEvent| event.worker_id == self.target.worker && event.event.dp_rank == self.target.rank;
        let events: Vec<_> = events.iter().filter(mine).collect();
        let Some(first) = events.first().map(|event| event.event.event_id) else { return };
        if self.last.is_none_or(|last| first > last + 1) && self.recovery.is_some() {
            self.metrics.gap();
            self.catch_up().await;
        }
        for event in events {
            self.apply(event);
        }
    }

    /// Applies an event unless the index contains it.
    fn apply(&mut self, event: &RouterEvent) {
        let id = event.event.event_id;
        if self.last.is_none_or(|last| id > last) {
            self.router.apply(self.target, event);
            self.reached(id);
        }
    }

    /// The index contains all events up to this one.
    fn reached(&mut self, id: u64) {
        self.last = Some(id);
        if !std::mem::replace(&mut self.known, true) {
            self.metrics.known(true);
        }
    }

    /// Asks the worker for what is missing. If it does not tell, events go on from where they are.
    async fn catch_up(&mut self) {
        let Some(endpoint) = self.recovery.clone() else { return };
        let request = RecoveryRequest {
            worker_id: self.target.worker,
            dp_rank: self.target.rank,
            start_event_id: self.last.map(|last| last + 1),
            kind: Some(RECOVERY.to_owned()),
            ..RecoveryRequest::default()
        };
        let asked = timeout(RECOVERY_TIMEOUT, ask(&self.client, &endpoint, &request)).await;
        match asked.unwrap_or_else(|_| Err("no answer in time".to_owned())) {
            Ok(response) => self.recover(response),
            Err(reason) => {
                tracing::warn!(target = %self.target, reason, "missed KV events cannot be had");
            }
        }
    }

    fn recover(&mut self, response: RecoveryResponse) {
        match response {
            RecoveryResponse::TreeDump { events, last_event_id, .. } => {
                self.router.clear(self.target);
                for event in &events {
                    self.router.apply(self.target, event);
                }
                self.reached(last_event_id);
                self.metrics.recovered();
            }
            RecoveryResponse::Events { events, .. } => {
                for event in &events {
                    self.apply(event);
                }
                self.metrics.recovered();
            }
            // Nothing was missed, unless the worker has begun anew.
            RecoveryResponse::TooNew { newest_available, .. } => {
                self.last = self.last.filter(|last| newest_available >= *last);
            }
            RecoveryResponse::InvalidRange { .. } => {}
            RecoveryResponse::Error(reason) => {
                tracing::warn!(target = %self.target, reason, "the worker does not tell missed KV events");
            }
        }
    }
}

async fn ask(
    client: &RequestClient,
    endpoint: &EndpointRecord,
    request: &RecoveryRequest,
) -> Result<RecoveryResponse, String> {
    let id = Uuid::new_v4().to_string();
    let mut answer =
        client.call_plain::<RecoveryResponse>(endpoint, &id, request).await.map_err(|error| error.to_string())?;
    let said = answer.next().await.map_err(|error| error.to_string())?;
    said.and_then(|said| said.data).ok_or_else(|| "an empty answer".to_owned())
}
