//! Manifests that the API server refuses by the definitions alone, each with its message.

use std::fmt::Write as _;

use super::server;

/// What a row is about.
#[derive(Clone, Copy)]
enum Place {
    /// Fields of the newer version's spec, beside components `a` and `b`.
    Beta,
    /// Fields of the newer version's first component, `a`.
    Component,
    /// The whole list of components.
    Components,
    /// Fields of the older version's spec, beside services `a` and `b`.
    Alpha,
    /// Fields of the older version's service `a`.
    Service,
    /// The whole map of services.
    Services,
    /// A scaling adapter's spec in the newer version.
    Adapter,
    /// In the older.
    OldAdapter,
    /// All of a worker's metadata but its head.
    Worker,
}
use Place::{Adapter, Alpha, Beta, Component, Components, OldAdapter, Service, Services, Worker};

impl Place {
    /// An object in which everything else is right.
    fn object(self, name: &str, text: &str) -> String {
        let (version, kind, body) = match self {
            Beta => (
                "v1beta1",
                "DynamoGraphDeployment",
                format!("spec: {{components: [{{name: a}}, {{name: b}}], {text}}}"),
            ),
            Component => ("v1beta1", "DynamoGraphDeployment", format!("spec: {{components: [{{name: a, {text}}}]}}")),
            Components => ("v1beta1", "DynamoGraphDeployment", format!("spec: {{components: {text}}}")),
            Alpha => ("v1alpha1", "DynamoGraphDeployment", format!("spec: {{services: {{a: {{}}, b: {{}}}}, {text}}}")),
            Service => ("v1alpha1", "DynamoGraphDeployment", format!("spec: {{services: {{a: {{{text}}}}}}}")),
            Services => ("v1alpha1", "DynamoGraphDeployment", format!("spec: {{services: {text}}}")),
            Adapter => ("v1beta1", "DynamoGraphDeploymentScalingAdapter", format!("spec: {text}")),
            OldAdapter => ("v1alpha1", "DynamoGraphDeploymentScalingAdapter", format!("spec: {text}")),
            Worker => ("v1alpha1", "DynamoWorkerMetadata", text.to_owned()),
        };
        format!("{{apiVersion: nvidia.com/{version}, kind: {kind}, metadata: {{name: {name}}}, {body}}}")
    }
}

