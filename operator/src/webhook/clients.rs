//! Those who call the webhooks, and whom they trust: webhook configurations, and definitions of what has two versions.

use dynosim_api::crd::{CONVERSION_PATH, definitions};
use futures_util::stream::{BoxStream, select_all};
use futures_util::{Stream, StreamExt as _};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition,
};
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::certificates::blocks;

/// Who calls.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    mutating: Api<MutatingWebhookConfiguration>,
    validating: Api<ValidatingWebhookConfiguration>,
    definitions: Api<CustomResourceDefinition>,
    /// Name of both configurations.
    configuration: String,
    /// Names of the definitions.
    names: Vec<String>,
    target: Target,
}

/// Where conversions are led to.
#[derive(Clone, Debug)]
struct Target {
    service: String,
    namespace: String,
    takes_over: bool,
}

impl Clients {
    pub(super) fn new(client: &Client, settings: &super::Settings) -> Self {
        let converted = definitions().into_iter().filter(|definition| definition.spec.versions.len() > 1);
        Self {
            mutating: Api::all(client.clone()),
            validating: Api::all(client.clone()),
            definitions: Api::all(client.clone()),
            configuration: settings.configuration.clone(),
            names: converted.map(|definition| definition.name_any()).collect(),
            target: Target {
                service: settings.service.clone(),
                namespace: settings.namespace.clone(),
                takes_over: settings.takes_over,
            },
        }
    }

    /// Tells all that exist whom to trust; without authorities that is somebody else's task. Writes only what differs.
    pub(super) async fn tell(&self, authorities: Option<&str>) -> Result<(), kube::Error> {
        let name = &self.configuration;
        if let Some(authorities) = authorities {
            if let Some(found) = self.mutating.get_opt(name).await? {
                let hooks: Vec<_> =
                    found.webhooks.iter().flatten().map(|hook| (&hook.name, &hook.client_config)).collect();
                let patch = trusting(&hooks, authorities);
                write(&self.mutating, name, patch).await?;
            }
            if let Some(found) = self.validating.get_opt(name).await? {
                let hooks: Vec<_> =
                    found.webhooks.iter().flatten().map(|hook| (&hook.name, &hook.client_config)).collect();
                let patch = trusting(&hooks, authorities);
                write(&self.validating, name, patch).await?;
            }
        }
        for name in &self.names {
            let Some(found) = self.definitions.get_opt(name).await? else { continue };
            if found.spec.versions.len() < 2 {
                continue;
            }
            if let Some(conversion) = self.target.conversion(found.spec.conversion.as_ref(), authorities) {
                let patch = json!({
                    "metadata": {"resourceVersion": found.metadata.resource_version},
                    "spec": {"conversion": conversion},
                });
                self.definitions.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            }
        }
        Ok(())
    }

    /// Tells that one of them, or the Secret, has changed.
    pub(super) fn changes(&self, secret: Option<(Api<Secret>, &str)>) -> impl Stream<Item = ()> + use<> {
        let client = self.mutating.clone().into_client();
        let mut all = vec![
            changes::<MutatingWebhookConfiguration>(Api::all(client.clone()), &self.configuration),
            changes::<ValidatingWebhookConfiguration>(Api::all(client.clone()), &self.configuration),
        ];
        for name in &self.names {
            all.push(changes::<CustomResourceDefinition>(Api::all(client.clone()), name));
        }
        if let Some((secrets, name)) = secret {
            all.push(watcher::watch_object(secrets, name).default_backoff().map(|_| ()).boxed());
        }
        select_all(all)
    }
}

impl Target {
    /// What a definition's conversion lacks. One that is led to an address stays there; one that is led to another operator
    /// stays with it, unless this one takes over.
    fn conversion(&self, found: Option<&CustomResourceConversion>, authorities: Option<&str>) -> Option<Value> {
        let found = found.filter(|found| found.strategy == "Webhook");
        let config = found.and_then(|found| found.webhook.as_ref()).and_then(|webhook| webhook.client_config.as_ref());
        let service = config.and_then(|config| config.service.as_ref());
        let at_address = config.is_some_and(|config| config.url.is_some());
        let is_here = at_address
            || service.is_some_and(|service| {
                service.name == self.service
                    && service.namespace == self.namespace
                    && service.path.as_deref() == Some(CONVERSION_PATH)
                    && service.port.unwrap_or(443) == 443
            });
        let trusted = config.and_then(|config| config.ca_bundle.as_ref());
        if !is_here && !self.takes_over && trusted.is_some_and(|bundle| !bundle.0.is_empty()) {
            return None;
        }
        let trusts = authorities.is_none_or(|authorities| trusts(trusted, authorities));
        if is_here && trusts {
            return None;
        }
        let mut config = json!({});
        if !at_address {
            config["service"] = json!({
                "namespace": self.namespace, "name": self.service, "path": CONVERSION_PATH, "port": 443,
            });
        }
        if let Some(authorities) = authorities.filter(|_| !trusts) {
            config["caBundle"] = json!(ByteString(authorities.as_bytes().to_vec()));
        }
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
        Some(json!({"strategy": "Webhook", "webhook": webhook}))
    }
}

