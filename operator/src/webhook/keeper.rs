//! Looks after the certificate, and sees to it that clients trust it.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::certificates::{Kept, Trust, next};
use super::clients::Clients;
use super::secret::Store;
use super::tls::{self, Served};
use super::{Settings, Source, folder};

/// After somebody else has written in between, or something changed: what comes next is due soon.
const SOON: Duration = Duration::from_millis(100);
/// How long after the first time that all is well this is said: API servers hear of what is written a moment later.
const HEARD: Duration = Duration::from_secs(1);

/// Looks after everything.
pub(super) struct Keeper {
    client: Client,
    settings: Settings,
    served: Arc<Served>,
    clients: Clients,
    place: Place,
    /// What is served, to tell a change.
    serving: Option<(Vec<u8>, Vec<u8>)>,
    /// Authorities that all clients trust, and since when.
    trusted: Option<(String, Instant)>,
}

/// Where the certificate is.
enum Place {
    Secret(Box<Store>),
    Folder(PathBuf),
}

/// Why a look has failed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("the certificate cannot be read: {0}")]
    Files(#[from] std::io::Error),
    #[error(transparent)]
    Pair(#[from] tls::BadPair),
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
}

impl Error {
    /// Somebody else has written in between.
    fn is_conflict(&self) -> bool {
        // 422 is a JSON patch whose test has failed.
        matches!(self, Self::Api(kube::Error::Api(status)) if [409, 422].contains(&status.code))
    }
}

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// All is as it should be.
    Done,
    /// There is more to do soon.
    Again,
}

impl Keeper {
    pub(super) fn new(client: Client, settings: Settings, served: Arc<Served>) -> Self {
        let clients = Clients::new(&client, &settings);
        let place = match &settings.source {
            Source::Secret(name) => Place::Secret(Box::new(Store::new(client.clone(), &settings.namespace, name))),
            Source::Folder(folder) => Place::Folder(folder.clone()),
        };
        Self { client, settings, served, clients, place, serving: None, trusted: None }
    }

    /// Looks again and again until the end; says when all is well for the first time.
    pub(super) async fn run(mut self, ready: watch::Sender<bool>, end: CancellationToken) {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.settings.namespace);
        let secret = match &self.settings.source {
            Source::Secret(name) => Some((secrets, name.as_str())),
            Source::Folder(_) => None,
        };
        let mut changes = pin!(self.clients.changes(secret));
        let mut told = String::new();
        loop {
            let mut pause = match self.look().await {
                Ok(look) => {
                    told.clear();
                    if look == Look::Again { SOON } else { self.settings.check }
                }
                Err(error) if error.is_conflict() => SOON,
                Err(error) => {
                    let text = error.to_string();
                    if text != told {
                        warn!(%error, "webhooks are not looked after");
                        told = text;
                    }
                    self.settings.check
                }
            };
            let is_ready = *ready.borrow();
            if let (Some((_, since)), Some(_), false) = (&self.trusted, &self.serving, is_ready) {
                if since.elapsed() >= HEARD {
                    info!("webhooks are trusted and answer");
                    ready.send_replace(true);
                } else {
                    pause = SOON;
                }
            }
            tokio::select! {
                () = sleep(pause.min(self.settings.check)) => {}
                Some(()) = changes.next() => {}
                () = end.cancelled() => return,
            }
        }
    }

    async fn look(&mut self) -> Result<Look, Error> {
        match &self.place {
            Place::Folder(folder) => {
                let files = folder::read(folder).await?;
                self.serve(&files.certificate, &files.key)?;
                self.tell(files.authorities.as_deref()).await?;
                Ok(Look::Done)
            }
            Place::Secret(store) => {
                let (now, store) = (Timestamp::now(), store.clone());
                let found = store.read(now).await?;
                if let Some(kept) = &found.kept {
                    let (current, bundle) = (kept.current.clone(), kept.bundle());
                    self.serve(current.certificate.as_bytes(), current.key.as_bytes())?;
                    self.tell(Some(&bundle)).await?;
                }
                let trust = self.trust(found.kept.as_ref().map(Kept::bundle).as_deref());
                let rotation = self.settings.rotation;
                match next(found.kept.as_ref(), trust, &self.settings.hosts, now, rotation)? {
                    None => Ok(Look::Done),
                    Some(kept) => {
                        store.write(found, &kept).await?;
                        info!(expires = %kept.current.expires, next = kept.next.is_some(), "wrote the webhooks' certificate");
                        Ok(Look::Again)
                    }
                }
            }
        }
    }

    /// Serves another certificate if it is another one.
    fn serve(&mut self, certificate: &[u8], key: &[u8]) -> Result<(), Error> {
        let pair = (certificate.to_vec(), key.to_vec());
        if self.serving.as_ref() != Some(&pair) {
            self.served.set(tls::pair(certificate, key)?);
            self.serving = Some(pair);
        }
        Ok(())
    }

    /// Tells clients of authorities; remembers since when they all know.
    async fn tell(&mut self, authorities: Option<&str>) -> Result<(), Error> {
        let told = self.clients.tell(authorities).await;
        let bundle = authorities.unwrap_or_default();
        self.trusted = self.trusted.take().filter(|(trusted, _)| trusted == bundle);
        told?;
        self.trusted.get_or_insert_with(|| (bundle.to_owned(), Instant::now()));
        Ok(())
    }

    fn trust(&self, bundle: Option<&str>) -> Trust {
        match &self.trusted {
            Some((trusted, since)) if Some(trusted.as_str()) == bundle => {
                if since.elapsed() >= self.settings.rotation.settle { Trust::Settled } else { Trust::Told }
            }
            _ => Trust::No,
        }
    }
}
