//! Manifests that cannot be used, each with its whole message, and fields that have no effect.

use std::cell::RefCell;

use dynosim_api::v1beta1::DynamoGraphDeployment;
use dynosim_operator::{Config, validate};
use serde_json::{Value, json};

use crate::manifests::stored;

/// A graph with this spec.
fn beta(spec: &str) -> DynamoGraphDeployment {
    let spec: Value = serde_saphyr::from_str(spec).unwrap_or_else(|error| panic!("{spec}: {error}"));
    stored(
        json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"}, "spec": spec}),
    )
}

/// A graph with one decode worker that has these fields besides.
fn component(fields: &str) -> DynamoGraphDeployment {
    beta(&format!(
        "{{components: [{{name: a, type: decode, podTemplate: {{spec: {{containers: [{{name: main, args: [--model-path, m]}}]}}}}, {fields}}}]}}"
    ))
}

/// A graph with one component without type whose pod has these fields besides.
fn pod(fields: &str) -> DynamoGraphDeployment {
    beta(&format!(
        "{{components: [{{name: a, podTemplate: {{spec: {{containers: [{{name: main, image: i}}], {fields}}}}}}}]}}"
    ))
}

/// A graph with one component without type whose container has these fields besides.
fn container(fields: &str) -> DynamoGraphDeployment {
    beta(&format!(
        "{{components: [{{name: a, podTemplate: {{spec: {{volumes: [{{name: v}}], containers: [{{name: main, image: i, {fields}}}]}}}}}}]}}"
    ))
}

/// A graph with one worker that has these arguments.
fn worker(args: &str) -> DynamoGraphDeployment {
    beta(&format!(
        "{{components: [{{name: a, type: worker, podTemplate: {{spec: {{containers: [{{name: main, args: [--model-path, m, {args}]}}]}}}}}}]}}"
    ))
}

/// A graph with one worker whose pod has these annotations.
fn annotated(annotation: &str) -> DynamoGraphDeployment {
    beta(&format!(
        "{{components: [{{name: a, type: worker, podTemplate: {{metadata: {{annotations: {{{annotation}}}}}, spec: {{containers: [{{name: main, args: [--model-path, m]}}]}}}}}}]}}"
    ))
}

/// A good graph with other metadata.
fn named(metadata: &Value) -> DynamoGraphDeployment {
    stored(json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": metadata,
        "spec": {"components": [{"name": "a", "type": "frontend"}]}}))
}

/// A good graph with an annotation.
fn graph_annotation(key: &str, text: &str) -> DynamoGraphDeployment {
    named(&json!({"name": "g", "annotations": {key: text}}))
}

/// A graph of the older version.
fn alpha(spec: &str) -> DynamoGraphDeployment {
    let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
    stored(
        json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"}, "spec": spec}),
    )
}

fn errors(graph: &DynamoGraphDeployment) -> Vec<String> {
    let errors: Vec<_> = match validate(graph, &Config::default()) {
        Ok(_) => Vec::new(),
        Err(invalid) => invalid.0.errors.iter().map(ToString::to_string).collect(),
    };
    SEEN.with_borrow_mut(|seen| seen.push((graph.clone(), errors.clone())));
    errors
}

thread_local! {
    /// What a thread has looked at.
    static SEEN: RefCell<Vec<(DynamoGraphDeployment, Vec<String>)>> = const { RefCell::new(Vec::new()) };
}

/// All manifests of these tests with their errors.
pub(crate) fn all() -> Vec<(DynamoGraphDeployment, Vec<String>)> {
    SEEN.take();
    of_a_graph();
    of_a_restart();
    of_a_component();
    of_a_workers_flags();
    of_a_pod();
    of_a_container();
    of_what_only_the_older_version_has();
    all_errors_are_told_at_once();
    SEEN.take()
}

/// Each row: a graph and its only error.
fn check(rows: Vec<(DynamoGraphDeployment, &str)>) {
    for (graph, message) in rows {
        assert_eq!(errors(&graph), [message], "{}", serde_json::to_string(&graph.spec).expect("JSON"));
    }
}

const LABEL: &str = "cannot be used (allowed: 1 to 63 lower-case letters, digits and hyphens, hyphens only inside)";

