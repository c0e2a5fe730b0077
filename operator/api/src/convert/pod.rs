//! The pods of a component: a template in the newer version, many fields in the older.

use serde_json::{Value, json};

use super::{Fields, put_list, put_object, take_list, take_object};
use crate::MAIN_CONTAINER;

/// Fields of the older version that make a pod template.
pub(super) const ALPHA_FIELDS: [&str; 10] = [
    "annotations",
    "labels",
    "extraPodMetadata",
    "extraPodSpec",
    "envs",
    "envFromSecret",
    "resources",
    "volumeMounts",
    "livenessProbe",
    "readinessProbe",
];
/// The same in the newer.
pub(super) const BETA_FIELDS: [&str; 2] = ["podTemplate", "compilationCache"];

/// Probes of the main container, which the older version has beside it.
const PROBES: [&str; 2] = ["livenessProbe", "readinessProbe"];
/// What GPUs are called unless something else is said.
const GPU: &str = "nvidia.com/gpu";

/// Fields of the older version become `podTemplate` and `compilationCache`. `graph_env` is the graph's environment.
pub(super) fn to_beta(fields: &mut Fields, graph_env: &[Value]) {
    let mut template = Fields::new();
    put_object(&mut template, "metadata", metadata_to_beta(fields));
    let given = take_object(fields, "extraPodSpec");
    let is_given = given.is_some();
    let mut spec = given.unwrap_or_default();
    let main_given = take_object(&mut spec, "mainContainer");
    let main_is_given = main_given.is_some();
    let mut main = main_given.unwrap_or_default();
    env_to_beta(fields, &mut main, graph_env);
    resources_to_beta(fields, &mut main);
    for probe in PROBES {
        if let Some(value) = take_object(fields, probe) {
            main.entry(probe).or_insert(value.into());
        }
    }
    mounts_to_beta(fields, &mut spec, &mut main);
    if main_is_given || !main.is_empty() {
        main.insert("name".to_owned(), MAIN_CONTAINER.into());
        let mut containers = vec![Value::Object(main)];
        containers.extend(take_list(&mut spec, "containers").unwrap_or_default());
        spec.insert("containers".to_owned(), containers.into());
    }
    if is_given || !spec.is_empty() {
        template.insert("spec".to_owned(), spec.into());
    }
    put_object(fields, "podTemplate", template);
}

/// `podTemplate` becomes fields of the older version; `compilationCache` is the caller's.
pub(super) fn to_alpha(fields: &mut Fields) {
    let Some(mut template) = take_object(fields, "podTemplate") else { return };
    if let Some(mut metadata) = take_object(&mut template, "metadata") {
        let mut extra = Fields::new();
        for field in ["annotations", "labels"] {
            if let Some(texts) = take_object(&mut metadata, field) {
                extra.insert(field.to_owned(), texts.into());
            }
        }
        put_object(fields, "extraPodMetadata", extra);
    }
    let Some(mut spec) = take_object(&mut template, "spec") else { return };
    if let Some(mut containers) = take_list(&mut spec, "containers") {
        let is_main = |container: &Value| container.get("name").and_then(Value::as_str) == Some(MAIN_CONTAINER);
        if let Some(index) = containers.iter().position(is_main) {
            if let Value::Object(mut main) = containers.remove(index) {
                main.remove("name");
                main_to_alpha(fields, &mut main);
                spec.insert("mainContainer".to_owned(), main.into());
            }
        }
        put_list(&mut spec, "containers", containers);
    }
    fields.insert("extraPodSpec".to_owned(), spec.into());
}

/// Labels and annotations of the component, under those of its pods.
fn metadata_to_beta(fields: &mut Fields) -> Fields {
    let mut extra = take_object(fields, "extraPodMetadata").unwrap_or_default();
    let mut metadata = Fields::new();
    for field in ["annotations", "labels"] {
        let mut texts = take_object(fields, field).unwrap_or_default();
        texts.extend(take_object(&mut extra, field).unwrap_or_default());
        put_object(&mut metadata, field, texts);
    }
    metadata
}

/// The environment of the main container is the weakest in the older version: the graph's and the component's entries of the
/// same name win. In the newer one it is the strongest, so what loses is left out.
fn env_to_beta(fields: &mut Fields, main: &mut Fields, graph_env: &[Value]) {
    let own = take_list(fields, "envs").unwrap_or_default();
    if let Some(weak) = take_list(main, "env") {
        let strongest = |entry: &Value| match find(&own, name(entry)) {
            Some(own) => Some(own.clone()),
            None if find(graph_env, name(entry)).is_some() => None,
            None => Some(entry.clone()),
        };
        let mut env: Vec<_> = weak.iter().filter_map(strongest).collect();
        env.extend(own.iter().filter(|entry| find(&weak, name(entry)).is_none()).cloned());
        put_list(main, "env", env);
    } else {
        put_list(main, "env", own);
    }
    if let Some(Value::String(secret)) = fields.remove("envFromSecret") {
        let mut sources = vec![json!({"secretRef": {"name": secret}})];
        sources.extend(take_list(main, "envFrom").unwrap_or_default());
        main.insert("envFrom".to_owned(), sources.into());
    }
}

