//! Settings of the operator that graphs are built by.

use serde::Deserialize;

/// Image of a release of this project.
pub const MOCKER_IMAGE: &str = concat!("dynosim:", env!("CARGO_PKG_VERSION"));

/// Which image a container runs that this project can stand in for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ImagePolicy {
    /// The operator's mocker image, whatever the manifest names.
    #[default]
    Mocker,
    /// The manifest's image.
    Manifest,
}

impl ImagePolicy {
    /// As annotations and settings write it.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "Mocker" => Some(Self::Mocker),
            "Manifest" => Some(Self::Manifest),
            _ => None,
        }
    }
}

/// Where components find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discovery {
    /// Objects of the cluster.
    #[default]
    Kubernetes,
    /// A key-value store.
    Etcd,
}

/// Settings of the operator.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// For graphs that do not choose.
    pub image_policy: ImagePolicy,
    /// Image for [`ImagePolicy::Mocker`].
    pub mocker_image: String,
    /// When it is pulled.
    pub mocker_image_pull_policy: String,
    /// Names of secrets, in the graph's namespace, for its registry.
    pub image_pull_secrets: Vec<String>,
    /// For graphs that do not choose.
    pub discovery_backend: Discovery,
    /// `NATS_SERVER` of all components.
    pub nats_addr: Option<String>,
    /// `ETCD_ENDPOINTS` of all components.
    pub etcd_addr: Option<String>,
    /// `PROMETHEUS_ENDPOINT` of all components.
    pub prometheus_endpoint: Option<String>,
    /// `MODEL_EXPRESS_URL` of all components.
    #[serde(rename = "modelExpressURL")]
    pub model_express_url: Option<String>,
    /// An Ingress for each frontend.
    pub ingress: IngressDefaults,
    /// A pod monitor for each component, where the cluster has that resource.
    pub pod_monitors: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            image_policy: ImagePolicy::default(),
            mocker_image: MOCKER_IMAGE.to_owned(),
            mocker_image_pull_policy: "IfNotPresent".to_owned(),
            image_pull_secrets: Vec::new(),
            discovery_backend: Discovery::default(),
            nats_addr: None,
            etcd_addr: None,
            prometheus_endpoint: None,
            model_express_url: None,
            ingress: IngressDefaults::default(),
            pod_monitors: false,
        }
    }
}

impl Config {
    /// Why it cannot be used.
    pub fn check(&self) -> Result<(), String> {
        let policies = ["Always", "IfNotPresent", "Never"];
        if !policies.contains(&self.mocker_image_pull_policy.as_str()) {
            let given = &self.mocker_image_pull_policy;
            return Err(format!("mockerImagePullPolicy: `{given}` is none (allowed: {})", policies.join(", ")));
        }
        if self.mocker_image.trim().is_empty() {
            return Err("mockerImage: is empty".to_owned());
        }
        Ok(())
    }
}

/// What frontends get that do not ask for an Ingress themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IngressDefaults {
    /// One for each frontend.
    pub enabled: bool,
    /// Class.
    pub class_name: Option<String>,
    /// After the graph's name and a dot, the host. Default: `local`.
    pub host_suffix: Option<String>,
    /// Secret with the certificate.
    pub tls_secret_name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_unknown_ones_refused() {
        let config: Config = serde_json::from_value(serde_json::json!({
            "imagePolicy": "Manifest", "discoveryBackend": "etcd", "etcdAddr": "etcd:2379",
            "modelExpressURL": "http://m", "ingress": {"enabled": true},
        }))
        .expect("settings");
        assert_eq!(config.image_policy, ImagePolicy::Manifest);
        assert_eq!(config.discovery_backend, Discovery::Etcd);
        assert_eq!(config.mocker_image_pull_policy, "IfNotPresent");
        let error = serde_json::from_str::<Config>(r#"{"etcdAddress": "x"}"#).expect_err("unknown");
        assert!(error.to_string().contains("etcdAddress"), "{error}");
    }
}
