//! Leases: who acts, of several that could.
//!
//! A lease is over when it was not renewed for its duration, measured by the clock of whoever wants it, from when that one saw
//! the last renewal. Clocks of different machines are never compared.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout};

use super::api::{code, reason};

/// A call that takes longer is tried again.
const CALL: Duration = Duration::from_secs(5);

/// How long a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Others may take it over that long after its last renewal.
    pub duration: Duration,
    /// Its holder gives up if it could not renew it for that long.
    pub give_up: Duration,
    /// Time between two tries.
    pub pause: Duration,
}

impl Terms {
    /// For the one that acts, as other controllers have them.
    pub const LEADER: Self =
        Self { duration: Duration::from_secs(15), give_up: Duration::from_secs(10), pause: Duration::from_secs(2) };

    /// With these settings.
    pub fn new(duration: Duration, pause: Duration) -> Self {
        Self { duration, give_up: duration.mul_f64(2.0 / 3.0).max(pause), pause }
    }
}

/// One that wants a lease.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    identity: String,
    terms: Terms,
}

/// What somebody else's lease looked like, and since when.
struct Sight {
    version: Option<String>,
    since: Instant,
}

impl Candidate {
    /// Of this name.
    pub fn new(client: Client, namespace: &str, name: &str, identity: &str, terms: Terms) -> Self {
        Self { api: Api::namespaced(client, namespace), name: name.to_owned(), identity: identity.to_owned(), terms }
    }

    /// Waits until the lease is held.
    pub async fn acquire(&self) {
        let mut sight = Sight { version: None, since: Instant::now() };
        let mut told = None;
        loop {
            match timeout(CALL, self.attempt(&mut sight)).await {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(holder))) => {
                    if told.as_ref() != Some(&holder) {
                        tracing::info!(lease = self.name, holder, "waits for the lease");
                        told = Some(holder);
                    }
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, reason = reason(&error), "no lease yet"),
                Err(_) => tracing::warn!(lease = self.name, "no lease yet: no answer in time"),
            }
            sleep(self.terms.pause).await;
        }
    }

    /// Renews the lease for as long as that is possible, and returns when it is lost.
    pub async fn hold(&self) {
        let mut renewed = Instant::now();
        let mut sight = Sight { version: None, since: Instant::now() };
        while renewed.elapsed() < self.terms.give_up {
            sleep(self.terms.pause).await;
            let left = self.terms.give_up.saturating_sub(renewed.elapsed()).min(CALL).max(Duration::from_millis(100));
            match timeout(left, self.attempt(&mut sight)).await {
                Ok(Ok(None)) => renewed = Instant::now(),
                Ok(Ok(Some(holder))) => {
                    tracing::error!(lease = self.name, holder, "the lease was taken over");
                    return;
                }
                Ok(Err(error)) => tracing::warn!(lease = self.name, reason = reason(&error), "lease not renewed"),
                Err(_) => tracing::warn!(lease = self.name, "lease not renewed: no answer in time"),
            }
        }
        tracing::error!(lease = self.name, "the lease could not be renewed");
    }

    /// Lets others have the lease at once.
    pub async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            let spec = lease.spec.get_or_insert_default();
            if spec.holder_identity.as_deref() != Some(&self.identity) {
                return Ok(());
            }
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            self.api.replace(&self.name, &PostParams::default(), &lease).await.map(drop)
        };
        if let Ok(Err(error)) = timeout(CALL, release).await {
            tracing::warn!(lease = self.name, reason = reason(&error), "lease not released");
        }
    }

    /// Takes or renews the lease. None: it is held; else who holds it.
    async fn attempt(&self, sight: &mut Sight) -> Result<Option<String>, kube::Error> {
        let found = self.api.get_opt(&self.name).await?;
        let now = MicroTime(Timestamp::now());
        let Some(mut lease) = found else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let spec = LeaseSpec { acquire_time: Some(now.clone()), lease_transitions: Some(0), ..self.spec(now) };
            let made = self.api.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await;
            return self.answer(made, "another candidate");
        };
        let spec = lease.spec.take().unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_own = holder == self.identity;
        if !is_own && !holder.is_empty() {
            if sight.version != lease.metadata.resource_version {
                *sight = Sight { version: lease.metadata.resource_version.clone(), since: Instant::now() };
            }
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            let duration = seconds.map_or(self.terms.duration, Duration::from_secs);
            if sight.since.elapsed() < duration {
                return Ok(Some(holder));
            }
        }
        lease.spec = Some(if is_own {
            LeaseSpec { renew_time: Some(now), holder_identity: spec.holder_identity.clone(), ..spec }
        } else {
            let transitions = spec.lease_transitions.unwrap_or_default().saturating_add(1);
            LeaseSpec { acquire_time: Some(now.clone()), lease_transitions: Some(transitions), ..self.spec(now) }
        });
        // The version goes along: of two that write at once one fails.
        let written = self.api.replace(&self.name, &PostParams::default(), &lease).await;
        self.answer(written, &holder)
    }

    fn spec(&self, now: MicroTime) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.terms.duration.as_secs()).ok(),
            renew_time: Some(now),
            ..LeaseSpec::default()
        }
    }

    fn answer(&self, written: Result<Lease, kube::Error>, other: &str) -> Result<Option<String>, kube::Error> {
        match written {
            Ok(_) => Ok(None),
            // Another candidate, or an earlier call of this one whose answer was lost, wrote first: look again.
            Err(error) if code(&error) == Some(409) && other != self.identity => Ok(Some(other.to_owned())),
            Err(error) => Err(error),
        }
    }
}