#[test]
fn of_a_graph() {
    let long = "n".repeat(60);
    let long_name = format!(
        "metadata.name: `test-{long}`, its namespace and name, is a label of all pods and has 65 characters (allowed: 63)"
    );
    check(vec![
        (named(&json!({"name": ""})), "metadata.name: missing"),
        (named(&json!({})), "metadata.name: missing"),
        (
            named(&json!({"name": "1g"})),
            "metadata.name: `1g` cannot be used (allowed: 1 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen at the end)",
        ),
        (
            named(&json!({"name": "a.b"})),
            "metadata.name: `a.b` cannot be used (allowed: 1 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen at the end)",
        ),
        (named(&json!({"name": long})), &long_name),
        (beta("{components: []}"), "spec.components: has no components, at least 1 is needed"),
        (
            beta("{backendFramework: jax, components: [{name: a, type: frontend}]}"),
            "spec.backendFramework: `jax` cannot be used (allowed: sglang, vllm, trtllm)",
        ),
        (
            beta("{labels: {'a b': c}, components: [{name: a, type: frontend}]}"),
            "spec.labels[a b]: `a b` cannot be used (allowed: a name of 1 to 63 letters, digits, `-`, `_` and `.`, perhaps after a domain and `/`)",
        ),
        (
            beta("{labels: {a: b/c}, components: [{name: a, type: frontend}]}"),
            "spec.labels[a]: `b/c` cannot be used (allowed: at most 63 letters, digits, `-`, `_` and `.`, a letter or digit first and last)",
        ),
        (
            beta("{annotations: {/a: b}, components: [{name: a, type: frontend}]}"),
            "spec.annotations[/a]: `/a` cannot be used (allowed: a name of 1 to 63 letters, digits, `-`, `_` and `.`, perhaps after a domain and `/`)",
        ),
        (
            beta("{env: [{name: 'A=B', value: c}], components: [{name: a, type: frontend}]}"),
            "spec.env[0].name: `A=B` cannot be used (allowed: printable ASCII characters except `=`)",
        ),
        (
            graph_annotation("nvidia.com/dynamo-discovery-backend", "consul"),
            "metadata.annotations[nvidia.com/dynamo-discovery-backend]: `consul` cannot be used (allowed: kubernetes, etcd)",
        ),
        (
            graph_annotation("nvidia.com/dynamo-kube-discovery-mode", "node"),
            "metadata.annotations[nvidia.com/dynamo-kube-discovery-mode]: `node` cannot be used (allowed: pod, container)",
        ),
        (
            graph_annotation("nvidia.com/workload-provider", "grove"),
            "metadata.annotations[nvidia.com/workload-provider]: `grove` cannot be used (allowed: component)",
        ),
        (
            graph_annotation("dynosim/image-policy", "mine"),
            "metadata.annotations[dynosim/image-policy]: `mine` cannot be used (allowed: Mocker, Manifest)",
        ),
        (
            graph_annotation("nvidia.com/deployment-strategy", "Never"),
            "metadata.annotations[nvidia.com/deployment-strategy]: `Never` cannot be used (allowed: RollingUpdate, Recreate)",
        ),
    ]);
    let many: Vec<_> = (0..26).map(|n| format!("{{name: c{n}, type: frontend}}")).collect();
    let many = beta(&format!("{{components: [{}]}}", many.join(", ")));
    assert_eq!(errors(&many), ["spec.components: has 26 components, 25 are allowed"]);
}

#[test]
fn of_a_restart() {
    let restart = |text: &str| {
        beta(&format!("{{restart: {text}, components: [{{name: A, type: frontend}}, {{name: b, type: frontend}}]}}"))
    };
    check(vec![
        (restart("{id: ''}"), "spec.restart.id: is empty (allowed: any other text)"),
        (
            restart("{id: x, strategy: {type: Random}}"),
            "spec.restart.strategy.type: `Random` cannot be used (allowed: Sequential, Parallel)",
        ),
        (
            restart("{id: x, strategy: {type: Parallel, order: [a, b]}}"),
            "spec.restart.strategy.order: cannot be used with Parallel, which has no order",
        ),
        (
            restart("{id: x, strategy: {order: [a]}}"),
            "spec.restart.strategy.order: lacks b (allowed: every component once)",
        ),
        (
            restart("{id: x, strategy: {order: [a, b, c]}}"),
            "spec.restart.strategy.order[2]: `c` is no component of this graph",
        ),
        (restart("{id: x, strategy: {order: [a, b, B]}}"), "spec.restart.strategy.order[2]: `B` stands here twice"),
    ]);
}

