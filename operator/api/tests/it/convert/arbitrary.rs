//! Objects of all shapes, the usual ones often.

use proptest::collection::{btree_map, vec};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

/// Texts that mean something in one place or another.
const TEXTS: [&str; 14] = [
    "", "frontend", "worker", "prefill", "decode", "planner", "epp", "default", "main", "name", "0", "8Gi", "a/b~c",
    "x",
];
/// Names of fields of either version, at any depth.
const KEYS: [&str; 30] = [
    "name",
    "type",
    "spec",
    "services",
    "components",
    "env",
    "envs",
    "componentType",
    "subComponentType",
    "podTemplate",
    "extraPodSpec",
    "mainContainer",
    "containers",
    "metadata",
    "labels",
    "annotations",
    "enabled",
    "scalingAdapter",
    "sharedMemory",
    "sharedMemorySize",
    "experimental",
    "checkpoint",
    "compilationCache",
    "volumeMounts",
    "resources",
    "componentName",
    "componentNames",
    "pvcs",
    "ingress",
    "newer",
];
const NAMES: [&str; 5] = ["Frontend", "decode", "PREFILL", "a-b", "main"];
const VARIABLES: [&str; 4] = ["A", "B", "DYN_X", "POD_IP"];

type Shape = BoxedStrategy<Value>;

fn text() -> Shape {
    select(&TEXTS[..]).prop_map(Value::from).boxed()
}

fn number() -> Shape {
    prop_oneof![(-2..9i64).prop_map(Value::from), any::<i64>().prop_map(Value::from)].boxed()
}

fn flag() -> Shape {
    any::<bool>().prop_map(Value::from).boxed()
}