fn main_to_alpha(fields: &mut Fields, main: &mut Fields) {
    if let Some(env) = take_list(main, "env") {
        put_list(fields, "envs", env);
    }
    if let Some(mut sources) = take_list(main, "envFrom") {
        let secret = sources.first().and_then(|source| source.pointer("/secretRef/name")).and_then(Value::as_str);
        if let Some(secret) = secret.map(str::to_owned) {
            if sources[0] == json!({"secretRef": {"name": secret}}) {
                fields.insert("envFromSecret".to_owned(), secret.into());
                sources.remove(0);
            }
        }
        put_list(main, "envFrom", sources);
    }
    if let Some(resources) = take_object(main, "resources") {
        put_object(fields, "resources", resources_to_alpha(resources));
    }
    for probe in PROBES {
        if let Some(value) = take_object(main, probe) {
            fields.insert(probe.to_owned(), value.into());
        }
    }
}

/// The main container's own resources win by name.
fn resources_to_beta(fields: &mut Fields, main: &mut Fields) {
    let Some(mut resources) = take_object(fields, "resources") else { return };
    let mut own = take_object(main, "resources").unwrap_or_default();
    for part in ["requests", "limits"] {
        let mut amounts = take_object(&mut resources, part).map(amounts_to_beta).unwrap_or_default();
        amounts.extend(take_object(&mut own, part).unwrap_or_default());
        put_object(&mut own, part, amounts);
    }
    if let Some(claims) = take_list(&mut resources, "claims") {
        own.entry("claims").or_insert(claims.into());
    }
    put_object(main, "resources", own);
}

fn amounts_to_beta(mut amounts: Fields) -> Fields {
    let gpu_type = amounts.remove("gpuType").as_ref().and_then(Value::as_str).unwrap_or(GPU).to_owned();
    let mut named = take_object(&mut amounts, "custom").unwrap_or_default();
    for (from, to) in [("cpu", "cpu"), ("memory", "memory"), ("gpu", gpu_type.as_str())] {
        if let Some(amount) = amounts.remove(from) {
            named.insert(to.to_owned(), amount);
        }
    }
    named
}

fn resources_to_alpha(mut resources: Fields) -> Fields {
    let mut alpha = Fields::new();
    for part in ["requests", "limits"] {
        if let Some(mut named) = take_object(&mut resources, part) {
            let mut amounts = Fields::new();
            for (from, to) in [("cpu", "cpu"), ("memory", "memory"), (GPU, "gpu")] {
                if let Some(amount) = named.remove(from) {
                    amounts.insert(to.to_owned(), amount);
                }
            }
            let text = |(name, amount): (String, Value)| match amount {
                Value::Number(number) => (name, number.to_string().into()),
                amount => (name, amount),
            };
            put_object(&mut amounts, "custom", named.into_iter().map(text).collect());
            alpha.insert(part.to_owned(), amounts.into());
        }
    }
    if let Some(claims) = resources.remove("claims") {
        alpha.insert("claims".to_owned(), claims);
    }
    alpha
}

/// Mounts of volume claims become volumes and their mounts; the first that is for what the engine compiles has a field of
/// its own.
fn mounts_to_beta(fields: &mut Fields, spec: &mut Fields, main: &mut Fields) {
    let Some(mounts) = take_list(fields, "volumeMounts") else { return };
    let mut volumes = take_list(spec, "volumes").unwrap_or_default();
    let mut mounted = take_list(main, "volumeMounts").unwrap_or_default();
    for mount in mounts {
        let Some(claim) = mount.get("name").and_then(Value::as_str) else { continue };
        let is_cache = mount.get("useAsCompilationCache") == Some(&Value::Bool(true));
        let place = mount.get("mountPoint");
        if is_cache && !fields.contains_key("compilationCache") {
            let mut cache = Fields::from_iter([("pvcName".to_owned(), claim.into())]);
            if let Some(place) = place {
                cache.insert("mountPath".to_owned(), place.clone());
            }
            fields.insert("compilationCache".to_owned(), cache.into());
        } else if let Some(place) = place {
            if find(&volumes, Some(claim)).is_none() {
                volumes.push(json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
            }
            mounted.push(json!({"name": claim, "mountPath": place}));
        }
    }
    put_list(spec, "volumes", volumes);
    put_list(main, "volumeMounts", mounted);
}

fn name(entry: &Value) -> Option<&str> {
    entry.get("name")?.as_str()
}

/// The last entry of a name, which is the one that counts.
fn find<'a>(entries: &'a [Value], wanted: Option<&str>) -> Option<&'a Value> {
    entries.iter().rfind(|entry| wanted.is_some() && name(entry) == wanted)
}
