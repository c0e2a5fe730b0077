//! Watches: every kind that matters is listed once and then followed, for as long as the operator leads.

use std::sync::Arc;

use futures_util::StreamExt as _;
use kube::Client;
use kube::api::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::api::{self, Scope};
use super::queue::Sender;
use super::world::{Watched, World};
use crate::keys::label;
use crate::kinds::{OWNED, Orphans};

/// Objects of a page of a list.
const PAGE: u32 = 200;
/// The server ends a watch after so many seconds; one that does not is not there any more.
const WATCH_S: u32 = 240;

/// What is watched, how.
struct Plan {
    watched: Watched,
    resource: ApiResource,
    config: watcher::Config,
}

fn plans(has_pod_monitors: bool) -> Vec<Plan> {
    let config = || watcher::Config::default().page_size(PAGE).timeout(WATCH_S);
    let mut plans = vec![
        Plan { watched: Watched::Graphs, resource: api::graphs(), config: config() },
        Plan { watched: Watched::Pods, resource: api::core("Pod", "pods"), config: config().labels(label::GRAPH) },
        Plan {
            watched: Watched::Secrets,
            resource: api::core("Secret", "secrets"),
            config: config().fields("type=kubernetes.io/dockerconfigjson"),
        },
    ];
    for (index, kind) in OWNED.iter().enumerate() {
        if kind.orphans == Orphans::DeleteIfKnown && !has_pod_monitors {
            continue;
        }
        // Accounts may be for all graphs of a namespace: those carry no graph's name.
        let labels = match kind.kind {
            "ServiceAccount" | "Role" | "RoleBinding" => format!("{}={}", label::MANAGED_BY, label::MANAGER),
            _ => label::GRAPH.to_owned(),
        };
        let config = config().labels(&labels);
        plans.push(Plan { watched: Watched::Children(index), resource: kind.resource(), config });
    }
    plans
}

/// All watches.
pub struct Watches {
    tasks: JoinSet<()>,
    needed: Vec<Watched>,
    world: Arc<World>,
    progress: Arc<Notify>,
}

impl Watches {
    /// Starts them. `monitors`: pod monitors are asked for; the cluster need not have them.
    pub fn start(client: &Client, scope: &Scope, world: &Arc<World>, queue: &Sender, monitors: bool) -> Self {
        let progress = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let mut needed = Vec::new();
        for Plan { watched, resource, config } in plans(monitors) {
            if !is_optional(watched) {
                needed.push(watched);
            }
            let (api, world, queue) = (scope.api(client, &resource), Arc::clone(world), queue.clone());
            let progress = Arc::clone(&progress);
            tasks.spawn(async move {
                let mut events = watcher(api, config).default_backoff().boxed();
                while let Some(event) = events.next().await {
                    match event {
                        Ok(event) => {
                            let is_whole = matches!(event, watcher::Event::InitDone);
                            queue.all(world.take(watched, event));
                            if is_whole {
                                progress.notify_waiters();
                                if is_optional(watched) {
                                    queue.all(world.graphs());
                                }
                            }
                        }
                        Err(error) if is_optional(watched) => {
                            tracing::debug!(kind = %resource.plural, %error, "cannot be watched");
                        }
                        Err(error) => {
                            tracing::warn!(kind = %resource.plural, %error, "watch failed; what is known stays, trying again");
                        }
                    }
                }
            });
        }
        Self { tasks, needed, world: Arc::clone(world), progress }
    }

    /// Waits until everything was listed once.
    pub async fn complete(&self) {
        loop {
            let progress = self.progress.notified();
            let mut progress = std::pin::pin!(progress);
            progress.as_mut().enable();
            if self.needed.iter().all(|watched| self.world.is_complete(*watched)) {
                return;
            }
            progress.await;
        }
    }

    /// Ends them.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// The cluster may not have the kind at all.
fn is_optional(watched: Watched) -> bool {
    matches!(watched, Watched::Children(kind) if OWNED[kind].orphans == Orphans::DeleteIfKnown)
}
