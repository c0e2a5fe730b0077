//! An API server that calls the webhooks of a test.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dynosim_api::crd;
use dynosim_operator::Config;
use dynosim_operator::webhook::{Rotation, Settings, Source, Webhooks, start};
use dynosim_peers::{ApiServer, free_port};
use k8s_openapi::ByteString;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::CancellationToken;

/// The operator's namespace.
pub(crate) const OWN: &str = "ours";
pub(crate) const CONFIGURATION: &str = "dynosim-webhook";
pub(crate) const SECRET: &str = "webhook-server-cert";
/// All that the webhooks may do.
const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: webhooks}
rules:
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations], resourceNames: [dynosim-webhook], verbs: [get, list, watch, patch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], resourceNames: [dynamographdeployments.nvidia.com, dynamographdeploymentscalingadapters.nvidia.com], verbs: [get, list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: webhooks}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: webhooks}
subjects: [{kind: ServiceAccount, namespace: ours, name: operator}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: webhooks, namespace: ours}
rules:
- {apiGroups: [''], resources: [secrets], verbs: [create]}
- {apiGroups: [''], resources: [secrets], resourceNames: [webhook-server-cert], verbs: [get, list, watch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: webhooks, namespace: ours}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: webhooks}
subjects: [{kind: ServiceAccount, namespace: ours, name: operator}]
";

/// An API server with definitions and the operator's account, which may do no more than the webhooks need.
pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    pub(crate) port: u16,
}

/// What `kubectl` said.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Webhooks that run, and how to end them.
pub(crate) struct Running {
    pub(crate) webhooks: Webhooks,
    pub(crate) registry: Registry,
    end: CancellationToken,
}

impl Cluster {
    /// None if the test is to be skipped.
    pub(crate) fn start() -> Option<Self> {
        let cluster = Self { api: ApiServer::start()?, port: free_port() };
        for namespace in [OWN, "test"] {
            cluster.api.kubectl(&["create", "namespace", namespace]);
        }
        cluster.api.kubectl(&["create", "serviceaccount", "operator", "--namespace", OWN]);
        cluster.api.apply(ROLES);
        for mut definition in crd::definitions() {
            if let Some(conversion) = &mut definition.spec.conversion {
                let config = conversion.webhook.as_mut().and_then(|webhook| webhook.client_config.as_mut());
                let config = config.expect("a webhook");
                config.service = None;
                config.url = Some(cluster.url(crd::CONVERSION_PATH));
            }
            cluster.api.apply(&crd::yaml(&definition));
        }
        cluster.api.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
        Some(cluster)
    }

    fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// From now on, the API server asks about graphs and adapters.
    pub(crate) fn configure(&self) {
        let hook = |name: &str, resource: &str, path: &str| {
            json!({
                "name": format!("{name}.dynosim.test"),
                "clientConfig": {"url": self.url(path)},
                "rules": [{"apiGroups": ["nvidia.com"], "apiVersions": ["v1beta1"], "resources": [resource], "operations": ["CREATE", "UPDATE"]}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "matchPolicy": "Equivalent",
            })
        };
        let (graphs, adapters) = ("dynamographdeployments", "dynamographdeploymentscalingadapters");
        let mutating = [hook("mutate", graphs, "/mutate-nvidia-com-v1beta1-dynamographdeployment")];
        let validating = [
            hook("validate", graphs, "/validate-nvidia-com-v1beta1-dynamographdeployment"),
            hook("adapters", adapters, "/validate-nvidia-com-v1beta1-dynamographdeploymentscalingadapter"),
        ];
        for (kind, hooks) in [("Mutating", &mutating[..]), ("Validating", &validating[..])] {
            let configuration = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": format!("{kind}WebhookConfiguration"),
                "metadata": {"name": CONFIGURATION},
                "webhooks": hooks,
            });
            self.api.apply(&configuration.to_string());
        }
    }

    /// Settings of an operator that certificates do not expire for, and that looks often.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            address: (Ipv4Addr::LOCALHOST, self.port).into(),
            namespace: OWN.to_owned(),
            service: "webhooks".to_owned(),
            configuration: CONFIGURATION.to_owned(),
            source: Source::Secret(SECRET.to_owned()),
            hosts: vec!["127.0.0.1".to_owned()],
            takes_over: true,
            rotation: Rotation::default(),
            check: Duration::from_millis(500),
            linger: Duration::ZERO,
        }
    }

    pub(crate) async fn client(&self, kubeconfig: &std::path::Path) -> Client {
        let read = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(read, &options).await.expect("a configuration");
        Client::try_from(config).expect("a client")
    }

    pub(crate) async fn webhooks(&self, settings: Settings) -> Running {
        let client = self.client(&self.api.service_account(OWN, "operator")).await;
        let (registry, end) = (Registry::new(), CancellationToken::new());
        let config = Arc::new(Config::default());
        let webhooks = start(client, settings, config, &registry, end.clone()).await.expect("webhooks");
        Running { webhooks, registry, end }
    }

    /// Runs `kubectl` as an administrator in the namespace `test`.
    pub(crate) fn kubectl(&self, args: &[&str], input: &str) -> Said {
        let mut command = Command::new(self.api.programs().join("kubectl"));
        command.arg("--kubeconfig").arg(self.api.kubeconfig()).args(["--namespace", "test"]).args(args);
        command.arg("--cache-dir").arg(self.api.kubeconfig().with_file_name("cache"));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("kubectl reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Said { ok: output.status.success(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// An object in the namespace `test` or of the cluster.
    pub(crate) fn get(&self, resource: &str, name: &str) -> Value {
        let said = self.kubectl(&["get", resource, name, "--output=json"], "");
        serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr))
    }

    /// The operator's secret.
    pub(crate) fn secret(&self) -> Value {
        let said = self.kubectl(&["--namespace", OWN, "get", "secret", SECRET, "--output=json"], "");
        serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{}", said.stderr))
    }

    /// Versions of all that the webhooks may write.
    pub(crate) fn versions(&self) -> Vec<Value> {
        let all = [
            self.get("mutatingwebhookconfiguration", CONFIGURATION),
            self.get("validatingwebhookconfiguration", CONFIGURATION),
            self.get("crd", "dynamographdeployments.nvidia.com"),
            self.get("crd", "dynamographdeploymentscalingadapters.nvidia.com"),
            self.secret(),
        ];
        all.iter().map(|object| object["metadata"]["resourceVersion"].clone()).collect()
    }
}

impl Running {
    pub(crate) async fn is_ready(&self) {
        let ready = self.webhooks.ready().wait_for(|ready| *ready).await.map(|ready| *ready);
        assert!(ready.expect("the webhooks run") && self.webhooks.is_ready());
    }

    /// Ends them, and waits for that.
    pub(crate) async fn end(self) {
        self.end.cancel();
        self.webhooks.task.await.expect("they end");
    }
}

/// Looks until something is so.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("never: {what}");
}

/// Runs a test with as many threads as webhooks and their caller need.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(test);
}

/// A value of a Secret, or a bundle.
pub(crate) fn text(value: &Value) -> String {
    let ByteString(bytes) = serde_json::from_value(value.clone()).expect("base64");
    String::from_utf8(bytes).expect("text")
}

/// A connection to the webhooks of somebody who trusts these authorities, if that holds.
pub(crate) async fn connect(port: u16, authorities: &str) -> Option<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority.expect("a certificate")).expect("an authority");
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, connection).await.ok()
}
