//! The task of one handle that writes: the object with all its records.
//!
//! The object is always written whole. What is asked for while a write is under way goes into the next one; a write that
//! fails is tried again for as long as it may succeed. An object that somebody deletes is written again.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::runtime::watcher::{Config, Event};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::cluster::{Cluster, Fault, answer};
use super::follow::Follower;
use super::identity::PodIdentity;
use super::object::{FIELD_MANAGER, Own, cards, manifest, owners, withdrawn, without_changed_cards};
use crate::discovery::backoff::Backoff;
use crate::discovery::orders::Reply;
use crate::discovery::{Bucket, DiscoveryError, Key};

/// An account that may not write is believed after that long: roles take a moment to arrive everywhere.
const FORBIDDEN_PATIENCE: Duration = Duration::from_secs(5);
/// Time for frontends to see a change before the next one. They act within 30 ms; this is for those that are busy.
const NOTICE: Duration = Duration::from_millis(100);
/// Closing waits that long for the API server; after that the object goes with its pod.
const CLOSE_DEADLINE: Duration = Duration::from_secs(3);
/// An object that lasted so long was not deleted for the same reason as the time before.
const SETTLED: Duration = Duration::from_secs(10);
/// Longest wait before an object is written again that is deleted every time.
const LONGEST_LOSS_WAIT: Duration = Duration::from_secs(30);

/// What the task is asked for.
#[derive(Debug)]
pub(super) enum Command {
    Put(Vec<(Key, Value)>, Reply),
    Remove(Key, Reply),
    /// Remove the object and end.
    Close(Reply),
}

pub(super) struct Keeper {
    cluster: Cluster,
    api: Api<DynamicObject>,
    pod: PodIdentity,
    name: String,
    /// What the object should hold.
    own: Own,
    /// What it holds, once this process has written it.
    written: Option<Own>,
    /// Of the object that was written.
    uid: Option<String>,
    written_at: Instant,
    /// Somebody deleted it.
    lost: bool,
    /// Those who want to know when it is written.
    waiting: Vec<Reply>,
    /// When to write next, if there is anything to write.
    due: Option<Instant>,
    failing_since: Option<Instant>,
    backoff: Backoff,
    losses: Backoff,
    /// Watches the object, once it is written.
    guard: Guard,
}

/// Whether it is known that the object is there.
enum Guard {
    /// There is nothing to watch yet.
    Off,
    On {
        follower: Box<Follower>,
        /// Seen since the list began.
        seen: bool,
    },
    /// This account may not look.
    Blind,
}

