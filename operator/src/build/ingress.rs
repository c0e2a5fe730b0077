//! The way to a frontend from outside.

use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    IngressTLS, ServiceBackendPort,
};

use super::meta::{component_labels, metadata, over, without};
use crate::defaults::HTTP_PORT;
use crate::keys::{annotation, label};
use crate::names;
use crate::validated::{ValidatedComponent, ValidatedGraph};

pub(super) fn build(graph: &ValidatedGraph, component: &ValidatedComponent) -> Option<Ingress> {
    let rule = component.ingress.as_ref()?;
    let name = names::child(&graph.name, &component.lower);
    let port = ServiceBackendPort { number: Some(i32::from(HTTP_PORT)), name: None };
    let backend = IngressBackend {
        service: Some(IngressServiceBackend { name: name.clone(), port: Some(port) }),
        resource: None,
    };
    let path = HTTPIngressPath { path: Some("/".to_owned()), path_type: "Prefix".to_owned(), backend };
    let tls = rule
        .tls_secret
        .clone()
        .map(|secret| IngressTLS { hosts: Some(vec![rule.host.clone()]), secret_name: Some(secret) });
    let labels = over(without(&rule.labels, &label::OWN), component_labels(graph, component));
    Some(Ingress {
        metadata: metadata(graph, name, labels, without(&rule.annotations, &annotation::OWN)),
        spec: Some(IngressSpec {
            ingress_class_name: rule.class.clone(),
            rules: Some(vec![IngressRule {
                host: Some(rule.host.clone()),
                http: Some(HTTPIngressRuleValue { paths: vec![path] }),
            }]),
            tls: tls.map(|tls| vec![tls]),
            default_backend: None,
        }),
        status: None,
    })
}
