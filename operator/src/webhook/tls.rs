//! The certificate that is served, which may change at any time.

use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, ServerConfig};

/// The certificate of new connections; without one they fail.
#[derive(Debug, Default)]
pub(super) struct Served(RwLock<Option<Arc<CertifiedKey>>>);

impl Served {
    /// Changes the certificate; connections that are there keep theirs.
    pub(super) fn set(&self, key: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadPair {
    #[error("tls.crt: {0}")]
    Certificate(String),
    #[error("tls.key: {0}")]
    Key(String),
    #[error("tls.crt and tls.key: {0}")]
    Pair(Error),
}

/// A certificate and its key, in PEM.
pub(super) fn pair(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, BadPair> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|error| BadPair::Certificate(error.to_string()))?;
    if chain.is_empty() {
        return Err(BadPair::Certificate("holds no certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| BadPair::Key(error.to_string()))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(BadPair::Pair)
}

pub(super) fn acceptor(served: Arc<Served>) -> Result<TlsAcceptor, Error> {
    let config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(served);
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn provider() -> CryptoProvider {
    ring::default_provider()
}