#[test]
fn of_a_component() {
    let names = |text: &str| beta(&format!("{{components: [{text}]}}"));
    let long = format!("{{name: {}, type: frontend}}", "c".repeat(62));
    let long_frontend = format!(
        "spec.components[0].name: `{}`: with the graph's name its children's names have 64 characters (allowed: 63)",
        "c".repeat(62)
    );
    let worker_long = format!(
        "{{name: {}, type: worker, podTemplate: {{spec: {{containers: [{{name: main, args: [--model-path, m]}}]}}}}}}",
        "c".repeat(53)
    );
    let long_worker = format!(
        "spec.components[0].name: `{}`: with the graph's name and the workers' hash its children's names have 64 characters (allowed: 63)",
        "c".repeat(53)
    );
    let epp = "{name: a, type: epp, podTemplate: {spec: {containers: [{name: main, image: i}]}}}, {name: b, type: epp, podTemplate: {spec: {containers: [{name: main, image: i}]}}}";
    check(vec![
        (
            names("{name: a_b, type: frontend}"),
            "spec.components[0].name: `a_b` cannot be used (allowed: 1 to 63 letters, digits and hyphens, hyphens only inside)",
        ),
        (
            names("{name: '', type: frontend}"),
            "spec.components[0].name: `` cannot be used (allowed: 1 to 63 letters, digits and hyphens, hyphens only inside)",
        ),
        (
            names("{name: a, type: frontend}, {name: A, type: frontend}"),
            "spec.components[1].name: `A` is also the name of spec.components[0] (case does not count)",
        ),
        (
            names(
                "{name: w, type: worker, podTemplate: {spec: {containers: [{name: main, args: [--model-path, m]}]}}}, {name: W-0123abcd, type: frontend}",
            ),
            "spec.components[1].name: `W-0123abcd` may be the name of a generation of spec.components[0]",
        ),
        (
            names("{name: model-0123abcd, type: frontend}"),
            "spec.components[0].name: `model-0123abcd` may be the name of a Service for a model",
        ),
        (names(&long), &long_frontend),
        (names(&worker_long), &long_worker),
        (names(epp), "spec.components[1].type: `epp` is also the type of spec.components[0] (allowed: one)"),
        (
            names("{name: a, type: engine, podTemplate: {spec: {containers: [{name: main, image: i}]}}}"),
            "spec.components[0].type: `engine` cannot be used (allowed: frontend, worker, prefill, decode, planner, epp)",
        ),
        (component("replicas: -1"), "spec.components[0].replicas: -1 cannot be used (allowed: 0 and more)"),
        (component("minAvailable: -1"), "spec.components[0].minAvailable: -1 cannot be used (allowed: 0 and more)"),
        (
            component("multinode: {nodeCount: 4}"),
            "spec.components[0].multinode: 4 nodes per replica cannot be had: a component is one pod here. A simulated engine needs no more nodes for more ranks or GPUs (--data-parallel-size, --ais-tp-size); take `multinode` out",
        ),
        (
            component("sharedMemorySize: much"),
            "spec.components[0].sharedMemorySize: `much` cannot be used (allowed: a number with a suffix such as m, k, M, G, Ki, Mi or Gi)",
        ),
        (component("sharedMemorySize: '-1Gi'"), "spec.components[0].sharedMemorySize: `-1Gi` cannot be negative"),
        (component("modelRef: {name: ''}"), "spec.components[0].modelRef.name: missing"),
        (
            component("runtimeVersionOverride: '1.x'"),
            "spec.components[0].runtimeVersionOverride: `1.x` cannot be used (allowed: MAJOR.MINOR.PATCH)",
        ),
        (
            component("compilationCache: {pvcName: A, mountPath: /c}"),
            "spec.components[0].compilationCache.pvcName: `A` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)",
        ),
        (
            component("compilationCache: {pvcName: a, mountPath: c}"),
            "spec.components[0].compilationCache.mountPath: `c` cannot be used (allowed: an absolute path without a colon)",
        ),
        (names("{name: a}"), "spec.components[0].podTemplate.spec.containers: has no container, `main` is needed"),
        (
            names("{name: a, type: planner}"),
            "spec.components[0].podTemplate.spec.containers: has no container, `main` is needed",
        ),
        (
            names("{name: a, podTemplate: {spec: {containers: [{name: one, image: i}, {name: two, image: i}]}}}"),
            "spec.components[0].podTemplate.spec.containers: has no container `main`, and more than one",
        ),
        (
            annotated("dynosim/image-policy: mine"),
            "spec.components[0].podTemplate.metadata.annotations[dynosim/image-policy]: `mine` cannot be used (allowed: Mocker, Manifest)",
        ),
        (
            annotated("nvidia.com/deployment-rolling-update-max-surge: some"),
            "spec.components[0].podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]: `some` cannot be used (allowed: a number of pods, or a share from 0% to 100%)",
        ),
        (
            annotated("nvidia.com/deployment-rolling-update-max-unavailable: 101%"),
            "spec.components[0].podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-unavailable]: `101%` cannot be used (allowed: a number of pods, or a share from 0% to 100%)",
        ),
        (
            annotated(
                "nvidia.com/deployment-rolling-update-max-surge: 0%, nvidia.com/deployment-rolling-update-max-unavailable: '0'",
            ),
            "spec.components[0].podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]: 0 cannot be used while no pod may be unavailable either: nothing could change",
        ),
    ]);
}

