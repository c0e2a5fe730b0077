//! The conversion function behind HTTPS.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use dynosim_api::convert::review;
use dynosim_api::crd::CONVERSION_PATH;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// A running webhook. It ends with the program.
pub(super) struct Webhook {
    pub(super) url: String,
    /// Its certificate, which is its own authority.
    pub(super) authority: String,
}

pub(super) fn serve() -> Webhook {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a configuration");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || runtime.block_on(accept(listener, acceptor)));
    Webhook { url: format!("https://127.0.0.1:{port}{CONVERSION_PATH}"), authority: cert.pem() }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor) {
    loop {
        let (connection, _) = listener.accept().await.expect("a connection");
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let Ok(connection) = acceptor.accept(connection).await else { return };
            let server = hyper::server::conn::http1::Builder::new();
            // A connection that the API server drops is no failure.
            let _ = server.serve_connection(TokioIo::new(connection), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.uri().path(), CONVERSION_PATH);
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let answer = review(serde_json::from_slice(&body).expect("a review"));
    let body = serde_json::to_vec(&answer).expect("JSON");
    Ok(Response::builder().header("content-type", "application/json").body(Full::from(body)).expect("an answer"))
}
