//! Pod templates.

use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, SeccompProfile, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::meta::{component_labels, discovery_labels, model, over, without};
use super::{by_kubernetes, container};
use crate::config::Config;
use crate::dereference::{PullSecret, registry};
use crate::environment::{merge, variable};
use crate::keys::{annotation, label};
use crate::names;
use crate::secrets;
use crate::validate::volumes::{COMPILATION_CACHE, SHARED_MEMORY, TEMPORARY};
use crate::validated::{DiscoveryMode, ValidatedComponent, ValidatedGraph};

/// Time that running requests have to end.
const GRACE_S: i64 = 60;
/// Group of the files of volumes.
const GROUP_OF_FILES: i64 = 1000;

/// The template by the manifest and the operator's settings alone, which is what a generation of workers is told by.
pub(super) fn template(graph: &ValidatedGraph, component: &ValidatedComponent, config: &Config) -> PodTemplateSpec {
    let mut labels = over(without(&graph.labels, &label::OWN), without(&component.labels, &label::OWN));
    labels.extend(component_labels(graph, component));
    labels.extend(discovery_labels(graph, DiscoveryMode::Container));
    if component.has_metrics {
        labels.insert(label::METRICS.to_owned(), "true".to_owned());
    }
    let mut annotations = over(graph.annotations.clone(), component.annotations.clone());
    annotations = without(&without(&annotations, &annotation::OWN), &annotation::SETTINGS);
    let mut pod = component.pod.clone();
    pod.containers = container::all(graph, component, config);
    drop_unused_claims(&mut pod);
    pod.volumes = Some(volumes(component)).filter(|volumes| !volumes.is_empty());
    pod.restart_policy = Some("Always".to_owned());
    pod.termination_grace_period_seconds.get_or_insert(GRACE_S);
    pod.security_context.get_or_insert_with(|| PodSecurityContext {
        fs_group: Some(GROUP_OF_FILES),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..PodSecurityContext::default()
    });
    if pod.service_account_name.is_none() && pod.service_account.is_none() {
        pod.service_account_name = account(graph, component);
    }
    PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        }),
        spec: Some(pod),
    }
}

/// What a template carries besides: none of it makes another generation of workers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp<'a> {
    /// Name of the Deployment.
    pub(super) deployment: &'a str,
    /// Generation of workers.
    pub(super) hash: Option<&'a str>,
    /// Restart that the pods have seen.
    pub(super) restart: Option<&'a str>,
    /// Secrets for registries that there are.
    pub(super) pull_secrets: &'a [PullSecret],
}

pub(super) fn stamp(
    mut template: PodTemplateSpec,
    graph: &ValidatedGraph,
    component: &ValidatedComponent,
    config: &Config,
    stamp: &Stamp<'_>,
) -> PodTemplateSpec {
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.insert(label::SELECTOR.to_owned(), stamp.deployment.to_owned());
    if let Some(hash) = stamp.hash {
        labels.insert(label::WORKER_HASH.to_owned(), hash.to_owned());
    }
    let mut annotations = metadata.annotations.take().unwrap_or_default();
    if let Some((hash, name)) = model(component) {
        labels.insert(label::MODEL_HASH.to_owned(), hash);
        annotations.insert(annotation::MODEL.to_owned(), name);
    }
    if let Some(restart) = stamp.restart {
        annotations.insert(annotation::RESTART.to_owned(), restart.to_owned());
    }
    metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    let pod = template.spec.get_or_insert_default();
    if let Some(hash) = stamp.hash.filter(|_| graph.has_suffix) {
        let suffix = [variable("DYN_NAMESPACE_WORKER_SUFFIX", hash)];
        for (index, container) in pod.containers.iter_mut().enumerate() {
            if index == 0 || component.containers[index].worker.is_some() {
                let own = container.env.take().unwrap_or_default();
                container.env = Some(merge(&[&suffix, &own]));
            }
        }
    }
    pod.image_pull_secrets = pull_secrets(pod, component, config, stamp.pull_secrets);
    template
}