#[test]
fn of_a_workers_flags() {
    let args = "spec.components[0].podTemplate.spec.containers[0].args";
    let rows = [
        (
            "--num-workers, '4'",
            "--num-workers: 4 workers of one pod would be one instance with kubernetes discovery, where the pod's name is the identity (allowed: 1; set `replicas` to 4 instead, or nvidia.com/dynamo-discovery-backend to etcd)",
        ),
        ("--num-workers, '0'", "--num-workers: `0` cannot be used (allowed: 1 to 4096)"),
        ("--num-workers=many", "--num-workers: `many` cannot be used (allowed: 1 to 4096)"),
        ("--data-parallel-size, '0'", "--data-parallel-size: `0` cannot be used (allowed: 1 to 1024)"),
        ("--disaggregation-mode, both", "--disaggregation-mode: `both` cannot be used (allowed: agg, prefill, decode)"),
        (
            "--disaggregation-mode, prefill, --is-prefill-worker",
            "--is-prefill-worker and --disaggregation-mode: give the latter only",
        ),
        (
            "--disaggregation-mode, prefill, --is-decode-worker",
            "--is-decode-worker and --disaggregation-mode: give the latter only",
        ),
        (
            "--is-prefill-worker, --is-decode-worker",
            "--is-prefill-worker and --is-decode-worker: a worker is one or the other",
        ),
        ("--stagger-delay, '-3'", "--stagger-delay: `-3` cannot be used (allowed: -1, or 0 to 86400 s)"),
        ("--stagger-delay, soon", "--stagger-delay: `soon` cannot be used (allowed: -1, or 0 to 86400 s)"),
        ("--bootstrap-ports, '0'", "--bootstrap-ports: `0` cannot be used (allowed: ports from 1 to 65535)"),
        ("--bootstrap-ports, '1,2'", "--bootstrap-ports: 2 ports for --num-workers 1 (allowed: one per worker)"),
        (
            "--zmq-kv-events-ports, '65535', --data-parallel-size, '2'",
            "--zmq-kv-events-ports: `65535` cannot be used (allowed: ports from 1 to 65534)",
        ),
        ("--zmq-replay-ports, x", "--zmq-replay-ports: `x` cannot be used (allowed: ports from 1 to 65535)"),
        (
            "--zmq-kv-events-ports, '5600', --zmq-replay-ports, '5601', --data-parallel-size, '2'",
            "--zmq-replay-ports: port 5601 is listened on twice in this pod (each rank takes one port)",
        ),
    ];
    for (given, message) in rows {
        assert_eq!(errors(&worker(given)), [format!("{args}: {message}")], "{given}");
    }
    let none = beta("{components: [{name: a, type: worker, podTemplate: {spec: {containers: [{name: main}]}}}]}");
    assert_eq!(
        errors(&none),
        [
            "spec.components[0].podTemplate.spec.containers[0].command: --model-path: missing, a worker needs a model folder or name"
        ]
    );
    let engines = |second: &str| {
        beta(&format!(
            "{{components: [{{name: a, type: worker, podTemplate: {{spec: {{containers: [{{name: main, args: [--model-path, m, --zmq-kv-events-ports, '5600', --data-parallel-size, '4']}}, {{name: b, command: [python3, -m, dynamo.mocker], args: [--model-path, m, {second}]}}]}}}}}}]}}"
        ))
    };
    assert_eq!(
        errors(&engines("--zmq-kv-events-ports, '5603'")),
        [
            "spec.components[0].podTemplate.spec.containers[1].args: --zmq-kv-events-ports: port 5603 is listened on spec.components[0].podTemplate.spec.containers[0] (each rank takes one port)"
        ]
    );
    assert_eq!(errors(&engines("--zmq-kv-events-ports, '5604'")), [""; 0]);
}

