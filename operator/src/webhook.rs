//! The webhooks: an HTTPS server that answers API servers, and the certificate that they trust.
//!
//! ```text
//!   API server ── review ──► server ──► admission, conversion (pure)
//!       ▲                      ▲ certificate
//!       │ authorities          │
//!   webhook configurations ◄── keeper ◄──► Secret, or files
//!   and definitions
//! ```
//!
//! Every replica of the operator serves. The keeper looks after the certificate and sees to it that who calls trusts it; it
//! writes only what differs. The server is ready once both are so.

mod body;
mod certificates;
mod clients;
mod folder;
mod keeper;
mod metrics;
mod secret;
mod server;
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::config::Config;
pub use certificates::Rotation;
pub use metrics::WebhookMetrics;

/// How often all is looked at, beside what watches tell.
const CHECK: Duration = Duration::from_secs(10);
/// How long connections are still taken after the end was asked for: until API servers have heard that this replica goes.
const LINGER: Duration = Duration::from_secs(3);

/// What the webhooks are started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where they listen.
    pub address: SocketAddr,
    /// The operator's namespace.
    pub namespace: String,
    /// Service that leads to them.
    pub service: String,
    /// Name of the webhook configurations, validating and mutating.
    pub configuration: String,
    /// Where the certificate is.
    pub source: Source,
    /// Hosts that the certificate is for.
    pub hosts: Vec<String>,
    /// Lead conversions here even if they are led to another operator, as one that looks after the whole cluster does.
    pub takes_over: bool,
    /// When certificates are renewed.
    pub rotation: Rotation,
    /// How often all is looked at.
    pub check: Duration,
    /// How long connections are still taken after the end was asked for.
    pub linger: Duration,
}

/// Where a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a Secret of the operator's namespace, made and renewed here.
    Secret(String),
    /// In files that others make and renew.
    Folder(PathBuf),
}

impl From<&Arguments> for Settings {
    fn from(arguments: &Arguments) -> Self {
        let (service, namespace) = (&arguments.webhook_service, &arguments.own_namespace);
        let source = match &arguments.webhook_cert_dir {
            Some(folder) => Source::Folder(folder.clone()),
            None => Source::Secret(arguments.webhook_secret.clone()),
        };
        Self {
            address: arguments.webhook_addr,
            namespace: namespace.clone(),
            service: service.clone(),
            configuration: arguments.webhook_configuration.clone(),
            source,
            hosts: ["", ".svc", ".svc.cluster.local"].map(|end| format!("{service}.{namespace}{end}")).to_vec(),
            takes_over: arguments.namespace.is_none(),
            rotation: Rotation::default(),
            check: CHECK,
            linger: LINGER,
        }
    }
}

/// Why the webhooks cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("webhooks cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// The API server does not say who the operator is.
    #[error("the operator's own user is not known: {0}")]
    User(#[from] kube::Error),
    /// A metric has the name of another one.
    #[error("metrics of the webhooks: {0}")]
    Metrics(#[from] prometheus::Error),
    /// No connections with TLS.
    #[error("TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
}

/// Running webhooks.
#[derive(Debug)]
pub struct Webhooks {
    /// Where they listen.
    pub address: SocketAddr,
    /// Ends once they were asked to end and the last answer is given.
    pub task: JoinHandle<()>,
    ready: watch::Receiver<bool>,
}

impl Webhooks {
    /// True once connections are taken, a certificate is there, and all configurations and definitions that exist trust it.
    /// It stays so: to go when somebody takes the trust away would help nobody.
    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Tells when they are ready.
    pub fn ready(&self) -> watch::Receiver<bool> {
        self.ready.clone()
    }
}

/// Starts the webhooks. They end some time after `end` is cancelled.
pub async fn start(
    client: Client,
    settings: Settings,
    config: Arc<Config>,
    registry: &prometheus::Registry,
    end: CancellationToken,
) -> Result<Webhooks, Error> {
    let metrics = WebhookMetrics::register(registry)?;
    let user = own_user(&client).await?;
    let listen = |error| Error::Listen { address: settings.address, error };
    let listener = TcpListener::bind(settings.address).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    let served = Arc::new(tls::Served::default());
    let acceptor = tls::acceptor(served.clone())?;
    let (tell_ready, ready) = watch::channel(false);
    let linger = settings.linger;
    let keeper = keeper::Keeper::new(client, settings, served);
    let keeper = tokio::spawn(keeper.run(tell_ready, end.clone()));
    let answers = server::Answers { config, user, metrics };
    let task = tokio::spawn(async move {
        server::serve(listener, acceptor, answers, end, linger).await;
        keeper.abort();
    });
    Ok(Webhooks { address, task, ready })
}

async fn own_user(client: &Client) -> Result<String, kube::Error> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    Ok(review.status.and_then(|status| status.user_info).and_then(|user| user.username).unwrap_or_default())
}
