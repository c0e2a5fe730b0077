//! Certificates that change while requests are answered.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use dynosim_operator::webhook::{Rotation, Source};
use k8s_openapi::ByteString;
use kube::Api;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

use super::cluster::{Cluster, OWN, SECRET, connect, run, text, until};

/// Renewed as fast as it goes, without being near the end.
const FAST: Rotation = Rotation {
    validity: Duration::from_hours(1),
    renew_after: Duration::from_millis(500),
    settle: Duration::from_secs(1),
};
/// Certificates that are seen in a test.
const CERTIFICATES: usize = 4;

#[test]
fn certificates_change_and_no_request_fails() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        cluster.configure();
        two_operators_share_a_certificate(&cluster).await;
        certificates_are_renewed_under_requests(&cluster).await;
        certificates_in_files_are_read_again(&cluster).await;
    });
}

/// Creates a graph in the older version as a trial, and lists all: admission and conversion both ways.
async fn ask(client: &kube::Client) -> Result<(), kube::Error> {
    let kind = GroupVersionKind::gvk("nvidia.com", "v1alpha1", "DynamoGraphDeployment");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "test", &ApiResource::from_gvk(&kind));
    let graph = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"},
        "spec": {"services": {"F": {"componentType": "frontend"}}}});
    let params = PostParams { dry_run: true, field_manager: None };
    let made = api.create(&params, &serde_json::from_value(graph).expect("an object")).await?;
    assert_eq!(made.data["spec"]["services"]["F"]["replicas"], 1);
    api.list(&ListParams::default()).await.map(drop)
}

async fn two_operators_share_a_certificate(cluster: &Cluster) {
    // One of them where the API server looks, one beside it.
    let mut beside = cluster.settings();
    beside.address.set_port(0);
    let (one, other) = tokio::join!(cluster.webhooks(cluster.settings()), cluster.webhooks(beside));
    one.is_ready().await;
    other.is_ready().await;
    let secret = cluster.secret();
    let bundle = text(&secret["data"]["ca.crt"]);
    assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 1, "both have agreed on one");
    for running in [&one, &other] {
        let served = served(running.webhooks.address.port(), &bundle).await;
        assert_eq!(served, der(&text(&secret["data"]["tls.crt"])), "and serve it");
    }
    let client = cluster.client(&cluster.api.kubeconfig()).await;
    ask(&client).await.expect("answered");
    let before = cluster.versions();
    one.end().await;
    // The next one goes on with what is there.
    let next = cluster.webhooks(cluster.settings()).await;
    next.is_ready().await;
    ask(&client).await.expect("answered");
    assert_eq!(cluster.versions(), before);
    next.end().await;
    other.end().await;
}

async fn certificates_are_renewed_under_requests(cluster: &Cluster) {
    let mut settings = cluster.settings();
    settings.rotation = FAST;
    let running = cluster.webhooks(settings.clone()).await;
    // A second operator, so that both write.
    settings.address.set_port(0);
    let other = cluster.webhooks(settings).await;
    running.is_ready().await;
    let client = cluster.client(&cluster.api.kubeconfig()).await;
    let kept: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(client.clone(), OWN);
    let (mut seen, mut asked) = (BTreeSet::new(), 0);
    while seen.len() < CERTIFICATES {
        ask(&client)
            .await
            .unwrap_or_else(|error| panic!("after {asked} requests and {} certificates: {error}", seen.len()));
        asked += 1;
        let data = kept.get(SECRET).await.expect("the secret").data.expect("data");
        let ByteString(certificate) = data["tls.crt"].clone();
        seen.insert(certificate);
        assert!(asked < 100_000, "never renewed");
    }
    let secret = cluster.secret();
    let authorities = text(&secret["data"]["ca.crt"]).matches("BEGIN CERTIFICATE").count();
    assert!(authorities >= CERTIFICATES, "none has expired, all are trusted: {authorities}");
    running.end().await;
    other.end().await;
}

async fn certificates_in_files_are_read_again(cluster: &Cluster) {
    let folder = tempfile();
    let [first, second] =
        [(); 2].map(|()| generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate"));
    write(&folder, &first, &first.cert.pem());
    let mut settings = cluster.settings();
    settings.source = Source::Folder(folder.clone());
    let running = cluster.webhooks(settings).await;
    running.is_ready().await;
    let bundle = || {
        text(
            &cluster.get("crd", "dynamographdeployments.nvidia.com")["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"],
        )
    };
    assert_eq!(bundle(), first.cert.pem());
    let both = format!("{}{}", second.cert.pem(), first.cert.pem());
    assert_eq!(served(cluster.port, &both).await, der(&first.cert.pem()));
    // A key that does not fit, as between two writes: the certificate that is served stays.
    std::fs::write(folder.join("tls.key"), second.signing_key.serialize_pem()).expect("a file");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(served(cluster.port, &both).await, der(&first.cert.pem()));
    write(&folder, &second, &both);
    until(|| bundle() == both, "the new authority in the definition").await;
    assert_eq!(served(cluster.port, &both).await, der(&second.cert.pem()));
    let client = cluster.client(&cluster.api.kubeconfig()).await;
    ask(&client).await.expect("answered");
    running.end().await;
    std::fs::remove_dir_all(&folder).expect("removed");
}

fn tempfile() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("certificates-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn write(folder: &Path, pair: &CertifiedKey<rcgen::KeyPair>, authorities: &str) {
    for (name, text) in [
        ("tls.crt", pair.cert.pem()),
        ("tls.key", pair.signing_key.serialize_pem()),
        ("ca.crt", authorities.to_owned()),
    ] {
        std::fs::write(folder.join(name), text).expect("a file");
    }
}

/// The certificate that a port serves to who trusts these authorities.
async fn served(port: u16, authorities: &str) -> Option<CertificateDer<'static>> {
    let connection = connect(port, authorities).await?;
    Some(connection.get_ref().1.peer_certificates()?.first()?.clone().into_owned())
}

fn der(pem: &str) -> Option<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(pem.as_bytes()).ok()
}