#[test]
fn of_a_pod() {
    let at = "spec.components[0].podTemplate.spec";
    let rows = [
        ("restartPolicy: Never", "restartPolicy: `Never` cannot be used (allowed: Always)".to_owned()),
        ("activeDeadlineSeconds: 5", "activeDeadlineSeconds: cannot be used: pods of a graph have no end".to_owned()),
        ("ephemeralContainers: [{name: e}]", "ephemeralContainers: cannot be used in a template".to_owned()),
        (
            "terminationGracePeriodSeconds: -1",
            "terminationGracePeriodSeconds: -1 cannot be used (allowed: 0 and more)".to_owned(),
        ),
        (
            "serviceAccountName: A_B",
            "serviceAccountName: `A_B` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)"
                .to_owned(),
        ),
        (
            "imagePullSecrets: [{name: ''}]",
            "imagePullSecrets[0].name: `` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)"
                .to_owned(),
        ),
        ("volumes: [{name: V}]", format!("volumes[0].name: `V` {LABEL}")),
        (
            "volumes: [{name: v}, {name: v}]",
            "volumes[1].name: `v` is also the name of another volume".to_owned(),
        ),
        (
            "volumes: [{name: v, secret: {}}]",
            "volumes[0].secret.secretName: `` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)"
                .to_owned(),
        ),
        (
            "volumes: [{name: v, emptyDir: {}, configMap: {name: c}}]",
            "volumes[0]: comes from configMap and emptyDir (allowed: one source)".to_owned(),
        ),
        (
            "volumes: [{name: shared-memory}]",
            "volumes[0].name: `shared-memory` is the name of a volume that the operator adds".to_owned(),
        ),
        (
            "initContainers: [{name: main, image: i}]",
            "initContainers[0].name: `main` is also the name of another container".to_owned(),
        ),
        (
            "initContainers: [{name: i, image: i, livenessProbe: {tcpSocket: {port: 1}}}]",
            "initContainers[0].livenessProbe: an init container that ends has no probes".to_owned(),
        ),
    ];
    for (given, message) in rows {
        assert_eq!(errors(&pod(given)), [format!("{at}.{message}")], "{given}");
    }
    let two = beta(
        "{components: [{name: a, podTemplate: {spec: {containers: [{name: main, image: i}, {name: X, image: i}]}}}]}",
    );
    assert_eq!(errors(&two), [format!("{at}.containers[1].name: `X` {LABEL}")]);
    let same = beta(
        "{components: [{name: a, podTemplate: {spec: {containers: [{name: main, image: i}, {name: main, image: i}]}}}]}",
    );
    assert_eq!(errors(&same), [format!("{at}.containers[1].name: `main` is also the name of another container")]);
    let sidecar = beta(
        "{components: [{name: a, type: frontend, podTemplate: {spec: {containers: [{name: main}, {name: x, command: [nginx]}]}}}]}",
    );
    assert_eq!(errors(&sidecar), [format!("{at}.containers[1].image: missing: `nginx` runs from its own image")]);
}

