//! What tests on a real cluster are written with. The cluster is the one that `KUBECONFIG` points at.
//!
//! ```text
//!   in_namespace("name", async |space| ...)     a namespace of the test's own, at the restricted pod security level
//!        ├── space.apply(YAML)                  objects, by server-side apply
//!        ├── space.wait(what, async || ...)     until something is so; the message of a failure says why it was not
//!        ├── space.pod_port(POD, PORT)          HTTP through the API server: whole answers, streams of events
//!        └── space.logs(...), space.exec(...)
//!   operator::installed(), operator::Graph       the operator from its chart, and graphs that it looks after
//!   fleet::with_fleet(...)                       graphs in their hundreds, on a node that runs nothing
//! ```
//!
//! Where a test fails, the namespace's events, pods and logs are printed before it is removed (`DYNOSIM_E2E_KEEP` keeps it).
//! Images must be on the nodes; `DYNOSIM_IMAGE` names ours.

mod chat;
pub mod fleet;
mod http;
mod load;
mod namespace;
mod objects;
pub mod operator;
mod pods;
mod report;
mod wait;

pub use chat::{Chat, chat};
pub use http::{Answer, Endpoint, Events};
pub use load::Load;
pub use namespace::{Namespace, in_namespace};
pub use pods::{Ended, Executed};
pub use wait::{LIMIT, wait};

use kube::{Client, Config};

/// A client of the cluster; none if no `KUBECONFIG` names one and the test is to be skipped.
///
/// # Panics
/// If the kubeconfig is of no use, or there is none where `CI` is `true`.
pub async fn connect() -> Option<Client> {
    if std::env::var_os("KUBECONFIG").is_none_or(|files| files.is_empty()) {
        dynosim_peers::skip("a cluster that KUBECONFIG names");
        return None;
    }
    let mut config = Config::infer().await.expect("KUBECONFIG can be used");
    // What answers through the API server may say 503, and is to be heard.
    config.default_retry = false;
    Some(Client::try_from(config).expect("KUBECONFIG can be used"))
}

/// Name of our image on the nodes.
pub fn image() -> String {
    std::env::var("DYNOSIM_IMAGE").unwrap_or_else(|_| "localhost/dynosim:dev".into())
}