/// The account of its pods, unless the manifest names one.
fn account(graph: &ValidatedGraph, component: &ValidatedComponent) -> Option<String> {
    if component.component_type == dynosim_api::ComponentType::Planner {
        return Some(names::PLANNER_ACCOUNT.to_owned());
    }
    by_kubernetes(graph).then(|| names::discovery_account(&graph.name))
}

/// Claims of devices that no container uses any more.
fn drop_unused_claims(pod: &mut PodSpec) {
    let containers = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    let claims = containers.filter_map(|container| container.resources.as_ref()?.claims.as_ref()).flatten();
    let used: Vec<_> = claims.map(|claim| claim.name.clone()).collect();
    let left = pod.resource_claims.take().map(|mut claims| {
        claims.retain(|claim| used.contains(&claim.name));
        claims
    });
    pod.resource_claims = left.filter(|claims| !claims.is_empty());
}

fn volumes(component: &ValidatedComponent) -> Vec<Volume> {
    let mut volumes = component.pod.volumes.clone().unwrap_or_default();
    let needs = |volume: &Volume| {
        let mounts = |container: &&crate::validated::ValidatedContainer| {
            container.container.volume_mounts.iter().flatten().any(|mount| mount.name == volume.name)
        };
        let init = component.pod.init_containers.iter().flatten();
        let by_init =
            init.flat_map(|container| container.volume_mounts.iter().flatten()).any(|mount| mount.name == volume.name);
        by_init || component.containers.iter().filter(|container| container.stand_in.is_none()).any(|one| mounts(&one))
    };
    for volume in volumes.iter_mut().filter(|volume| volume.secret.is_some()) {
        if !needs(volume) {
            secrets::make_volume_optional(volume);
        }
    }
    if let Some(size) = &component.shared_memory {
        let memory = EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: Some(size.clone()) };
        volumes.push(Volume { name: SHARED_MEMORY.to_owned(), empty_dir: Some(memory), ..Volume::default() });
    }
    if let Some((claim, _)) = &component.compilation_cache {
        let source = PersistentVolumeClaimVolumeSource { claim_name: claim.clone(), read_only: None };
        volumes.push(Volume {
            name: COMPILATION_CACHE.to_owned(),
            persistent_volume_claim: Some(source),
            ..Volume::default()
        });
    }
    if component.containers.iter().any(|container| container.stand_in.is_some()) {
        let folder = EmptyDirVolumeSource::default();
        volumes.push(Volume { name: TEMPORARY.to_owned(), empty_dir: Some(folder), ..Volume::default() });
    }
    volumes
}

/// The manifest's secrets, the operator's for its own image, and those that are for the registries of the other images.
fn pull_secrets(
    pod: &PodSpec,
    component: &ValidatedComponent,
    config: &Config,
    found: &[PullSecret],
) -> Option<Vec<LocalObjectReference>> {
    let mut names: Vec<String> = pod.image_pull_secrets.iter().flatten().map(|secret| secret.name.clone()).collect();
    if component.containers.iter().any(|container| container.stand_in.is_some()) {
        names.extend(config.image_pull_secrets.iter().cloned());
    }
    if component.finds_pull_secrets {
        let images = pod.containers.iter().chain(pod.init_containers.iter().flatten());
        let registries: Vec<_> = images.filter_map(|container| container.image.as_deref()).map(registry).collect();
        let matches = |secret: &&PullSecret| secret.registries.iter().any(|host| registries.contains(&host.as_str()));
        names.extend(found.iter().filter(matches).map(|secret| secret.name.clone()));
    }
    let mut each = Vec::new();
    for name in names {
        if !each.contains(&name) {
            each.push(name);
        }
    }
    let each: Vec<_> = each.into_iter().map(|name| LocalObjectReference { name }).collect();
    (!each.is_empty()).then_some(each)
}