fn changes<K>(api: Api<PartialObjectMeta<K>>, name: &str) -> BoxStream<'static, ()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    PartialObjectMeta<K>: Resource + DeserializeOwned,
{
    watcher::watch_object(api, name).default_backoff().map(|_| ()).boxed()
}

/// JSON patch by which the webhooks of a configuration trust authorities; the names are looked at once more, in case somebody
/// writes meanwhile.
fn trusting(hooks: &[(&String, &WebhookClientConfig)], authorities: &str) -> Vec<Value> {
    let mut patch = Vec::new();
    for (index, (name, config)) in hooks.iter().enumerate() {
        if !trusts(config.ca_bundle.as_ref(), authorities) {
            let bundle = ByteString(authorities.as_bytes().to_vec());
            patch.push(json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name}));
            let at = format!("/webhooks/{index}/clientConfig/caBundle");
            patch.push(json!({"op": "add", "path": at, "value": bundle}));
        }
    }
    patch
}

/// Whether all authorities are among those that are trusted. More may be: another replica may know of newer ones.
fn trusts(found: Option<&ByteString>, authorities: &str) -> bool {
    let found = found.map(|bundle| String::from_utf8_lossy(&bundle.0).into_owned()).unwrap_or_default();
    let found = blocks(&found);
    let wanted = blocks(authorities);
    !wanted.is_empty() && wanted.iter().all(|authority| found.contains(authority))
}

async fn write<K>(api: &Api<K>, name: &str, patch: Vec<Value>) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    if patch.is_empty() {
        return Ok(());
    }
    let patch = serde_json::from_value(patch.into()).map_err(kube::Error::SerdeError)?;
    api.patch(name, &PatchParams::default(), &Patch::<()>::Json(patch)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n";
    const TWO: &str = "-----BEGIN CERTIFICATE-----\nMg==\n-----END CERTIFICATE-----\n";

    fn target(takes_over: bool) -> Target {
        Target { service: "s".to_owned(), namespace: "n".to_owned(), takes_over }
    }

    /// A conversion that is led somewhere.
    fn led(config: Value, authorities: &str) -> CustomResourceConversion {
        let mut config = config;
        if !authorities.is_empty() {
            config["caBundle"] = json!(ByteString(authorities.as_bytes().to_vec()));
        }
        let webhook = json!({"clientConfig": config, "conversionReviewVersions": ["v1"]});
        serde_json::from_value(json!({"strategy": "Webhook", "webhook": webhook})).expect("a conversion")
    }

    fn service(name: &str) -> Value {
        json!({"service": {"namespace": "n", "name": name, "path": "/convert", "port": 443}})
    }

    #[test]
    fn only_what_differs_is_written() {
        let both = format!("{TWO}{ONE}");
        let bundle = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
        let config = |found: &CustomResourceConversion, authorities| {
            target(true).conversion(Some(found), authorities).map(|wanted| wanted["webhook"]["clientConfig"].clone())
        };
        for (found, authorities, expected) in [
            (led(service("s"), ONE), Some(ONE), None),
            (led(service("s"), &both), Some(ONE), None),
            (led(service("s"), ONE), Some(both.as_str()), Some(bundle(&both))),
            (led(service("s"), ""), Some(ONE), Some(bundle(ONE))),
            (led(service("s"), ""), None, None),
        ] {
            let mut wanted = service("s");
            wanted["caBundle"] = expected.clone().unwrap_or_default();
            assert_eq!(config(&found, authorities), expected.map(|_| wanted), "{found:?}");
        }
        // An address stays, trusted or not.
        let address = led(json!({"url": "https://a/convert"}), "");
        assert_eq!(config(&address, Some(ONE)), Some(json!({"caBundle": bundle(ONE)})));
        assert_eq!(config(&address, None), None);
        let none = CustomResourceConversion { strategy: "None".to_owned(), webhook: None };
        assert_eq!(config(&none, None), Some(service("s")));
    }

    #[test]
    fn an_operator_of_one_namespace_leaves_conversions_with_another_that_is_trusted() {
        for (takes_over, authorities, writes) in [(true, TWO, true), (false, TWO, false), (false, "", true)] {
            let found = led(service("other"), authorities);
            assert_eq!(target(takes_over).conversion(Some(&found), Some(ONE)).is_some(), writes, "{takes_over}");
        }
    }
}
