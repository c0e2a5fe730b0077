//! Paths in the words of the older version, for who sent that one: webhooks see the newer.

use dynosim_api::MAIN_CONTAINER;
use dynosim_api::v1beta1::{ComponentSpec, DynamoGraphDeployment as Graph};
use serde_json::Value;

/// A graph as it was sent.
pub(super) struct Older {
    pub(super) json: Value,
    components: Vec<Component>,
}

struct Component {
    name: String,
    /// Names of its containers.
    containers: Vec<String>,
}

/// Fields of a main container that the older version may have beside it, and their names there.
const BESIDE: [(&str, &str); 6] = [
    ("envFrom", "envFromSecret"),
    ("env", "envs"),
    ("resources", "resources"),
    ("volumeMounts", "volumeMounts"),
    ("livenessProbe", "livenessProbe"),
    ("readinessProbe", "readinessProbe"),
];
/// Other fields of a component, and what they are in the older version.
const FIELDS: [(&str, &str); 4] = [
    (".podTemplate.metadata", ".extraPodMetadata"),
    (".podTemplate.spec", ".extraPodSpec"),
    (".sharedMemorySize", ".sharedMemory.size"),
    (".type", ".componentType"),
];

impl Older {
    pub(super) fn new(graph: &Graph, json: Value) -> Self {
        let component = |spec: &ComponentSpec| {
            let pod = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref());
            let containers = pod.map(|pod| pod.containers.iter().map(|container| container.name.clone()).collect());
            Component { name: spec.name.clone(), containers: containers.unwrap_or_default() }
        };
        Self { json, components: graph.spec.components.iter().map(component).collect() }
    }

    /// A path of the newer version. Where the older one has a field at two places, the one that is given.
    pub(super) fn path(&self, path: &str) -> String {
        if path == "spec.components" {
            return "spec.services".to_owned();
        }
        if let Some(rest) = path.strip_prefix("spec.env[") {
            return format!("spec.envs[{rest}");
        }
        let found = path.strip_prefix("spec.components[").and_then(|rest| rest.split_once(']'));
        let Some((index, rest)) = found else { return path.to_owned() };
        let component = index.parse().ok().and_then(|index: usize| self.components.get(index));
        component.map_or_else(
            || path.to_owned(),
            |component| format!("spec.services.{}{}", component.name, self.field(component, rest)),
        )
    }

    /// A text with paths among its words.
    pub(super) fn text(&self, text: &str) -> String {
        let word = |word: &str| {
            let path = word.trim_end_matches([',', ';', ':', ')']);
            if path.starts_with("spec.") {
                format!("{}{}", self.path(path), &word[path.len()..])
            } else {
                word.to_owned()
            }
        };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    fn field(&self, component: &Component, path: &str) -> String {
        let container = path.strip_prefix(".podTemplate.spec.containers[").and_then(|rest| rest.split_once(']'));
        if let Some((index, rest)) = container
            && let Ok(index) = index.parse::<usize>()
        {
            return self.container(component, index, rest);
        }
        let service = &self.json["spec"]["services"][&component.name];
        // Labels and annotations of the component itself, and a volume that is mounted for compiled code.
        if let Some((list, key)) = path.strip_prefix(".podTemplate.metadata.").and_then(|rest| rest.split_once('['))
            && let key = key.trim_end_matches(']')
            && service["extraPodMetadata"][list][key].is_null()
            && !service[list][key].is_null()
        {
            return format!(".{list}[{key}]");
        }
        if let Some(field) = path.strip_prefix(".compilationCache.")
            && let mounts = service["volumeMounts"].as_array()
            && let Some(index) =
                mounts.and_then(|mounts| mounts.iter().position(|mount| mount["useAsCompilationCache"] == true))
        {
            let field = if field == "mountPath" { "mountPoint" } else { "name" };
            return format!(".volumeMounts[{index}].{field}");
        }
        let known = FIELDS.iter().find_map(|(newer, older)| Some(format!("{older}{}", path.strip_prefix(newer)?)));
        known.unwrap_or_else(|| path.to_owned())
    }

    fn container(&self, component: &Component, index: usize, path: &str) -> String {
        let main = component.containers.iter().position(|name| name == MAIN_CONTAINER);
        match main {
            Some(main) if main < index => return format!(".extraPodSpec.containers[{}]{path}", index - 1),
            Some(main) if main > index => return format!(".extraPodSpec.containers[{index}]{path}"),
            None if index < component.containers.len() => return format!(".extraPodSpec.containers[{index}]{path}"),
            _ => {}
        }
        let service = &self.json["spec"]["services"][&component.name];
        let inside = &service["extraPodSpec"]["mainContainer"];
        for (newer, older) in BESIDE {
            if let Some(rest) = path.strip_prefix('.').and_then(|path| path.strip_prefix(newer))
                && inside[newer].is_null()
                && !service[older].is_null()
            {
                let rest = rest.replace(".mountPath", ".mountPoint");
                return if older == "envFromSecret" { format!(".{older}") } else { format!(".{older}{rest}") };
            }
        }
        format!(".extraPodSpec.mainContainer{path}")
    }
}
