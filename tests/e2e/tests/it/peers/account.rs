//! What runs outside of the cluster as an account of it.

use std::path::PathBuf;

use dynosim_e2e::Namespace;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The kubeconfig of an account.
pub(crate) struct Account {
    folder: TempDir,
}

impl Account {
    /// # Panics
    /// If it gets no token.
    pub(crate) async fn of(space: &Namespace, name: &str) -> Self {
        let request = TokenRequest { spec: TokenRequestSpec::default(), ..TokenRequest::default() };
        let accounts = space.api::<ServiceAccount>();
        let token = space
            .wait(&format!("account {name} has a token"), async || {
                let made = accounts.create_token_request(name, &PostParams::default(), &request).await;
                made.map_err(|error| error.to_string())?.status.map(|status| status.token).ok_or_else(String::new)
            })
            .await;
        let account = Self { folder: tempfile::tempdir().expect("a folder") };
        std::fs::write(account.kubeconfig(), kubeconfig(space.name(), &token).to_string()).expect("it is written");
        account
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// That of the tests with another user.
fn kubeconfig(namespace: &str, token: &str) -> Value {
    let own =
        Kubeconfig::read().or_else(|_| Kubeconfig::from_env().map(Option::unwrap_or_default)).expect("KUBECONFIG");
    let current = own.contexts.iter().find(|context| Some(&context.name) == own.current_context.as_ref());
    let cluster = current.and_then(|context| context.context.as_ref()).expect("a current context").cluster.clone();
    let named = own.clusters.iter().find(|known| known.name == cluster).expect("its cluster");
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "account",
        "clusters": [named],
        "users": [{"name": "account", "user": {"token": token}}],
        "contexts": [{"name": "account", "context": {"cluster": cluster, "user": "account", "namespace": namespace}}],
    })
}
