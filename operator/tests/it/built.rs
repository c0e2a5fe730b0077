//! Single rules of the objects, each where it is easy to see.

use dynosim_operator::{Config, Observed, build};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, PodSpec};

use crate::manifests::{children, graph, shape, valid};

fn deployment(yaml: &str, component: &str) -> Deployment {
    let built = children(&graph(yaml));
    let named = |one: &&Deployment| {
        one.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get("nvidia.com/dynamo-component"))
            .is_some_and(|name| name == component)
    };
    built.deployments.iter().find(named).unwrap_or_else(|| panic!("no {component}")).clone()
}

fn pod(yaml: &str, component: &str) -> PodSpec {
    deployment(yaml, component).spec.expect("a spec").template.spec.expect("a pod")
}

fn main_container(yaml: &str, component: &str) -> Container {
    pod(yaml, component).containers.remove(0)
}

/// A graph with one component: its type and its main container's fields.
fn one(kind: &str, fields: &str) -> String {
    format!(
        "{{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {{name: g}}, spec: {{components: [{{name: a, {kind} podTemplate: {{spec: {{containers: [{{name: main, {fields}}}]}}}}}}]}}}}"
    )
}

fn words(list: Option<&Vec<String>>) -> String {
    list.map(|list| list.join(" ")).unwrap_or_default()
}

fn env(container: &Container, name: &str) -> Option<String> {
    let found = container.env.iter().flatten().find(|variable| variable.name == name)?;
    let field = found.value_from.as_ref().and_then(|source| source.field_ref.as_ref());
    found.value.clone().or_else(|| field.map(|field| field.field_path.clone()))
}

#[test]
fn arguments_alone_keep_the_command_of_the_type() {
    let mocker = "python3 -m dynamo.mocker";
    let frontend = "python3 -m dynamo.frontend";
    for (kind, fields, command, args) in [
        ("type: frontend,", "args: [--router-mode, random]", frontend, "--router-mode random"),
        ("type: frontend,", "image: i", frontend, ""),
        ("type: worker,", "args: [--model-path, m]", mocker, "--model-path m"),
        (
            "type: worker,",
            "command: [sh, -c, 'exec python3 -m dynamo.mocker --model-path m']",
            mocker,
            "--model-path m",
        ),
        (
            "type: worker,",
            "command: [/opt/bin/python3.12, -u, -m, dynamo.mocker], args: [--model-path, m]",
            mocker,
            "--model-path m",
        ),
        ("type: worker,", "args: [--model-path, $(DYN_NAMESPACE)]", mocker, "--model-path $(DYN_NAMESPACE)"),
        ("type: worker,", "image: i, command: [python3, -m, dynamo.vllm], args: [x]", "python3 -m dynamo.vllm", "x"),
        ("", "image: i, args: ['a && b']", "/bin/sh -c", "a && b"),
        ("", "image: i", "", ""),
        ("type: planner,", "image: i, args: [x]", "", "x"),
    ] {
        let built = main_container(&one(kind, fields), "a");
        assert_eq!(
            (words(built.command.as_ref()).as_str(), words(built.args.as_ref()).as_str()),
            (command, args),
            "{kind} {fields}"
        );
    }
}

#[test]
fn the_stagger_is_the_operators_and_not_the_pods() {
    let worker = |stagger: &str| {
        one("type: worker, replicas: 6,", &format!("args: [--model-path, m, --stagger-delay, '{stagger}']"))
    };
    let replicas = |yaml: &str| deployment(yaml, "a").spec.expect("a spec").replicas;
    for (stagger, expected) in [("-1", 6), ("0", 6), ("0.4", 3), ("5", 1)] {
        let yaml = worker(stagger);
        assert_eq!(replicas(&yaml), Some(expected), "{stagger}");
        assert_eq!(words(main_container(&yaml, "a").args.as_ref()), "--model-path m");
    }
    // Other components start at once, however many there are.
    assert_eq!(replicas(&one("type: frontend, replicas: 200,", "image: i")), Some(200));
    let graph = graph(&worker("5"));
    let valid = valid(&graph, &Config::default()).expect("valid");
    let built = build(&valid.graph, &Observed::default(), &Config::default());
    assert_eq!(built.wait, Some(std::time::Duration::from_secs(5)));
}

