//! Checks of a graph as a whole.

use std::collections::BTreeMap;

use dynosim_api::flags::value_of;
use dynosim_api::v1alpha1::VolumeClaim;
use dynosim_api::{ComponentType, Invocation};

use super::{Checks, dynamo_namespace, pod};
use crate::config::Discovery;
use crate::formats::{self, LABEL_MAX};
use crate::keys::annotation;
use crate::names;
use crate::problems::Problem;
use crate::restart::{Restart, Strategy};
use crate::validated::{DiscoveryMode, ValidatedComponent};

/// What a graph's annotations say about all of its components.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) discovery: Discovery,
    pub(super) mode: DiscoveryMode,
}

impl Checks<'_> {
    pub(super) fn metadata(&mut self) {
        let name = self.graph.metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            self.problems.error("metadata.name", "missing");
            return;
        }
        self.problems.check("metadata.name", name, formats::service_name(name));
        let full = dynamo_namespace(self.graph);
        if full.len() > LABEL_MAX {
            let message = format!(
                "`{full}`, its namespace and name, is a label of all pods and has {} characters (allowed: {LABEL_MAX})",
                full.len()
            );
            self.problems.error("metadata.name", message);
        }
    }

    /// An annotation of the graph and where it stands.
    pub(super) fn graph_annotation(&self, key: &str) -> Option<(String, String)> {
        let spec = self.graph.spec.annotations.get(key).map(|value| ("spec.annotations", value));
        let metadata = self.graph.metadata.annotations.as_ref().and_then(|annotations| annotations.get(key));
        let (at, value) = spec.or(metadata.map(|value| ("metadata.annotations", value)))?;
        Some((format!("{at}[{key}]"), value.clone()))
    }

    pub(super) fn settings(&mut self) -> Settings {
        let discovery = match self.graph_annotation(annotation::DISCOVERY_BACKEND) {
            None => self.config.discovery_backend,
            Some((path, text)) => {
                self.one_of(path, &text, &[("kubernetes", Discovery::Kubernetes), ("etcd", Discovery::Etcd)])
            }
        };
        let mode = match self.graph_annotation(annotation::DISCOVERY_MODE) {
            None => DiscoveryMode::Pod,
            Some((path, text)) => {
                self.one_of(path, &text, &[("pod", DiscoveryMode::Pod), ("container", DiscoveryMode::Container)])
            }
        };
        if discovery == Discovery::Etcd && self.config.etcd_addr.is_none() && !self.names_etcd() {
            let (path, _) = self.graph_annotation(annotation::DISCOVERY_BACKEND).unwrap_or_default();
            let path = if path.is_empty() { "spec".to_owned() } else { path };
            self.problems.warn(path, "etcd: the operator knows no address, each component needs ETCD_ENDPOINTS");
        }
        if let Some((path, text)) = self.graph_annotation(annotation::GROVE)
            && text == "true"
        {
            self.problems.warn(path, "Grove is not driven by this operator, components become Deployments");
        }
        if let Some((path, text)) = self.graph_annotation(annotation::PROVIDER) {
            self.one_of(path, &text, &[("component", ())]);
        }
        Settings { discovery, mode }
    }

    fn names_etcd(&self) -> bool {
        self.graph.spec.env.iter().any(|variable| variable.name == "ETCD_ENDPOINTS")
    }

    /// The value that a text stands for; an error and the default if it stands for none.
    pub(super) fn one_of<T: Copy + Default>(&mut self, path: String, text: &str, allowed: &[(&str, T)]) -> T {
        if let Some((_, value)) = allowed.iter().find(|(name, _)| *name == text) {
            return *value;
        }
        let names: Vec<_> = allowed.iter().map(|(name, _)| *name).collect();
        self.problems.error(path, format!("`{text}` cannot be used (allowed: {})", names.join(", ")));
        T::default()
    }

    pub(super) fn spec(&mut self) {
        let spec = &self.graph.spec;
        pod::labels(&mut self.problems, "spec.labels", &spec.labels);
        pod::annotations(&mut self.problems, "spec.annotations", &spec.annotations);
        pod::environment(&mut self.problems, "spec.env", &spec.env);
        if let Some(framework) = &spec.backend_framework {
            self.one_of("spec.backendFramework".to_owned(), framework, &[("sglang", ()), ("vllm", ()), ("trtllm", ())]);
        }
        let ignored = [
            (spec.priority_class_name.is_some(), "priorityClassName"),
            (spec.topology_constraint.is_some(), "topologyConstraint"),
            (spec.provider_override.is_some(), "providerOverride"),
            (spec.experimental.is_some(), "experimental"),
        ];
        for (_, field) in ignored.into_iter().filter(|(given, _)| *given) {
            self.problems.warn(format!("spec.{field}"), "has no effect here, it is kept");
        }
        for field in spec.other.keys() {
            self.problems.warn(format!("spec.{field}"), "is not known here, it is kept");
        }
    }

    pub(super) fn component_names(&mut self) {
        let components = &self.graph.spec.components;
        let kind = |index: usize| ComponentType::of(components[index].component_type.as_deref());
        for (index, component) in components.iter().enumerate() {
            let path = format!("spec.components[{index}].name");
            let lower = component.name.to_ascii_lowercase();
            if formats::dns_label(&lower).is_err() {
                let message = format!(
                    "`{}` cannot be used (allowed: 1 to 63 letters, digits and hyphens, hyphens only inside)",
                    component.name
                );
                self.problems.error(path, message);
                continue;
            }
            let same = |other: &&dynosim_api::v1beta1::ComponentSpec| other.name.eq_ignore_ascii_case(&component.name);
            if let Some(other) = components[..index].iter().position(|other| same(&other)) {
                let message =
                    format!("`{}` is also the name of spec.components[{other}] (case does not count)", component.name);
                self.problems.error(path, message);
                continue;
            }
            let clash = components.iter().enumerate().find(|(other, worker)| {
                *other != index
                    && kind(*other).is_worker()
                    && names::is_generation_of(&lower, &worker.name.to_ascii_lowercase())
            });
            if let Some((other, _)) = clash {
                let message =
                    format!("`{}` may be the name of a generation of spec.components[{other}]", component.name);
                self.problems.error(path, message);
                continue;
            }
            if names::is_generation_of(&lower, "model") {
                let message = format!("`{}` may be the name of a Service for a model", component.name);
                self.problems.error(path, message);
                continue;
            }
            let graph = self.graph.metadata.name.as_deref().unwrap_or_default();
            let longest = names::longest(graph, &lower, &kind(index));
            if longest > LABEL_MAX {
                let message = format!(
                    "`{}`: with the graph's name{} its children's names have {longest} characters (allowed: {LABEL_MAX})",
                    component.name,
                    if kind(index).is_worker() { " and the workers' hash" } else { "" },
                );
                self.problems.error(path, message);
            }
        }
        let pickers: Vec<_> = (0..components.len()).filter(|index| kind(*index) == ComponentType::Epp).collect();
        for index in pickers.iter().skip(1) {
            let message = format!("`epp` is also the type of spec.components[{}] (allowed: one)", pickers[0]);
            self.problems.error(format!("spec.components[{index}].type"), message);
        }
    }

    /// Volume claims that the operator is to create.
    pub(super) fn claims(&mut self) -> Vec<VolumeClaim> {
        let claims = self.older.as_ref().map(|older| older.spec.pvcs.clone()).unwrap_or_default();
        for (index, claim) in claims.iter().enumerate() {
            let path = format!("spec.pvcs[{index}]");
            self.problems.check(format!("{path}.name"), &claim.name, formats::subdomain(&claim.name));
            if claims[..index].iter().any(|other| other.name == claim.name) {
                self.problems.error(format!("{path}.name"), format!("`{}` stands here twice", claim.name));
            }
            if claim.create != Some(true) {
                continue;
            }
            let needed = [
                (claim.size.is_some(), "size"),
                (claim.storage_class.is_some(), "storageClass"),
                (claim.volume_access_mode.is_some(), "volumeAccessMode"),
            ];
            for (_, field) in needed.into_iter().filter(|(given, _)| !given) {
                self.problems.error(format!("{path}.{field}"), "missing, a claim that is created needs it");
            }
            if let Some(size) = &claim.size {
                self.problems.check(format!("{path}.size"), &size.0, formats::quantity(&size.0));
            }
            if let Some(class) = &claim.storage_class {
                self.problems.check(format!("{path}.storageClass"), class, formats::subdomain(class));
            }
            if let Some(mode) = &claim.volume_access_mode {
                let allowed = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
                self.one_of(format!("{path}.volumeAccessMode"), mode, &allowed.map(|mode| (mode, ())));
            }
        }
        claims.into_iter().filter(|claim| claim.create == Some(true)).collect()
    }

    pub(super) fn restart(&mut self) -> Option<Restart> {
        let restart = self.graph.spec.restart.as_ref()?;
        if restart.id.is_empty() {
            self.problems.error("spec.restart.id", "is empty (allowed: any other text)");
        }
        let given = restart.strategy.clone().unwrap_or_default();
        let kind = given.strategy_type.as_deref().unwrap_or("Sequential");
        let strategy = self.one_of(
            "spec.restart.strategy.type".to_owned(),
            kind,
            &[("Sequential", Strategy::Sequential), ("Parallel", Strategy::Parallel)],
        );
        let mut all: BTreeMap<_, _> = BTreeMap::new();
        for component in &self.graph.spec.components {
            all.insert(component.name.to_ascii_lowercase(), false);
        }
        if given.order.is_empty() {
            return Some(Restart { id: restart.id.clone(), strategy, order: all.into_keys().collect() });
        }
        let path = "spec.restart.strategy.order";
        if strategy == Strategy::Parallel {
            self.problems.error(path, "cannot be used with Parallel, which has no order");
        }
        for (index, name) in given.order.iter().enumerate() {
            let wrong = match all.get_mut(&name.to_ascii_lowercase()) {
                None => "is no component of this graph",
                Some(true) => "stands here twice",
                Some(seen) => {
                    *seen = true;
                    continue;
                }
            };
            self.problems.error(format!("{path}[{index}]"), format!("`{name}` {wrong}"));
        }
        let missing: Vec<_> = all.into_iter().filter(|(_, seen)| !seen).map(|(name, _)| name).collect();
        if !missing.is_empty() {
            self.problems.error(path, format!("lacks {} (allowed: every component once)", missing.join(", ")));
        }
        let order = given.order.iter().map(|name| name.to_ascii_lowercase()).collect();
        Some(Restart { id: restart.id.clone(), strategy, order })
    }

    /// Whether workers add their generation to the Dynamo namespace. A router that is told the bare one would not find them.
    pub(super) fn has_suffix(&mut self, components: &[ValidatedComponent]) -> bool {
        let base = dynamo_namespace(self.graph);
        for component in components.iter().filter(|component| !component.is_worker()) {
            let Invocation::Module(module, flags) = &component.main().invocation else { continue };
            let endpoint = value_of(flags, "--endpoint").map(|text| text.trim_start_matches("dyn://"));
            let named = endpoint.and_then(|text| text.split('.').next());
            if module == "dynamo.router" && named == Some(base.as_str()) {
                let index = self.graph.spec.components.iter().position(|spec| spec.name == component.name);
                self.notes.push(Problem {
                    path: format!("spec.components[{}]", index.unwrap_or_default()),
                    message: format!("names the Dynamo namespace {base}, so workers stay in it over all generations"),
                });
                return false;
            }
        }
        true
    }
}
