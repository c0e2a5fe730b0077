//! Objects of any kind, as YAML.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, Error};
use serde_json::Value;

const FIELD_MANAGER: &str = "dynosim-e2e";

/// Applies each document of a text on the server's side, in their order. Those of kinds with namespaces go to `namespace`.
///
/// # Errors
/// What the server says against the first object that it refuses.
///
/// # Panics
/// If the text is not YAML, or not of objects that the server knows the kinds of.
pub(crate) async fn apply(client: &Client, namespace: &str, yaml: &str) -> Result<Vec<DynamicObject>, Error> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|error| panic!("{error}: {yaml}"));
    let mut applied = Vec::new();
    for document in documents {
        let types: TypeMeta = serde_json::from_value(document.clone()).expect("a kind");
        let kind = GroupVersionKind::try_from(&types).expect("an API version");
        let name = document["metadata"]["name"].as_str().expect("a name").to_owned();
        let (resource, capabilities) = pinned_kind(client, &kind).await?;
        let api: Api<DynamicObject> = match capabilities.scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let params = PatchParams::apply(FIELD_MANAGER).force();
        applied.push(api.patch(&name, &params, &Patch::Apply(document)).await?);
    }
    Ok(applied)
}