impl Guard {
    /// Resolves when the object with this uid has gone.
    async fn lost(&mut self, uid: Option<&str>) {
        while let Self::On { follower, seen } = self {
            match follower.next().await {
                Ok(Event::Init) => *seen = false,
                Ok(Event::InitApply(_) | Event::Apply(_)) => *seen = true,
                Ok(Event::InitDone) if !*seen => return,
                Ok(Event::Delete(object)) if object.metadata.uid.as_deref() == uid => return,
                Err(Fault::Forbidden(reason)) => {
                    tracing::debug!(reason, "may not watch its own object, so will not notice if somebody deletes it");
                    *self = Self::Blind;
                }
                Ok(Event::InitDone | Event::Delete(_)) | Err(_) => {}
            }
        }
        std::future::pending::<()>().await;
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Keeper {
    pub(super) fn new(cluster: Cluster, pod: PodIdentity) -> Self {
        Self {
            api: cluster.objects(&pod.namespace),
            name: pod.object_name(),
            cluster,
            pod,
            own: Own::new(),
            written: None,
            uid: None,
            written_at: Instant::now(),
            lost: false,
            waiting: Vec::new(),
            due: None,
            failing_since: None,
            backoff: Backoff::default(),
            losses: Backoff::up_to(LONGEST_LOSS_WAIT),
            guard: Guard::Off,
        }
    }

    /// Ends when closed or when the handle was dropped; the object is removed then.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                // All that was asked for goes into one write.
                biased;
                command = commands.recv() => match command {
                    Some(Command::Put(records, reply)) => self.put(records, reply),
                    Some(Command::Remove(key, reply)) => self.remove(&key, reply),
                    Some(Command::Close(reply)) => {
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(self.leave().await);
                        return;
                    }
                    None => {
                        if let Err(error) = self.leave().await {
                            tracing::debug!(%error, "the object of a dropped handle goes with its pod");
                        }
                        return;
                    }
                },
                () = until(self.due) => self.write().await,
                () = self.guard.lost(self.uid.as_deref()) => self.was_lost(),
            }
        }
    }

    fn put(&mut self, records: Vec<(Key, Value)>, reply: Reply) {
        self.own.extend(records.into_iter().map(|(key, value)| (key, Arc::new(value))));
        self.ask(reply);
    }

    fn remove(&mut self, key: &Key, reply: Reply) {
        if self.own.remove(key).is_some() {
            self.ask(reply);
        } else {
            let _ = reply.send(Ok(()));
        }
    }

    /// Has everything written soon. A write that failed keeps its time: the next attempt takes this along.
    fn ask(&mut self, reply: Reply) {
        self.waiting.push(reply);
        self.due.get_or_insert_with(Instant::now);
    }

    fn was_lost(&mut self) {
        self.lost = true;
        let wait = if self.written_at.elapsed() < SETTLED { self.losses.next() } else { Duration::ZERO };
        let hint = if wait.is_zero() { "" } else { "; is POD_UID that of this pod?" };
        tracing::warn!(object = self.name, "somebody deleted the object{hint}; writing it again");
        let again = Instant::now() + wait;
        self.due = Some(self.due.map_or(again, |due| due.min(again)));
    }

    async fn write(&mut self) {
        self.due = None;
        match self.publish().await {
            Ok(()) => self.done(),
            Err(fault) => self.failed(&fault),
        }
    }

    fn done(&mut self) {
        if self.backoff.end() {
            tracing::info!(object = self.name, "the object is written");
        }
        if self.written_at.elapsed() >= SETTLED {
            self.losses.end();
        }
        (self.written, self.written_at) = (Some(self.own.clone()), Instant::now());
        (self.lost, self.failing_since) = (false, None);
        for reply in self.waiting.drain(..) {
            // Whoever asked may have stopped waiting; the record is ours all the same.
            let _ = reply.send(Ok(()));
        }
        if matches!(self.guard, Guard::Off) {
            let config = Config::default().fields(&format!("metadata.name={}", self.name));
            let follower = Follower::new(&self.cluster, self.api.clone(), config).if_allowed();
            self.guard = Guard::On { follower: Box::new(follower), seen: true };
        }
    }

    fn failed(&mut self, fault: &Fault) {
        let now = Instant::now();
        let failing = now - *self.failing_since.get_or_insert(now);
        let hopeless = match fault {
            Fault::Refused(_) => true,
            Fault::Forbidden(_) => failing >= FORBIDDEN_PATIENCE,
            Fault::Passing(_) | Fault::Missing(_) | Fault::Conflict(_) => false,
        };
        if hopeless && !self.waiting.is_empty() {
            for reply in self.waiting.drain(..) {
                let _ = reply.send(Err(self.cluster.error(fault)));
            }
            // What was written stays.
            self.own = self.written.clone().unwrap_or_default();
            self.failing_since = None;
            self.backoff.end();
            if !self.lost {
                return;
            }
        }
        if self.backoff.is_first() {
            let (error, hint) = (self.cluster.error(fault), hint(fault));
            tracing::warn!(object = self.name, %error, "cannot write the object{hint}; trying again");
        }
        self.due = Some(now + self.backoff.next());
    }

    /// Writes the object. Published frontends take over changes of its records in place, but a model card only if it was
    /// away for a moment.
    async fn publish(&mut self) -> Result<(), Fault> {
        let before = match &self.written {
            Some(written) => written.clone(),
            None => self.predecessors_cards().await?,
        };
        let own = self.own.clone();
        if let Some(others) = without_changed_cards(&before, &own) {
            self.apply(&others).await?;
            sleep(NOTICE).await;
        }
        self.apply(&own).await
    }

    /// The model cards that a process before this one, in this pod, has left in the object. Asked for by a patch that
    /// changes nothing: who may write may do that.
    async fn predecessors_cards(&mut self) -> Result<Own, Fault> {
        let nothing = Patch::Merge(json!({}));
        let left = answer(self.api.patch(&self.name, &PatchParams::default(), &nothing)).await;
        match left {
            Ok(left) if owners(&left).contains(&self.pod.uid) => Ok(cards(&left)),
            Ok(_) | Err(Fault::Missing(_)) => Ok(Own::new()),
            Err(fault) => Err(fault),
        }
    }

    async fn apply(&mut self, records: &Own) -> Result<(), Fault> {
        let whole = Patch::Apply(manifest(&self.pod, records));
        let applied = answer(self.api.patch(&self.name, &PatchParams::apply(FIELD_MANAGER).force(), &whole)).await?;
        self.uid = applied.metadata.uid;
        Ok(())
    }

    /// First the endpoints go, and nobody sends new requests here; then the object.
    async fn leave(&mut self) -> Result<(), DiscoveryError> {
        for reply in self.waiting.drain(..) {
            let _ = reply.send(Err(DiscoveryError::Closed));
        }
        let Some(written) = self.written.take() else { return Ok(()) };
        let gone = async {
            if written.keys().any(|key| key.bucket == Bucket::Instances) {
                self.apply(&withdrawn(&written)).await?;
                sleep(NOTICE).await;
            }
            self.delete().await
        };
        let gone = timeout(CLOSE_DEADLINE, gone).await;
        gone.unwrap_or_else(|_| Err(Fault::Passing("no answer in time".to_owned())))
            .map_err(|fault| self.cluster.error(&fault))
    }

    /// Deletes the object that was written, not one that another process has made since.
    async fn delete(&mut self) -> Result<(), Fault> {
        let same = Preconditions { uid: self.uid.clone(), resource_version: None };
        let deleted = answer(self.api.delete(&self.name, &DeleteParams::default().preconditions(same))).await;
        match deleted {
            Ok(_) | Err(Fault::Missing(_) | Fault::Conflict(_)) => Ok(()),
            Err(Fault::Forbidden(reason)) => {
                tracing::debug!(reason, "may not delete its own object; it goes with its pod");
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }
}

/// What to look at first.
fn hint(fault: &Fault) -> &'static str {
    match fault {
        Fault::Missing(_) => "; are the namespace and the DynamoWorkerMetadata definition there?",
        Fault::Forbidden(_) => "; workers need create and patch on dynamoworkermetadatas",
        Fault::Passing(_) | Fault::Refused(_) | Fault::Conflict(_) => "",
    }
}
