//! Checks of volumes and of what is mounted where.

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

use crate::formats;
use crate::problems::Problems;

/// Names of volumes that the operator adds.
pub(crate) const SHARED_MEMORY: &str = "shared-memory";
/// See [`SHARED_MEMORY`].
pub(crate) const TEMPORARY: &str = "dynosim-tmp";
/// See [`SHARED_MEMORY`].
pub(crate) const COMPILATION_CACHE: &str = "compilation-cache";

pub(super) fn check(problems: &mut Problems, list: &str, volumes: &[Volume]) {
    for (index, volume) in volumes.iter().enumerate() {
        let path = format!("{list}[{index}].name");
        problems.check(path.clone(), &volume.name, formats::dns_label(&volume.name));
        if [SHARED_MEMORY, TEMPORARY, COMPILATION_CACHE].contains(&volume.name.as_str()) {
            problems.error(path, format!("`{}` is the name of a volume that the operator adds", volume.name));
        } else if volumes[..index].iter().any(|other| other.name == volume.name) {
            problems.error(path, format!("`{}` is also the name of another volume", volume.name));
        }
        source(problems, &format!("{list}[{index}]"), volume);
    }
}

/// Where a volume comes from; without a source it is an empty folder.
fn source(problems: &mut Problems, path: &str, volume: &Volume) {
    let fields = serde_json::to_value(volume).ok();
    let sources: Vec<_> =
        fields.iter().filter_map(|fields| fields.as_object()).flat_map(|fields| fields.keys()).collect();
    let sources: Vec<_> = sources.into_iter().filter(|field| *field != "name").map(String::as_str).collect();
    if sources.len() > 1 {
        problems.error(path, format!("comes from {} (allowed: one source)", sources.join(" and ")));
    }
    let names = [
        ("secret.secretName", volume.secret.as_ref().map(|secret| secret.secret_name.clone().unwrap_or_default())),
        ("configMap.name", volume.config_map.as_ref().map(|map| map.name.clone())),
        (
            "persistentVolumeClaim.claimName",
            volume.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone()),
        ),
    ];
    for (field, name) in names {
        if let Some(name) = name {
            problems.check(format!("{path}.{field}"), &name, formats::subdomain(&name));
        }
    }
}

pub(super) fn check_mounts(problems: &mut Problems, container: &str, mounts: &[VolumeMount], volumes: &[Volume]) {
    for (index, mount) in mounts.iter().enumerate() {
        let path = format!("{container}.volumeMounts[{index}]");
        if !volumes.iter().any(|volume| volume.name == mount.name) {
            problems.error(format!("{path}.name"), format!("`{}` is no volume of this pod", mount.name));
        }
        if mount.mount_path.is_empty() {
            problems.error(format!("{path}.mountPath"), "missing");
        } else if mount.mount_path.contains(':') {
            problems.error(format!("{path}.mountPath"), format!("`{}` cannot have a colon", mount.mount_path));
        } else if mounts[..index].iter().any(|other| other.mount_path == mount.mount_path) {
            problems.error(format!("{path}.mountPath"), format!("`{}` is mounted twice", mount.mount_path));
        }
        if let Some(sub) = mount.sub_path.as_deref()
            && (sub.starts_with('/') || sub.split('/').any(|part| part == ".."))
        {
            problems.error(format!("{path}.subPath"), format!("`{sub}` cannot lead out of the volume"));
        }
    }
}