#[test]
fn of_a_container() {
    let at = "spec.components[0].podTemplate.spec.containers[0]";
    let rows = [
        ("env: [{name: ''}]", "env[0].name: `` cannot be used (allowed: printable ASCII characters except `=`)"),
        (
            "env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
            "env[0].valueFrom: cannot be used beside `value`",
        ),
        (
            "env: [{name: A, valueFrom: {}}]",
            "env[0].valueFrom: names no source (allowed: one of fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef)",
        ),
        (
            "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: s, key: k}}}]",
            "env[0].valueFrom: names more than one source",
        ),
        (
            "env: [{name: A, valueFrom: {secretKeyRef: {name: '', key: k}}}]",
            "env[0].valueFrom.secretKeyRef.name: `` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)",
        ),
        (
            "env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: ''}}}]",
            "env[0].valueFrom.configMapKeyRef.key: missing",
        ),
        ("envFrom: [{}]", "envFrom[0]: names no source (allowed: configMapRef or secretRef)"),
        (
            "envFrom: [{secretRef: {name: a}, configMapRef: {name: b}}]",
            "envFrom[0]: names both configMapRef and secretRef (allowed: one of them)",
        ),
        (
            "envFrom: [{secretRef: {name: ''}}]",
            "envFrom[0].secretRef.name: `` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)",
        ),
        ("ports: [{containerPort: 0}]", "ports[0].containerPort: 0 cannot be used (allowed: 1 to 65535)"),
        ("ports: [{containerPort: 70000}]", "ports[0].containerPort: 70000 cannot be used (allowed: 1 to 65535)"),
        (
            "ports: [{containerPort: 1, protocol: HTTP}]",
            "ports[0].protocol: `HTTP` cannot be used (allowed: TCP, UDP, SCTP)",
        ),
        ("ports: [{containerPort: 1}, {containerPort: 1}]", "ports[1].containerPort: 1 stands here twice"),
        (
            "ports: [{containerPort: 1, name: A}]",
            "ports[0].name: `A` cannot be used (allowed: 1 to 15 lower-case letters, digits and single hyphens inside, at least one letter)",
        ),
        ("ports: [{containerPort: 1, name: a}, {containerPort: 2, name: a}]", "ports[1].name: `a` stands here twice"),
        ("volumeMounts: [{name: w, mountPath: /w}]", "volumeMounts[0].name: `w` is no volume of this pod"),
        ("volumeMounts: [{name: v, mountPath: ''}]", "volumeMounts[0].mountPath: missing"),
        ("volumeMounts: [{name: v, mountPath: '/a:b'}]", "volumeMounts[0].mountPath: `/a:b` cannot have a colon"),
        (
            "volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}]",
            "volumeMounts[1].mountPath: `/a` is mounted twice",
        ),
        (
            "volumeMounts: [{name: v, mountPath: /a, subPath: ../b}]",
            "volumeMounts[0].subPath: `../b` cannot lead out of the volume",
        ),
        ("livenessProbe: {}", "livenessProbe: asks nothing (allowed: one of httpGet, tcpSocket, grpc, exec)"),
        (
            "readinessProbe: {tcpSocket: {port: 1}, exec: {command: [a]}}",
            "readinessProbe: asks in more than one way (allowed: one of httpGet, tcpSocket, grpc, exec)",
        ),
        (
            "livenessProbe: {httpGet: {port: 0}}",
            "livenessProbe.httpGet.port: 0 cannot be used (allowed: 1 to 65535, or the name of a port)",
        ),
        (
            "livenessProbe: {tcpSocket: {port: A}}",
            "livenessProbe.tcpSocket.port: `A` cannot be used (allowed: 1 to 15 lower-case letters, digits and single hyphens inside, at least one letter)",
        ),
        (
            "startupProbe: {tcpSocket: {port: 1}, periodSeconds: -1}",
            "startupProbe.periodSeconds: -1 cannot be used (allowed: 0 and more)",
        ),
        (
            "livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}",
            "livenessProbe.successThreshold: can only be 1 here",
        ),
        (
            "resources: {limits: {cpu: lots}}",
            "resources.limits[cpu]: `lots` cannot be used (allowed: a number with a suffix such as m, k, M, G, Ki, Mi or Gi)",
        ),
        ("resources: {requests: {memory: '-1Gi'}}", "resources.requests[memory]: `-1Gi` cannot be negative"),
        (
            "imagePullPolicy: Sometimes",
            "imagePullPolicy: `Sometimes` cannot be used (allowed: Always, IfNotPresent, Never)",
        ),
    ];
    for (given, message) in rows {
        assert_eq!(errors(&container(given)), [format!("{at}.{message}")], "{given}");
    }
    let no_image = beta("{components: [{name: a, podTemplate: {spec: {containers: [{name: main}]}}}]}");
    assert_eq!(errors(&no_image), [format!("{at}.image: missing: nothing runs from its own image")]);
    let own = beta("{annotations: {dynosim/image-policy: Manifest}, components: [{name: a, type: frontend}]}");
    assert_eq!(errors(&own), [format!("{at}.image: missing: dynamo.frontend runs from its own image")]);
}

