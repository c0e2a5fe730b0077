//! Volume claims that the graph asks for.

use std::collections::BTreeMap;

use dynosim_api::v1alpha1::VolumeClaim;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements};

use super::meta::{Texts, metadata, texts};
use crate::keys::label;
use crate::validated::ValidatedGraph;

pub(super) fn build(graph: &ValidatedGraph, claim: &VolumeClaim) -> PersistentVolumeClaim {
    let requests = claim.size.clone().map(|size| BTreeMap::from([("storage".to_owned(), size)]));
    let labels = texts([(label::GRAPH, graph.name.as_str())]);
    PersistentVolumeClaim {
        metadata: metadata(graph, claim.name.clone(), labels, Texts::new()),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: claim.volume_access_mode.clone().map(|mode| vec![mode]),
            storage_class_name: claim.storage_class.clone(),
            resources: Some(VolumeResourceRequirements { requests, ..VolumeResourceRequirements::default() }),
            ..PersistentVolumeClaimSpec::default()
        }),
        status: None,
    }
}
