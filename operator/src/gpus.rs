//! GPUs among a container's resources.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Resources whose names say that they are GPUs, also parts of one.
fn is_gpu(name: &str) -> bool {
    let (vendor, kind) = name.split_once('/').unwrap_or(("", name));
    matches!(vendor, "nvidia.com" | "amd.com" | "gpu.intel.com" | "habana.ai") || kind.contains("gpu")
}

/// GPUs that a container asks for: limits, else requests.
pub(crate) fn of_container(container: &Container) -> Option<u32> {
    let resources = container.resources.as_ref()?;
    let of = |amounts: &Option<BTreeMap<String, Quantity>>| {
        let amounts = amounts.iter().flatten().filter(|(name, _)| is_gpu(name));
        let counts: Vec<u32> = amounts.filter_map(|(_, Quantity(text))| text.parse().ok()).collect();
        (!counts.is_empty()).then(|| counts.into_iter().fold(0, u32::saturating_add))
    };
    of(&resources.limits).or_else(|| of(&resources.requests))
}

/// What a container asks for, in words: `nvidia.com/gpu 1`.
pub(crate) fn describe(container: &Container) -> Option<String> {
    let resources = container.resources.as_ref()?;
    let mut found = BTreeMap::new();
    for amounts in [&resources.requests, &resources.limits].into_iter().flatten() {
        found.extend(amounts.iter().filter(|(name, _)| is_gpu(name)));
    }
    let claims = resources.claims.iter().flatten().map(|claim| format!("claim {}", claim.name));
    let texts: Vec<_> = found.iter().map(|(name, Quantity(text))| format!("{name} {text}")).chain(claims).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// What is left without GPUs and claims of devices.
pub(crate) fn without(resources: ResourceRequirements) -> Option<ResourceRequirements> {
    let keep = |amounts: Option<BTreeMap<String, Quantity>>| {
        let kept: BTreeMap<_, _> = amounts.into_iter().flatten().filter(|(name, _)| !is_gpu(name)).collect();
        (!kept.is_empty()).then_some(kept)
    };
    let kept =
        ResourceRequirements { limits: keep(resources.limits), requests: keep(resources.requests), claims: None };
    (kept != ResourceRequirements::default()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(limits: &[(&str, &str)]) -> Container {
        let limits = limits.iter().map(|(name, text)| ((*name).to_owned(), Quantity((*text).to_owned()))).collect();
        let resources = ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() };
        Container { resources: Some(resources), ..Container::default() }
    }

    #[test]
    fn gpus_are_counted_and_taken_out_and_nothing_else() {
        let one = container(&[("nvidia.com/gpu", "2"), ("memory", "1Gi")]);
        assert_eq!(of_container(&one), Some(2));
        assert_eq!(describe(&one).as_deref(), Some("nvidia.com/gpu 2"));
        let kept = without(one.resources.expect("resources")).expect("memory");
        assert_eq!(kept.limits.expect("limits").into_keys().collect::<Vec<_>>(), ["memory"]);
        assert_eq!(without(container(&[("nvidia.com/mig-1g.5gb", "1")]).resources.expect("resources")), None);
        assert_eq!(of_container(&container(&[("cpu", "2")])), None);
        assert_eq!(describe(&Container::default()), None);
    }
}