#[test]
fn of_what_only_the_older_version_has() {
    let claims = |text: &str| alpha(&format!("{{pvcs: [{text}], services: {{a: {{componentType: frontend}}}}}}"));
    let ingress = |text: &str| alpha(&format!("{{services: {{a: {{componentType: frontend, ingress: {text}}}}}}}"));
    check(vec![
        (
            claims("{name: A}"),
            "spec.pvcs[0].name: `A` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)",
        ),
        (
            claims("{name: a, create: true, storageClass: s, volumeAccessMode: ReadWriteOnce}"),
            "spec.pvcs[0].size: missing, a claim that is created needs it",
        ),
        (
            claims("{name: a, create: true, size: 1Gi, volumeAccessMode: ReadWriteOnce}"),
            "spec.pvcs[0].storageClass: missing, a claim that is created needs it",
        ),
        (
            claims("{name: a, create: true, size: 1Gi, storageClass: s}"),
            "spec.pvcs[0].volumeAccessMode: missing, a claim that is created needs it",
        ),
        (
            claims("{name: a, create: true, size: big, storageClass: s, volumeAccessMode: ReadWriteOnce}"),
            "spec.pvcs[0].size: `big` cannot be used (allowed: a number with a suffix such as m, k, M, G, Ki, Mi or Gi)",
        ),
        (
            claims("{name: a, create: true, size: 1Gi, storageClass: s, volumeAccessMode: Mine}"),
            "spec.pvcs[0].volumeAccessMode: `Mine` cannot be used (allowed: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod)",
        ),
        (claims("{name: a}, {name: a}"), "spec.pvcs[1].name: `a` stands here twice"),
        (ingress("{enabled: true}"), "spec.services.a.ingress.host: missing, an ingress that is enabled needs it"),
        (
            ingress("{enabled: true, host: A_b}"),
            "spec.services.a.ingress.host: `A_b.local` cannot be used (allowed: 1 to 253 lower-case letters, digits, hyphens and dots)",
        ),
    ]);
}