#[test]
fn environment_has_four_layers_of_which_the_last_wins() {
    let yaml = "
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  env: [{name: DYN_COMPONENT, value: graph}, {name: DYN_SYSTEM_ENABLED, value: graph}, {name: DYN_NAMESPACE, value: graph}, {name: MINE, value: graph}]
  components:
    - name: a
      type: worker
      podTemplate: {spec: {containers: [{name: main, args: [--model-path, m], env: [{name: DYN_NAMESPACE, value: container}, {name: DYN_HEALTH_CHECK_ENABLED, value: container}]}]}}
";
    let built = main_container(yaml, "a");
    for (name, value) in [
        ("POD_UID", "metadata.uid"),               // common
        ("NIXL_TELEMETRY_ENABLE", "n"),            // type
        ("DYN_COMPONENT", "graph"),                // graph over common
        ("DYN_SYSTEM_ENABLED", "graph"),           // graph over type
        ("MINE", "graph"),                         // graph
        ("DYN_NAMESPACE", "container"),            // container over graph over common
        ("DYN_HEALTH_CHECK_ENABLED", "container"), // container over type
    ] {
        assert_eq!(env(&built, name).as_deref(), Some(value), "{name}");
    }
    let names: Vec<_> = built.env.iter().flatten().map(|variable| variable.name.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
}

#[test]
fn every_address_that_is_told_to_others_is_the_pods() {
    let yaml = shape("disagg.yaml");
    for component in ["Frontend", "decode", "prefill"] {
        let built = main_container(&yaml, component);
        for name in ["DYN_TCP_RPC_HOST", "DYN_HTTP_RPC_HOST", "DYN_EVENT_PLANE_HOST"] {
            assert_eq!(env(&built, name).as_deref(), Some("status.podIP"), "{component} {name}");
        }
    }
    assert_eq!(env(&main_container(&yaml, "decode"), "DYN_SYSTEM_HOST").as_deref(), Some("status.podIP"));
}

#[test]
fn only_prefill_workers_by_their_arguments_get_a_bootstrap_port() {
    for (args, port) in [
        ("", None),
        ("--disaggregation-mode, decode", None),
        ("--disaggregation-mode, prefill", Some(25100)),
        ("--is-prefill-worker", Some(25100)),
        ("--disaggregation-mode, prefill, --bootstrap-ports, '7000'", Some(7000)),
    ] {
        let built = main_container(&one("type: decode,", &format!("args: [--model-path, m, {args}]")), "a");
        let declared = built.ports.iter().flatten().find(|port| port.name.as_deref() == Some("bootstrap"));
        assert_eq!(declared.map(|port| port.container_port), port, "{args}");
        let given = words(built.args.as_ref());
        assert_eq!(given.matches("--bootstrap-ports").count(), usize::from(port.is_some()), "{given}");
    }
}

#[test]
fn the_system_port_follows_flags_environment_and_declared_ports() {
    for (kind, fields, name, port) in [
        ("type: worker,", "args: [--model-path, m]", "system", 9090),
        ("type: worker,", "args: [--model-path, m], env: [{name: DYN_SYSTEM_PORT, value: '9191'}]", "system", 9191),
        ("type: worker,", "args: [--model-path, m], ports: [{name: system, containerPort: 9292}]", "system", 9292),
        ("type: frontend,", "args: [--http-port, '8080']", "http", 8080),
        ("type: frontend,", "env: [{name: DYN_HTTP_PORT, value: '8081'}]", "http", 8081),
        ("type: frontend,", "ports: [{name: web, containerPort: 8000}]", "web", 8000),
    ] {
        let yaml = one(kind, fields);
        let built = main_container(&yaml, "a");
        let declared = built.ports.iter().flatten().find(|declared| declared.name.as_deref() == Some(name));
        assert_eq!(declared.map(|declared| declared.container_port), Some(port), "{fields}");
        let probe = built.readiness_probe.and_then(|probe| probe.http_get).expect("a probe");
        let service =
            children(&graph(&yaml)).services.remove(0).spec.and_then(|spec| spec.ports).expect("ports").remove(0);
        assert_eq!(Some(&probe.port), service.target_port.as_ref());
        assert_eq!(probe.port, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(name.to_owned()));
    }
}

#[test]
fn a_stand_in_needs_no_gpu_no_secret_and_no_root() {
    let fields = "image: i, args: [--model-path, m], resources: {limits: {nvidia.com/gpu: '1'}}, envFrom: [{secretRef: {name: s}}]";
    let built = main_container(&one("type: worker,", fields), "a");
    assert_eq!(built.image.as_deref(), Some("dynosim:test"));
    assert_eq!(built.resources, None);
    assert_eq!(built.env_from.expect("sources")[0].secret_ref.as_ref().and_then(|secret| secret.optional), Some(true));
    let security = built.security_context.expect("a context");
    assert_eq!((security.run_as_non_root, security.read_only_root_filesystem), (Some(true), Some(true)));
    // What is not simulated keeps all of it.
    let fields = fields.replace("args:", "command: [python3, -m, dynamo.vllm], args:");
    let kept = main_container(&one("type: worker,", &fields), "a");
    assert_eq!(kept.image.as_deref(), Some("i"));
    assert!(kept.resources.is_some() && kept.security_context.is_none());
    assert_eq!(kept.env_from.expect("sources")[0].secret_ref.as_ref().and_then(|secret| secret.optional), None);
}

#[test]
fn the_adapter_decides_about_replicas_once_it_exists() {
    let mut observed = Observed::default();
    observed.adapters.insert("a".to_owned(), 3);
    let replicas = |yaml: &str, observed: &Observed| {
        let config = Config::default();
        let valid = valid(&graph(yaml), &config).expect("valid");
        let built = build(&valid.graph, observed, &config);
        (built.children.deployments[0].spec.as_ref().and_then(|spec| spec.replicas), built.children.adapters.len())
    };
    let with = one("type: frontend, replicas: 1, scalingAdapter: {},", "image: i");
    assert_eq!(replicas(&with, &observed), (Some(3), 1));
    assert_eq!(replicas(&with, &Observed::default()), (Some(1), 1));
    // One that is left over from before does not.
    assert_eq!(replicas(&one("type: frontend, replicas: 1,", "image: i"), &observed), (Some(1), 0));
}

#[test]
fn all_kinds_of_children_are_known_to_pruning() {
    use dynosim_operator::kinds::OWNED;
    let mut kinds = std::collections::BTreeSet::new();
    for name in ["everything.yaml", "alpha-only.yaml"] {
        let objects = crate::manifests::objects(&children(&graph(&shape(name))));
        kinds.extend(objects.iter().map(|object| {
            let text = |key: &str| object[key].as_str().expect("text").to_owned();
            (text("apiVersion"), text("kind"))
        }));
    }
    kinds.insert(("monitoring.coreos.com/v1".to_owned(), "PodMonitor".to_owned()));
    let owned = OWNED.iter().map(|owned| (owned.resource().api_version, owned.kind.to_owned())).collect();
    assert_eq!(kinds, owned);
}
