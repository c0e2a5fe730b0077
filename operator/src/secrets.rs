//! Secrets that a container reads.

use k8s_openapi::api::core::v1::{Container, Volume};

/// Names of the secrets that a container's environment needs to exist, each once, sorted.
pub(crate) fn needed(container: &Container) -> Vec<String> {
    let sources = container.env_from.iter().flatten().filter_map(|source| source.secret_ref.as_ref());
    let whole = sources.filter(|secret| secret.optional != Some(true)).map(|secret| secret.name.clone());
    let keys =
        container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()?.secret_key_ref.as_ref());
    let keys = keys.filter(|key| key.optional != Some(true)).map(|key| key.name.clone());
    let mut names: Vec<_> = whole.chain(keys).collect();
    names.sort();
    names.dedup();
    names
}

/// Lets a container start without its secrets.
pub(crate) fn make_optional(container: &mut Container) {
    for secret in container.env_from.iter_mut().flatten().filter_map(|source| source.secret_ref.as_mut()) {
        secret.optional = Some(true);
    }
    for variable in container.env.iter_mut().flatten() {
        if let Some(key) = variable.value_from.as_mut().and_then(|source| source.secret_key_ref.as_mut()) {
            key.optional = Some(true);
        }
    }
}

/// Lets a pod start without the secrets of a volume.
pub(crate) fn make_volume_optional(volume: &mut Volume) {
    if let Some(secret) = &mut volume.secret {
        secret.optional = Some(true);
    }
}