/// Any JSON.
pub(super) fn wild() -> Shape {
    let leaf = prop_oneof![Just(Value::Null), flag(), number(), text()];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(select(&KEYS[..]).prop_map(str::to_owned), inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
    .boxed()
}

/// Objects with some of the fields; with `odd`, of any form now and then, and with fields that nobody knows.
fn object(odd: bool, fields: Vec<(&'static str, Shape)>) -> Shape {
    let field = |(name, shape): (&'static str, Shape)| {
        let shape = if odd { prop_oneof![12 => shape, 1 => wild()].boxed() } else { shape };
        weighted(0.4, shape).prop_map(move |value| value.map(|value| (name.to_owned(), value))).boxed()
    };
    let known: Vec<_> = fields.into_iter().map(field).collect();
    let unknown = if odd {
        btree_map(select(&KEYS[..]).prop_map(str::to_owned), wild(), 0..2).boxed()
    } else {
        Just(std::collections::BTreeMap::new()).boxed()
    };
    (known, unknown)
        .prop_map(|(known, unknown)| {
            Value::Object(unknown.into_iter().chain(known.into_iter().flatten()).collect::<Map<_, _>>())
        })
        .boxed()
}

fn texts() -> Shape {
    btree_map(select(&VARIABLES[..]), text(), 0..3).prop_map(|texts| json!(texts)).boxed()
}

fn words() -> Shape {
    vec(text(), 0..3).prop_map(Value::from).boxed()
}

fn env() -> Shape {
    let entry = (select(&VARIABLES[..]), text()).prop_map(|(name, value)| json!({"name": name, "value": value}));
    vec(entry, 0..4).prop_map(Value::from).boxed()
}

fn env_from() -> Shape {
    let secret = text().prop_map(|name| json!({"secretRef": {"name": name}}));
    let other = text().prop_map(|name| json!({"secretRef": {"name": name, "optional": true}}));
    vec(prop_oneof![secret, other], 0..3).prop_map(Value::from).boxed()
}

fn named(items: Shape) -> Shape {
    vec((select(&NAMES[..]), items), 0..3)
        .prop_map(|items| {
            let item = |(name, mut item): (&str, Value)| {
                if let Value::Object(fields) = &mut item {
                    fields.insert("name".to_owned(), name.into());
                }
                item
            };
            items.into_iter().map(item).collect()
        })
        .boxed()
}

fn amounts(odd: bool) -> Shape {
    let custom =
        btree_map(select(&["a/b", "cpu", "nvidia.com/gpu"][..]), text(), 0..2).prop_map(|map| json!(map)).boxed();
    object(odd, vec![("cpu", text()), ("memory", text()), ("gpu", text()), ("gpuType", text()), ("custom", custom)])
}

fn quantities() -> Shape {
    btree_map(select(&["a/b", "cpu", "memory", "nvidia.com/gpu"][..]), prop_oneof![text(), number()], 0..4)
        .prop_map(|map| json!(map))
        .boxed()
}

fn container(odd: bool) -> Shape {
    let resources = object(odd, vec![("requests", quantities()), ("limits", quantities())]);
    object(
        odd,
        vec![
            ("image", text()),
            ("command", words()),
            ("args", words()),
            ("env", env()),
            ("envFrom", env_from()),
            ("resources", resources),
            ("livenessProbe", object(odd, vec![("periodSeconds", (0..9).prop_map(Value::from).boxed())])),
            ("volumeMounts", named(object(odd, vec![("mountPath", text())]))),
        ],
    )
}

fn pod_fields(odd: bool) -> Vec<(&'static str, Shape)> {
    vec![
        ("containers", named(container(odd))),
        ("volumes", named(object(odd, vec![("emptyDir", Just(json!({})).boxed())]))),
        ("nodeSelector", texts()),
    ]
}

fn metadata(odd: bool) -> Shape {
    object(odd, vec![("annotations", texts()), ("labels", texts())])
}

fn service(odd: bool) -> Shape {
    let resources = object(odd, vec![("requests", amounts(odd)), ("limits", amounts(odd))]);
    let mount = object(odd, vec![("mountPoint", text()), ("useAsCompilationCache", flag())]);
    let mut pod = pod_fields(odd);
    pod.push(("mainContainer", container(odd)));
    if !odd {
        // A second container `main` is refused by Kubernetes, and means nothing.
        pod.retain(|(name, _)| *name != "containers");
    }
    object(
        odd,
        vec![
            ("componentType", text()),
            ("subComponentType", text()),
            ("serviceName", text()),
            ("dynamoNamespace", text()),
            ("globalDynamoNamespace", flag()),
            ("replicas", (0..5).prop_map(Value::from).boxed()),
            ("resources", resources),
            ("envs", env()),
            ("envFromSecret", text()),
            ("volumeMounts", named(mount)),
            ("sharedMemory", object(odd, vec![("disabled", flag()), ("size", text())])),
            ("ingress", object(odd, vec![("enabled", flag()), ("host", text())])),
            ("modelRef", Just(json!({"name": "m"})).boxed()),
            ("extraPodMetadata", metadata(odd)),
            ("extraPodSpec", object(odd, pod)),
            ("livenessProbe", object(odd, vec![("periodSeconds", (0..9).prop_map(Value::from).boxed())])),
            ("scalingAdapter", object(odd, vec![("enabled", flag())])),
            ("autoscaling", object(odd, vec![])),
            ("annotations", texts()),
            ("labels", texts()),
            ("checkpoint", object(odd, vec![("x", flag())])),
            ("failover", object(odd, vec![])),
        ],
    )
}

fn component(odd: bool) -> Shape {
    let template = object(odd, vec![("metadata", metadata(odd)), ("spec", object(odd, pod_fields(odd)))]);
    object(
        odd,
        vec![
            ("type", text()),
            ("globalDynamoNamespace", flag()),
            ("replicas", (0..5).prop_map(Value::from).boxed()),
            ("podTemplate", template),
            ("scalingAdapter", object(odd, vec![])),
            ("sharedMemorySize", prop_oneof![text(), number()].boxed()),
            ("compilationCache", object(odd, vec![("pvcName", text()), ("mountPath", text())])),
            ("experimental", object(odd, vec![("checkpoint", object(odd, vec![])), ("failover", object(odd, vec![]))])),
            ("frontendSidecar", wild()),
            ("minAvailable", number()),
        ],
    )
}

fn status(components: &'static str, updated: &'static str) -> Shape {
    let component = object(true, vec![("componentName", text()), ("componentNames", words()), ("replicas", number())]);
    let map = btree_map(select(&NAMES[..]), component, 0..3).prop_map(|map| json!(map)).boxed();
    let update = object(true, vec![("phase", text()), (updated, words())]);
    object(true, vec![(components, map), ("rollingUpdate", update), ("observedGeneration", number())])
}

fn assembled(version: &'static str, annotations: bool, body: Shape) -> Shape {
    let annotation = weighted(if annotations { 0.3 } else { 0.0 }, text());
    (body, annotation)
        .prop_map(move |(mut object, annotation)| {
            object["apiVersion"] = version.into();
            object["kind"] = "DynamoGraphDeployment".into();
            object["metadata"] = match annotation {
                Some(text) => json!({"name": "g", "annotations": {"a": text}}),
                None => json!({"name": "g"}),
            };
            object
        })
        .boxed()
}

/// Graphs of the older version, with fields of any form and fields that nobody knows.
pub(super) fn alpha() -> Shape {
    let services = btree_map(select(&NAMES[..]), prop_oneof![12 => service(true), 1 => wild()], 0..4);
    let spec = object(
        true,
        vec![
            ("services", services.prop_map(|map| json!(map)).boxed()),
            ("envs", env()),
            ("pvcs", named(object(true, vec![("create", flag())]))),
            ("labels", texts()),
            ("restart", object(true, vec![("id", text())])),
        ],
    );
    let body = object(true, vec![("spec", spec), ("status", status("services", "updatedServices"))]);
    assembled(super::ALPHA, true, body)
}

/// The same of the newer.
pub(super) fn beta() -> Shape {
    let components = named(component(true));
    let spec = object(
        true,
        vec![
            ("components", components),
            ("env", env()),
            ("labels", texts()),
            ("experimental", object(true, vec![("kvTransferPolicy", wild())])),
        ],
    );
    let body = object(true, vec![("spec", spec), ("status", status("components", "updatedComponents"))]);
    assembled(super::BETA, true, body)
}

/// Graphs of the older version that an API server would take.
pub(super) fn valid_alpha() -> Shape {
    let services = btree_map(select(&NAMES[..]), service(false), 1..4).prop_map(|map| json!(map));
    (services, weighted(0.5, env()))
        .prop_map(|(services, envs)| {
            let mut spec = json!({"services": services});
            if let Some(envs) = envs {
                spec["envs"] = envs;
            }
            super::graph(super::ALPHA, &spec)
        })
        .boxed()
}
