//! How clients outside reach a component: the older version says so, or the operator's settings for frontends.

use std::collections::BTreeMap;

use dynosim_api::ComponentType;
use dynosim_api::v1beta1::ComponentSpec;

use super::{Checks, pod};
use crate::formats;
use crate::validated::IngressRule;

/// After a host's name and a dot, unless something else is said.
const HOST_SUFFIX: &str = "local";

impl Checks<'_> {
    pub(super) fn ingress(&mut self, spec: &ComponentSpec, kind: &ComponentType) -> Option<IngressRule> {
        let defaults = &self.config.ingress;
        let suffix = |given: Option<&String>| {
            given.or(defaults.host_suffix.as_ref()).cloned().unwrap_or_else(|| HOST_SUFFIX.to_owned())
        };
        let service = self.older.as_ref().and_then(|older| older.spec.services.get(&spec.name));
        let Some(given) = service.and_then(|service| service.ingress.clone()) else {
            if *kind != ComponentType::Frontend || !defaults.enabled {
                return None;
            }
            let graph = self.graph.metadata.name.as_deref().unwrap_or_default();
            return Some(IngressRule {
                host: format!("{graph}.{}", suffix(None)),
                class: defaults.class_name.clone(),
                tls_secret: defaults.tls_secret_name.clone(),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
            });
        };
        if given.enabled != Some(true) {
            return None;
        }
        let (class, tls) = (defaults.class_name.clone(), defaults.tls_secret_name.clone());
        let host = format!(
            "{}{}.{}",
            given.host_prefix.as_deref().unwrap_or_default(),
            given.host.as_deref().unwrap_or_default(),
            suffix(given.host_suffix.as_ref())
        );
        let at = format!("spec.services.{}.ingress", spec.name);
        if given.host.as_deref().unwrap_or_default().is_empty() {
            self.problems.error(format!("{at}.host"), "missing, an ingress that is enabled needs it");
        } else {
            self.problems.check(format!("{at}.host"), &host, formats::subdomain(&host));
        }
        if given.use_virtual_service == Some(true) {
            let message = "Istio is not driven by this operator, there is an Ingress in its place";
            self.problems.warn(format!("{at}.useVirtualService"), message);
        }
        if *kind != ComponentType::Frontend {
            self.problems.warn(at, "has no effect here: only frontends take requests from outside");
            return None;
        }
        pod::labels(&mut self.problems, &format!("{at}.labels"), &given.labels);
        pod::annotations(&mut self.problems, &format!("{at}.annotations"), &given.annotations);
        Some(IngressRule {
            host,
            class: given.ingress_controller_class_name.or(class),
            tls_secret: given.tls.and_then(|tls| tls.secret_name).or(tls),
            labels: given.labels,
            annotations: given.annotations,
        })
    }
}