#[test]
fn all_errors_are_told_at_once() {
    let graph = beta(
        "{backendFramework: x, env: [{name: ''}], components: [
            {name: A_, replicas: -1, podTemplate: {spec: {containers: [{name: main, ports: [{containerPort: 0}]}]}}},
            {name: b, type: prefill, multinode: {}, podTemplate: {spec: {containers: [{name: main, args: [--num-workers, '2']}]}}},
            {name: c}]}",
    );
    let found: Vec<_> =
        errors(&graph).iter().map(|error| error.split(": ").next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        found,
        [
            "spec.env[0].name",
            "spec.backendFramework",
            "spec.components[0].name",
            "spec.components[0].podTemplate.spec.containers[0].ports[0].containerPort",
            "spec.components[0].podTemplate.spec.containers[0].image",
            "spec.components[0].replicas",
            "spec.components[1].multinode",
            "spec.components[1].podTemplate.spec.containers[0].args",
            "spec.components[2].podTemplate.spec.containers",
        ]
    );
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let warnings = |graph: &DynamoGraphDeployment| -> Vec<String> {
        let valid = validate(graph, &Config::default()).unwrap_or_else(|invalid| panic!("{invalid}"));
        valid.warnings.iter().map(ToString::to_string).collect()
    };
    for (graph, message) in vec![
        (component("minAvailable: 1"), "spec.components[0].minAvailable: has no effect here, it is kept"),
        (component("roles: {}"), "spec.components[0].roles: has no effect here, it is kept"),
        (component("frontendSidecar: x"), "spec.components[0].frontendSidecar: has no effect here, it is kept"),
        (component("experimental: {}"), "spec.components[0].experimental: has no effect here, it is kept"),
        (component("news: 1"), "spec.components[0].news: is not known here, it is kept"),
        (
            beta("{topologyConstraint: {}, components: [{name: a, type: frontend}]}"),
            "spec.topologyConstraint: has no effect here, it is kept",
        ),
        (beta("{later: 1, components: [{name: a, type: frontend}]}"), "spec.later: is not known here, it is kept"),
        (
            graph_annotation("nvidia.com/enable-grove", "true"),
            "metadata.annotations[nvidia.com/enable-grove]: Grove is not driven by this operator, components become Deployments",
        ),
        (
            graph_annotation("nvidia.com/dynamo-discovery-backend", "etcd"),
            "metadata.annotations[nvidia.com/dynamo-discovery-backend]: etcd: the operator knows no address, each component needs ETCD_ENDPOINTS",
        ),
        (
            annotated("nvidia.com/dynamo-discovery-backend: etcd"),
            "spec.components[0].podTemplate.metadata.annotations[nvidia.com/dynamo-discovery-backend]: has no effect on one component, set it on the graph",
        ),
        (
            annotated("nvidia.com/deployment-rolling-update-max-surge: '0'"),
            "spec.components[0].podTemplate.metadata.annotations[nvidia.com/deployment-rolling-update-max-surge]: 0: a component with one replica has no pod for a while in each update",
        ),
        (
            beta("{labels: {nvidia.com/selector: x}, components: [{name: a, type: frontend}]}"),
            "spec.labels[nvidia.com/selector]: is set by the operator, this value has no effect",
        ),
        (
            beta("{components: [{name: a, podTemplate: {spec: {containers: [{name: other, image: i}]}}}]}"),
            "spec.components[0].podTemplate.spec.containers[0].name: `other` is taken for `main`, the container of the component",
        ),
        (
            container("env: [{name: A, value: a}, {name: A, value: b}]"),
            "spec.components[0].podTemplate.spec.containers[0].env[1].name: `A` stands here twice, the last one counts",
        ),
        (
            beta(
                "{env: [{name: DYN_SYSTEM_PORT, value: '-1'}], components: [{name: a, type: worker, podTemplate: {spec: {containers: [{name: main, args: [--model-path, m]}]}}}]}",
            ),
            "spec.components[0].podTemplate.spec.containers: DYN_SYSTEM_PORT is off: without probes, pods count as ready when they run",
        ),
        (
            alpha(
                "{services: {a: {componentType: frontend, ingress: {enabled: true, host: a, useVirtualService: true}}}}",
            ),
            "spec.services.a.ingress.useVirtualService: Istio is not driven by this operator, there is an Ingress in its place",
        ),
        (
            alpha("{services: {a: {componentType: frontend, dynamoNamespace: x}}}"),
            "spec.services.a.dynamoNamespace: is deprecated and has no effect, the graph's is used",
        ),
        (
            alpha("{services: {a: {componentType: frontend, autoscaling: {enabled: true}}}}"),
            "spec.services.a.autoscaling: is deprecated and has no effect, use scalingAdapter",
        ),
        (
            worker("--is-prefill-worker"),
            "spec.components[0].podTemplate.spec.containers[0].args: --is-prefill-worker is deprecated, use --disaggregation-mode prefill",
        ),
    ] {
        assert_eq!(warnings(&graph), [message]);
    }
}
