//! Scaling adapters.

use dynosim_api::v1beta1::DynamoGraphDeploymentScalingAdapter as Adapter;
use kube::core::DynamicObject;
use kube::core::admission::AdmissionRequest;

use super::{Verdict, decode, plain};
use crate::formats;

pub(super) fn validate(request: &AdmissionRequest<DynamicObject>, object: &DynamicObject) -> Verdict {
    let mut verdict = Verdict::default();
    let problems = &mut verdict.problems;
    let adapter: Adapter = match decode(&plain(request, object)) {
        Ok(adapter) => adapter,
        Err(problem) => {
            problems.errors.push(problem);
            return verdict;
        }
    };
    let (replicas, of) = (adapter.spec.replicas, &adapter.spec.dgd_ref);
    if replicas < 0 {
        problems.error("spec.replicas", format!("{replicas} cannot be used (allowed: 0 and more)"));
    }
    problems.check("spec.dgdRef.name", &of.name, formats::service_name(&of.name));
    let given = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    if !given(&of.component_name) && !given(&of.component_group_name) {
        problems.error("spec.dgdRef.componentName", "missing");
    }
    let before: Option<Adapter> = request.old_object.as_ref().and_then(|object| decode(&plain(request, object)).ok());
    if before.is_some_and(|before| before.spec.dgd_ref != *of) {
        problems.error("spec.dgdRef", "cannot be changed: make another adapter for another component");
        verdict.immutable = 1;
    }
    verdict
}
