//! The definitions on a real API server, which converts by a webhook as the operator serves it.

mod accepted;
mod changed;
mod refused;
mod used;
mod webhook;

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use dynosim_api::crd;
use dynosim_peers::ApiServer;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

/// An API server that has the definitions.
struct Server {
    api: &'static ApiServer,
}

/// What `kubectl` said.
struct Said {
    ok: bool,
    stdout: String,
    stderr: String,
}

/// None if the test is to be skipped. Tests of the program share one, each with a namespace of its own.
fn server() -> Option<&'static Server> {
    static PREPARED: OnceLock<Server> = OnceLock::new();
    let api = ApiServer::shared()?;
    Some(PREPARED.get_or_init(|| {
        let server = Server { api };
        server.install();
        server
    }))
}

impl Server {
    fn install(&self) {
        let webhook = webhook::serve();
        for mut definition in crd::definitions() {
            crd::set_conversion(&mut definition, "no", "where", Some(&webhook.authority));
            if let Some(conversion) = &mut definition.spec.conversion {
                let config = conversion.webhook.as_mut().and_then(|webhook| webhook.client_config.as_mut());
                let config = config.expect("a webhook");
                assert_eq!(config.ca_bundle, Some(ByteString(webhook.authority.clone().into_bytes())));
                // The server runs beside the test and not in a cluster with services.
                config.service = None;
                config.url = Some(webhook.url.clone());
            }
            self.api.apply(&crd::yaml(&definition));
        }
        self.api.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    }

    /// A namespace of a test's own.
    fn namespace(&self, name: &str) {
        self.api.kubectl(&["create", "namespace", name]);
    }

    /// Runs `kubectl` in a namespace.
    fn kubectl(&self, namespace: &str, args: &[&str], input: &str) -> Said {
        let mut command = Command::new(self.api.programs().join("kubectl"));
        command.arg("--kubeconfig").arg(self.api.kubeconfig()).args(["--namespace", namespace]).args(args);
        command.env("HOME", env!("CARGO_TARGET_TMPDIR"));
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

    /// What an object is in a version, without what the server adds to it.
    fn get(&self, namespace: &str, resource: &str, name: &str) -> Value {
        let said = self.kubectl(namespace, &["get", resource, name, "--output=json"], "");
        let mut object: Value = serde_json::from_str(&said.stdout).expect(&said.stderr);
        let mut metadata = json!({"name": object["metadata"]["name"]});
        if !object["metadata"]["annotations"].is_null() {
            metadata["annotations"] = object["metadata"]["annotations"].clone();
        }
        object["metadata"] = metadata;
        object
    }

    /// Makes objects as they are written; every word that is wrong with one is an error.
    fn create(&self, namespace: &str, manifest: &str) {
        let said = self.kubectl(namespace, &["create", "--filename=-"], manifest);
        assert!(said.ok, "{}", said.stderr);
    }
}