/// What is said after other errors, since rules need an object of the right form.
const UNCHECKED: &str = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// The message, or several in any order with ` | ` between them.
const ROWS: &[(Place, &str, &str)] = &[
    (Components, "[]", "spec.components: Invalid value: 0: spec.components in body should have at least 1 items"),
    (
        Components,
        "{}",
        r#"spec.components: Invalid value: "object": spec.components in body must be of type array: "object""#,
    ),
    (Components, "[{}]", "spec.components[0].name: Required value"),
    (Components, "[{type: worker}]", "spec.components[0].name: Required value"),
    (
        Components,
        "[a]",
        r#"spec.components[0]: Invalid value: "string": spec.components[0] in body must be of type object: "string" | spec.components[0]: Invalid value: "a": must be an object for an array of list-type map"#,
    ),
    (
        Components,
        "[{name: a}, {name: a}]",
        r#"spec.components[1]: Duplicate value: {"name":"a"} | spec.components: Invalid value: names must differ in more than case"#,
    ),
    (Components, "[{name: a}, {name: A}]", "spec.components: Invalid value: names must differ in more than case"),
    (
        Components,
        "[{name: a, type: epp}, {name: b, type: epp}]",
        "spec.components: Invalid value: one component of type epp is allowed",
    ),
    (
        Components,
        "[{name: ''}]",
        r#"spec.components[0].name: Invalid value: "": spec.components[0].name in body should be at least 1 chars long"#,
    ),
    (
        Components,
        "[{name: a_b}]",
        r#"spec.components[0].name: Invalid value: "a_b": spec.components[0].name in body should match '^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$'"#,
    ),
    (
        Components,
        "[{name: -a}]",
        r#"spec.components[0].name: Invalid value: "-a": spec.components[0].name in body should match '^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$'"#,
    ),
    (
        Components,
        "[{name: a234567890123456789012345678901234567890123456789012345678901234}]",
        "spec.components[0].name: Too long: may not be more than 63 bytes",
    ),
    (
        Components,
        "[{name: 1}]",
        r#"spec.components[0].name: Invalid value: "integer": spec.components[0].name in body must be of type string: "integer""#,
    ),
    (
        Component,
        "type: router",
        r#"spec.components[0].type: Unsupported value: "router": supported values: "frontend", "worker", "prefill", "decode", "planner", "epp""#,
    ),
    (
        Component,
        "type: ''",
        r#"spec.components[0].type: Unsupported value: "": supported values: "frontend", "worker", "prefill", "decode", "planner", "epp""#,
    ),
    (
        Component,
        "type: Frontend",
        r#"spec.components[0].type: Unsupported value: "Frontend": supported values: "frontend", "worker", "prefill", "decode", "planner", "epp""#,
    ),
    (
        Component,
        "replicas: -1",
        "spec.components[0].replicas: Invalid value: -1: spec.components[0].replicas in body should be greater than or equal to 0",
    ),
    (
        Component,
        "replicas: '1'",
        r#"spec.components[0].replicas: Invalid value: "string": spec.components[0].replicas in body must be of type integer: "string""#,
    ),
    (
        Component,
        "replicas: 1.5",
        r#"spec.components[0].replicas: Invalid value: "number": spec.components[0].replicas in body must be of type integer: "number""#,
    ),
    (
        Component,
        "replicas: 3000000000",
        "spec.components[0].replicas: Invalid value: 3000000000: spec.components[0].replicas in body should be less than or equal to 2147483647",
    ),
    (
        Component,
        "globalDynamoNamespace: 'yes'",
        r#"spec.components[0].globalDynamoNamespace: Invalid value: "string": spec.components[0].globalDynamoNamespace in body must be of type boolean: "string""#,
    ),
    (
        Component,
        "scalingAdapter: true",
        r#"spec.components[0].scalingAdapter: Invalid value: "boolean": spec.components[0].scalingAdapter in body must be of type object: "boolean""#,
    ),
    (Component, "modelRef: {}", "spec.components[0].modelRef.name: Required value"),
    (
        Component,
        "modelRef: {name: ''}",
        r#"spec.components[0].modelRef.name: Invalid value: "": spec.components[0].modelRef.name in body should be at least 1 chars long"#,
    ),
    (
        Component,
        "multinode: {nodeCount: 1}",
        "spec.components[0].multinode.nodeCount: Invalid value: 1: spec.components[0].multinode.nodeCount in body should be greater than or equal to 2",
    ),
    (
        Component,
        "minAvailable: -1",
        "spec.components[0].minAvailable: Invalid value: -1: spec.components[0].minAvailable in body should be greater than or equal to 0",
    ),
    (
        Component,
        "sharedMemorySize: 1GiB",
        r#"spec.components[0].sharedMemorySize: Invalid value: "1GiB": spec.components[0].sharedMemorySize in body should match '^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'"#,
    ),
    (
        Component,
        "sharedMemorySize: -1Gi",
        r#"spec.components[0].sharedMemorySize: Invalid value: "-1Gi": spec.components[0].sharedMemorySize in body should match '^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'"#,
    ),
    (
        Component,
        "sharedMemorySize: true",
        r#"spec.components[0].sharedMemorySize: Invalid value: "boolean": spec.components[0].sharedMemorySize in body must be of type integer,string: "boolean""#,
    ),
    (
        Component,
        "runtimeVersionOverride: v1.4",
        r#"spec.components[0].runtimeVersionOverride: Invalid value: "v1.4": spec.components[0].runtimeVersionOverride in body should match '^[0-9]+\.[0-9]+\.[0-9]+$'"#,
    ),
    (Component, "compilationCache: {mountPath: /c}", "spec.components[0].compilationCache.pvcName: Required value"),
    (
        Component,
        "podTemplate: []",
        r#"spec.components[0].podTemplate: Invalid value: "array": spec.components[0].podTemplate in body must be of type object: "array""#,
    ),
    (
        Component,
        "podTemplate: {metadata: {labels: {a: 1}}}",
        r#"spec.components[0].podTemplate.metadata.labels.a: Invalid value: "integer": spec.components[0].podTemplate.metadata.labels.a in body must be of type string: "integer""#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: {name: main}}}",
        r#"unknown field "spec.components[0].podTemplate.spec.containers.name""#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{image: i}]}}",
        "spec.components[0].podTemplate.spec.containers[0].name: Required value",
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{name: main}, {name: main}]}}",
        r#"spec.components[0].podTemplate.spec.containers[1]: Duplicate value: {"name":"main"}"#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{name: main, args: -x}]}}",
        r#"spec.components[0].podTemplate.spec.containers[0].args: Invalid value: "string": spec.components[0].podTemplate.spec.containers[0].args in body must be of type array: "string""#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{name: main, args: [1.0]}]}}",
        r#"spec.components[0].podTemplate.spec.containers[0].args[0]: Invalid value: "integer": spec.components[0].podTemplate.spec.containers[0].args[0] in body must be of type string: "integer""#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{name: main, env: [{name: A, value: 1}]}]}}",
        r#"spec.components[0].podTemplate.spec.containers[0].env[0].value: Invalid value: "integer": spec.components[0].podTemplate.spec.containers[0].env[0].value in body must be of type string: "integer""#,
    ),
    (
        Component,
        "podTemplate: {spec: {containers: [{name: main, env: [{value: a}]}]}}",
        "spec.components[0].podTemplate.spec.containers[0].env[0].name: Required value",
    ),
    (
        Component,
        "experimental: {checkpoint: 1}",
        r#"spec.components[0].experimental.checkpoint: Invalid value: "integer": spec.components[0].experimental.checkpoint in body must be of type object: "integer""#,
    ),
    (
        Beta,
        "backendFramework: mocker",
        r#"spec.backendFramework: Unsupported value: "mocker": supported values: "sglang", "vllm", "trtllm""#,
    ),
    (Beta, "env: {A: b}", r#"unknown field "spec.env.A""#),
    (
        Beta,
        "env: [{name: A, value: true}]",
        r#"spec.env[0].value: Invalid value: "boolean": spec.env[0].value in body must be of type string: "boolean""#,
    ),
    (
        Beta,
        "labels: {a: 1}",
        r#"spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type string: "integer""#,
    ),
    (
        Beta,
        "restart: {id: '1'}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart",
    ),
    (Beta, "restart: {}", "spec.restart.id: Required value"),
    (
        Beta,
        "restart: {id: '', strategy: {type: Random}}",
        r#"spec.restart.id: Invalid value: "": spec.restart.id in body should be at least 1 chars long | spec.restart.strategy.type: Unsupported value: "Random": supported values: "Sequential", "Parallel""#,
    ),
    (
        Beta,
        "restart: {id: '1', strategy: {type: Parallel, order: [a, b]}}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart | spec.restart.strategy.order: Invalid value: cannot be given with the type Parallel, which has no order",
    ),
    (
        Beta,
        "restart: {id: '1', strategy: {order: [a]}}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart | spec.restart.strategy.order: Invalid value: must name every component once",
    ),
    (
        Beta,
        "restart: {id: '1', strategy: {order: [a, a]}}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart | spec.restart.strategy.order: Invalid value: must name every component once",
    ),
    (
        Beta,
        "restart: {id: '1', strategy: {order: [a, c]}}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart | spec.restart.strategy.order: Invalid value: must name every component once",
    ),
    (Services, "{}", "spec.services: Invalid value: 0: spec.services in body should have at least 1 properties"),
    (Services, "[]", r#"spec.services: Invalid value: "array": spec.services in body must be of type object: "array""#),
    (Services, "{a: {}, A: {}}", "spec.services: Invalid value: names must differ in more than case"),
    (Services, "{a_b: {}}", "spec.services: Invalid value: names must be 1 to 63 letters, digits and hyphens"),
    (
        Services,
        "{a: {componentType: epp}, b: {componentType: epp}}",
        "spec.services: Invalid value: one component of type epp is allowed",
    ),
    (
        Services,
        "{a: text}",
        r#"spec.services.a: Invalid value: "string": spec.services.a in body must be of type object: "string""#,
    ),
    (
        Service,
        "replicas: -1",
        "spec.services.a.replicas: Invalid value: -1: spec.services.a.replicas in body should be greater than or equal to 0",
    ),
    (
        Service,
        "replicas: many",
        r#"spec.services.a.replicas: Invalid value: "string": spec.services.a.replicas in body must be of type integer: "string""#,
    ),
    (
        Service,
        "componentType: 1",
        r#"spec.services.a.componentType: Invalid value: "integer": spec.services.a.componentType in body must be of type string: "integer""#,
    ),
    (
        Service,
        "scalingAdapter: {enabled: 'true'}",
        r#"spec.services.a.scalingAdapter.enabled: Invalid value: "string": spec.services.a.scalingAdapter.enabled in body must be of type boolean: "string""#,
    ),
    (Service, "envs: [{value: a}]", "spec.services.a.envs[0].name: Required value"),
    (
        Service,
        "sharedMemory: {}",
        "spec.services[a].sharedMemory.size: Invalid value: is needed unless shared memory is disabled",
    ),
    (
        Service,
        "sharedMemory: {disabled: false}",
        "spec.services[a].sharedMemory.size: Invalid value: is needed unless shared memory is disabled",
    ),
    (
        Service,
        "sharedMemory: {size: big}",
        r#"spec.services.a.sharedMemory.size: Invalid value: "big": spec.services.a.sharedMemory.size in body should match '^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'"#,
    ),
    (
        Service,
        "ingress: {enabled: true}",
        "spec.services[a].ingress.host: Invalid value: is needed for an ingress that is enabled",
    ),
    (
        Service,
        "ingress: {enabled: true, host: ''}",
        "spec.services[a].ingress.host: Invalid value: is needed for an ingress that is enabled",
    ),
    (
        Service,
        "volumeMounts: [{name: v}]",
        "spec.services[a].volumeMounts[0].mountPoint: Invalid value: is needed unless the volume is the compilation cache",
    ),
    (Service, "volumeMounts: [{mountPoint: /m}]", "spec.services.a.volumeMounts[0].name: Required value"),
    (
        Service,
        "volumeMounts: [{name: v, mountPoint: ''}]",
        "spec.services[a].volumeMounts[0].mountPoint: Invalid value: is needed unless the volume is the compilation cache",
    ),
    (
        Service,
        "multinode: {nodeCount: 0}",
        "spec.services.a.multinode.nodeCount: Invalid value: 0: spec.services.a.multinode.nodeCount in body should be greater than or equal to 2",
    ),
    (
        Service,
        "resources: {limits: {gpu: one}}",
        r#"spec.services.a.resources.limits.gpu: Invalid value: "one": spec.services.a.resources.limits.gpu in body should match '^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'"#,
    ),
    (
        Service,
        "resources: {limits: {custom: {a/b: 1}}}",
        r#"spec.services.a.resources.limits.custom.a/b: Invalid value: "integer": spec.services.a.resources.limits.custom.a/b in body must be of type string: "integer""#,
    ),
    (
        Service,
        "extraPodSpec: {mainContainer: {args: [1]}}",
        r#"spec.services.a.extraPodSpec.mainContainer.args[0]: Invalid value: "integer": spec.services.a.extraPodSpec.mainContainer.args[0] in body must be of type string: "integer""#,
    ),
    (
        Service,
        "extraPodSpec: {mainContainer: {image: 1}}",
        r#"spec.services.a.extraPodSpec.mainContainer.image: Invalid value: "integer": spec.services.a.extraPodSpec.mainContainer.image in body must be of type string: "integer""#,
    ),
    (
        Service,
        "livenessProbe: {periodSeconds: often}",
        r#"spec.services.a.livenessProbe.periodSeconds: Invalid value: "string": spec.services.a.livenessProbe.periodSeconds in body must be of type integer: "string""#,
    ),
    (Service, "modelRef: {revision: r}", "spec.services.a.modelRef.name: Required value"),
    (Alpha, "pvcs: [{create: true}]", "spec.pvcs[0].name: Required value"),
    (
        Alpha,
        "pvcs: [{name: v, create: true, size: 1Gi}]",
        "spec.pvcs[0]: Invalid value: size, storageClass and volumeAccessMode are needed for a claim that is to be created",
    ),
    (Alpha, "pvcs: [{name: v}, {name: v}]", r#"spec.pvcs[1]: Duplicate value: {"name":"v"}"#),
    (
        Alpha,
        "pvcs: [{name: v, size: 1Gb, volumeAccessMode: Once}]",
        r#"spec.pvcs[0].volumeAccessMode: Unsupported value: "Once": supported values: "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod" | spec.pvcs[0].size: Invalid value: "1Gb": spec.pvcs[0].size in body should match '^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$'"#,
    ),
    (
        Alpha,
        "backendFramework: tgi",
        r#"spec.backendFramework: Unsupported value: "tgi": supported values: "sglang", "vllm", "trtllm""#,
    ),
    (
        Alpha,
        "restart: {id: '1', strategy: {order: [b, b]}}",
        "spec.restart: Invalid value: cannot be given when a graph is created, there is nothing to restart | spec.restart.strategy.order: Invalid value: must name every component once",
    ),
    (Adapter, "{}", "spec.dgdRef: Required value | spec.replicas: Required value"),
    (
        Adapter,
        "{replicas: -1, dgdRef: {name: g, componentName: a}}",
        "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0 | .spec.replicas: Invalid value: -1: should be a non-negative integer",
    ),
    (
        Adapter,
        "{replicas: 1, dgdRef: {name: '', componentName: a}}",
        r#"spec.dgdRef.name: Invalid value: "": spec.dgdRef.name in body should be at least 1 chars long"#,
    ),
    (
        Adapter,
        "{replicas: 1, dgdRef: {name: g}}",
        "spec.dgdRef: Invalid value: componentName or componentGroupName is needed",
    ),
    (
        OldAdapter,
        "{replicas: 1, dgdRef: {name: g}}",
        "spec.dgdRef: Invalid value: serviceName or componentGroupName is needed",
    ),
    (OldAdapter, "{replicas: 1}", "spec.dgdRef: Required value"),
    (Worker, "other: 1", r#"unknown field "other""#),
    (Worker, "spec: {}", "spec.data: Required value"),
    (Worker, "spec: {data: null}", "spec.data: Required value"),
    (
        Worker,
        "spec: {data: [1]}",
        r#"spec.data: Invalid value: "array": spec.data in body must be of type object: "array""#,
    ),
];

#[test]
fn every_bad_manifest_is_refused_with_its_place_and_reason() {
    let Some(server) = server() else { return };
    let mut manifest = String::new();
    for (index, (place, text, _)) in ROWS.iter().enumerate() {
        writeln!(manifest, "---\n{}", place.object(&format!("bad-{index}"), text)).expect("a string takes it");
    }
    let said = server.kubectl("default", &["create", "--dry-run=server", "--filename=-"], &manifest);
    assert_eq!(said.stdout, "", "taken");
    let errors: Vec<_> = said.stderr.lines().filter(|line| line.starts_with("Error from server (")).collect();
    assert_eq!(errors.len(), ROWS.len(), "{}", said.stderr);
    let mut wrong = String::new();
    for ((index, (_, text, expected)), error) in ROWS.iter().enumerate().zip(errors) {
        let start = match error.contains("strict decoding error: ") {
            true => "strict decoding error: ".to_owned(),
            false => format!("\"bad-{index}\" is invalid: "),
        };
        let (_, message) = error.split_once(&start).expect(error);
        let message = match message.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
            Some(list) => list.strip_suffix(UNCHECKED).map_or(list, |list| list.trim_end_matches(", ")),
            None => message,
        };
        // The server does not keep to one order.
        let parts: Vec<_> = expected.split(" | ").collect();
        let length = parts.iter().map(|part| part.len()).sum::<usize>() + ", ".len() * (parts.len() - 1);
        if message.len() != length || !parts.iter().all(|part| message.contains(part)) {
            writeln!(wrong, "{text}\n  said:     {message}\n  expected: {expected}").expect("a string takes it");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn twenty_five_components_are_taken_and_one_more_is_not() {
    let Some(server) = server() else { return };
    let components = |count: usize| {
        let names: Vec<_> = (0..count).map(|index| format!("{{name: component-{index}}}")).collect();
        Components.object("many", &format!("[{}]", names.join(", ")))
    };
    let services = |count: usize| {
        let names: Vec<_> = (0..count).map(|index| format!("service-{index}: {{}}")).collect();
        Services.object("many", &format!("{{{}}}", names.join(", ")))
    };
    let create = |manifest: &str| server.kubectl("default", &["create", "--dry-run=server", "--filename=-"], manifest);
    for manifest in [components(25), services(25)] {
        let said = create(&manifest);
        assert!(said.ok, "{}", said.stderr);
    }
    let message = create(&components(26)).stderr;
    assert!(message.contains("spec.components: Too many: 26: must have at most 25 items"), "{message}");
    let message = create(&services(26)).stderr;
    assert!(message.contains("spec.services: Too many: 26: must have at most 25 items"), "{message}");
}
