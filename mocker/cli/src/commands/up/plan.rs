//! From a manifest to the parts that run: replicas, namespaces, environment and ports, as the operator would give them.

use std::collections::BTreeMap;
use std::time::Duration;

use dynosim_api::expand::expand;
use dynosim_api::{Component, EnvVar, Graph, Invocation, Program, flags};

use super::ports::Ports;
use crate::failure::Failure;

/// Kubernetes namespace of a manifest that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// Most replicas of a component on one machine.
const MAX_REPLICAS: i32 = 1000;

/// One replica of a component.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// `graph/component-index`.
    pub(crate) label: String,
    /// What runs.
    pub(crate) program: Program,
    /// Its flags.
    pub(crate) flags: Vec<String>,
    /// Its environment.
    pub(crate) env: BTreeMap<String, String>,
    /// How long after the start of `up` it begins (stagger).
    pub(crate) delay: Duration,
}

/// Everything that a manifest asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// What runs, frontends first.
    pub(crate) parts: Vec<Part>,
    /// What is said about the rest.
    pub(crate) notes: Vec<String>,
}

/// Settings of the command that the plan needs.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where frontends listen.
    pub(crate) http_host: String,
    /// Port of the first frontend, the next ones count on; 0: any.
    pub(crate) http_port: u16,
    /// `component=N` of the command line.
    pub(crate) replicas: BTreeMap<String, u32>,
}

/// Plans all graphs.
pub(crate) fn plan(graphs: &[Graph], settings: &Settings) -> Result<Plan, Failure> {
    let mut planner = Planner { settings, ports: Ports::new(), frontends: 0, plan: Plan::default() };
    let known = |name: &String| graphs.iter().any(|graph| graph.components.iter().any(|c| c.name == *name));
    if let Some(name) = settings.replicas.keys().find(|name| !known(name)) {
        return Err(Failure::input(format_args!("--replicas {name}: no component of the manifest has this name")));
    }
    for graph in graphs {
        for component in &graph.components {
            planner.component(graph, component)?;
        }
    }
    let mut plan = planner.plan;
    plan.parts.sort_by_key(|part| part.program != Program::Frontend);
    if plan.parts.is_empty() {
        return Err(Failure::input(
            "the manifest has no component that can run here (frontends and mocker workers can)",
        ));
    }
    Ok(plan)
}

struct Planner<'a> {
    settings: &'a Settings,
    ports: Ports,
    frontends: u16,
    plan: Plan,
}

impl Planner<'_> {
    fn component(&mut self, graph: &Graph, component: &Component) -> Result<(), Failure> {
        let label = format!("{}/{}", graph.name, component.name);
        let replicas = match self.settings.replicas.get(&component.name) {
            Some(&replicas) => i32::try_from(replicas).unwrap_or(i32::MAX),
            None => component.replicas.unwrap_or(1),
        };
        if replicas > MAX_REPLICAS {
            return Err(Failure::input(format_args!(
                "{label}: {replicas} replicas, {MAX_REPLICAS} are allowed on one machine"
            )));
        }
        for index in 0..replicas as u16 {
            let pod = format!("{}-{}-{index}", graph.name, component.name.to_ascii_lowercase());
            let mut env = base_environment(graph, component, &pod);
            if index == 0 {
                self.note_unresolved(&label, component, &env);
            }
            for variable in &component.env {
                if let Some(value) = value(variable, &env) {
                    env.insert(variable.name.clone(), value);
                }
            }
            let (program, flags) = match Invocation::of_component(component, |word| expand(word, &env)) {
                Invocation::Ours(program, flags) => (program, flags),
                other => return self.foreign(&label, component, &other.describe()),
            };
            let mut part = Part { label: format!("{label}-{index}"), program, flags, env, delay: stagger(index) };
            match program {
                Program::Frontend => self.frontend(&mut part),
                Program::Mocker => self.worker(&mut part, index)?,
            }
            shift_system_port(&mut part, index)?;
            self.plan.parts.push(part);
        }
        if replicas == 0 {
            self.plan.notes.push(format!("{label}: 0 replicas"));
        }
        Ok(())
    }

    /// A component of another program: workers and frontends are needed, everything else can be left out.
    fn foreign(&mut self, label: &str, component: &Component, what: &str) -> Result<(), Failure> {
        let kind = &component.component_type;
        if kind.is_worker() || kind.name() == "frontend" {
            return Err(Failure::input(format_args!(
                "{label}: a {} that runs {what} cannot be simulated (allowed: dynamo.mocker, dynamo.frontend, or no command)",
                kind.name()
            )));
        }
        self.plan.notes.push(format!("{label}: left out, it runs {what}"));
        Ok(())
    }

    fn note_unresolved(&mut self, label: &str, component: &Component, env: &BTreeMap<String, String>) {
        for variable in component.env.iter().filter(|variable| value(variable, env).is_none()) {
            self.plan.notes.push(format!("{label}: {} is not set, its source exists in a cluster only", variable.name));
        }
    }

    fn frontend(&mut self, part: &mut Part) {
        let http = match self.settings.http_port {
            0 => 0,
            first => first.saturating_add(self.frontends),
        };
        self.frontends += 1;
        part.env.entry("DYN_HTTP_PORT".to_owned()).or_insert(http.to_string());
        if flags::value_of(&part.flags, "--http-host").is_none() {
            part.flags.extend(["--http-host".to_owned(), self.settings.http_host.clone()]);
        }
    }

    /// Ports that pods would each have for themselves are spread over one machine.
    fn worker(&mut self, part: &mut Part, index: u16) -> Result<(), Failure> {
        let count = |name: &str| flags::value_of(&part.flags, name).and_then(|text| text.parse::<u16>().ok());
        let (workers, ranks) = (count("--num-workers").unwrap_or(1), count("--data-parallel-size").unwrap_or(1));
        for name in ["--bootstrap-ports", "--zmq-kv-events-ports", "--zmq-replay-ports"] {
            let Some(list) = flags::value_of(&part.flags, name).map(str::to_owned) else { continue };
            let shifted = shift(&part.label, name, &list, u32::from(index) * u32::from(workers) * u32::from(ranks))?;
            flags::replace_value(&mut part.flags, name, &shifted);
        }
        let prefill = flags::worker_mode(&part.flags) == "prefill";
        if prefill && flags::value_of(&part.flags, "--bootstrap-ports").is_none() {
            let ports: Option<Vec<_>> = (0..workers).map(|_| self.ports.take(ranks)).collect();
            let Some(ports) = ports else { return Err(Failure::io("no free ports for the hand-over of KV")) };
            let list: Vec<_> = ports.iter().map(u16::to_string).collect();
            part.flags.extend(["--bootstrap-ports".to_owned(), list.join(",")]);
        }
        Ok(())
    }
}

/// A list of ports, each `offset` further on, for a replica that is not the first.
fn shift(label: &str, name: &str, list: &str, offset: u32) -> Result<String, Failure> {
    let one = |text: &str| {
        let port: u16 = text.trim().parse().ok()?;
        u16::try_from(u32::from(port) + offset).ok().map(|port| port.to_string())
    };
    let ports: Option<Vec<_>> = list.split(',').map(one).collect();
    let refuse = || {
        Failure::input(format_args!(
            "{label}: {name} `{list}`: each replica counts on from these, and not all are ports then"
        ))
    };
    ports.map(|ports| ports.join(",")).ok_or_else(refuse)
}

/// Replicas of one machine cannot share the port that each pod has for itself.
fn shift_system_port(part: &mut Part, index: u16) -> Result<(), Failure> {
    match part.env.get("DYN_SYSTEM_PORT").map(String::as_str) {
        None | Some("-1" | "0" | "") => Ok(()),
        Some(first) => {
            let shifted = shift(&part.label, "DYN_SYSTEM_PORT", first, u32::from(index))?;
            part.env.insert("DYN_SYSTEM_PORT".to_owned(), shifted);
            Ok(())
        }
    }
}

/// When replica `index` of a component starts: at once up to 32, 0.1 s apart up to 128, 0.2 s beyond, with 2 s after
/// each 32 (`dynamo.mocker` 1.6.1, `--stagger-delay -1`, there for the workers of one process).
fn stagger(index: u16) -> Duration {
    const GROUP: u32 = 32;
    const GROUP_PAUSE: Duration = Duration::from_secs(2);
    let index = u32::from(index);
    let apart = match index {
        0..32 => Duration::ZERO,
        32..128 => Duration::from_millis(100),
        _ => Duration::from_millis(200),
    };
    apart * index + GROUP_PAUSE * (index / GROUP)
}

/// What the operator sets in every component.
fn base_environment(graph: &Graph, component: &Component, pod: &str) -> BTreeMap<String, String> {
    let kubernetes = graph.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let namespace =
        if component.global_namespace { "dynamo".to_owned() } else { format!("{kubernetes}-{}", graph.name) };
    let mut env = BTreeMap::from(
        [
            ("DYN_NAMESPACE", namespace.as_str()),
            ("DYN_COMPONENT", component.component_type.name()),
            ("DYN_PARENT_DGD_K8S_NAME", &graph.name),
            ("DYN_PARENT_DGD_K8S_NAMESPACE", kubernetes),
            ("POD_NAME", pod),
            ("POD_NAMESPACE", kubernetes),
            ("POD_UID", pod),
            ("POD_IP", "127.0.0.1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    if component.component_type.name() == "frontend" {
        env.insert("DYN_NAMESPACE_PREFIX".to_owned(), namespace);
        env.insert("DYN_NAMESPACE_PREFIX_STRICT".to_owned(), "true".to_owned());
    }
    env
}

/// What a variable is set to; none if only a cluster knows.
fn value(variable: &EnvVar, env: &BTreeMap<String, String>) -> Option<String> {
    let Some(source) = &variable.value_from else {
        return Some(expand(variable.value.as_deref().unwrap_or_default(), env));
    };
    let name = match source.field_ref.as_ref()?.field_path.as_str() {
        "metadata.name" => "POD_NAME",
        "metadata.namespace" => "POD_NAMESPACE",
        "metadata.uid" => "POD_UID",
        "status.podIP" | "status.hostIP" => "POD_IP",
        _ => return None,
    };
    env.get(name).cloned()
}

#[cfg(test)]
mod tests {
    use dynosim_api::Manifest;

    use super::*;

    fn planned(yaml: &str, replicas: &[(&str, u32)]) -> Result<Plan, String> {
        let manifest = Manifest::read(yaml).expect("a manifest");
        let graphs: Vec<_> = manifest.graphs.iter().map(dynosim_api::manifest::Resource::graph).collect();
        let replicas = replicas.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let settings = Settings { http_host: "127.0.0.1".to_owned(), http_port: 8000, replicas };
        plan(&graphs, &settings).map_err(|failure| failure.to_string())
    }

    const DISAGG: &str = "
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  envs: [{name: SPEED, value: '10'}, {name: BOTH, value: graph}]
  services:
    Frontend: {componentType: frontend, replicas: 2}
    decode:
      componentType: worker
      subComponentType: decode
      envs: [{name: BOTH, value: service}]
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.mocker]
          args: [--model-path, m, --disaggregation-mode, decode, --speedup-ratio, $(SPEED)]
          env: [{name: BOTH, value: container}, {name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    prefill:
      componentType: worker
      subComponentType: prefill
      replicas: 2
      extraPodSpec:
        mainContainer:
          command: [python3, -m, dynamo.mocker]
          args: [--model-path, m, --is-prefill-worker, --data-parallel-size, '2', --zmq-kv-events-ports, '5600']
    Planner: {componentType: planner, extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.planner]}}}
";

    #[test]
    fn replicas_get_the_environment_and_ports_that_pods_would_have() {
        let plan = planned(DISAGG, &[]).expect("a plan");
        let labels: Vec<_> = plan.parts.iter().map(|part| part.label.as_str()).collect();
        assert_eq!(labels, ["g/Frontend-0", "g/Frontend-1", "g/decode-0", "g/prefill-0", "g/prefill-1"]);
        assert_eq!(plan.notes, ["g/Planner: left out, it runs dynamo.planner"]);
        let part = |label: &str| plan.parts.iter().find(|part| part.label == label).expect("planned");
        assert_eq!(part("g/Frontend-1").env["DYN_HTTP_PORT"], "8001");
        assert_eq!(part("g/Frontend-1").env["DYN_NAMESPACE_PREFIX"], "default-g");
        let decode = part("g/decode-0");
        assert_eq!(decode.env["BOTH"], "service");
        assert_eq!(decode.env["ME"], "g-decode-0");
        assert_eq!(decode.env["DYN_NAMESPACE"], "default-g");
        assert_eq!(decode.flags.last().map(String::as_str), Some("10"));
        assert_eq!(flags::value_of(&decode.flags, "--bootstrap-ports"), None);
        let bootstrap = |label| flags::value_of(&part(label).flags, "--bootstrap-ports").map(str::parse::<u16>);
        let (Some(Ok(first)), Some(Ok(second))) = (bootstrap("g/prefill-0"), bootstrap("g/prefill-1")) else {
            panic!("no ports")
        };
        assert!(first.abs_diff(second) >= 2, "two ranks each: {first}, {second}");
        assert_eq!(flags::value_of(&part("g/prefill-1").flags, "--zmq-kv-events-ports"), Some("5602"));
    }

    #[test]
    fn replicas_can_be_overridden_by_name() {
        let plan = planned(DISAGG, &[("decode", 3), ("prefill", 0)]).expect("a plan");
        assert_eq!(plan.parts.iter().filter(|part| part.label.contains("decode")).count(), 3);
        assert!(plan.notes.contains(&"g/prefill: 0 replicas".to_owned()));
        let error = planned(DISAGG, &[("other", 3)]).expect_err("no such component");
        assert_eq!(error, "--replicas other: no component of the manifest has this name");
    }

    #[test]
    fn a_worker_that_only_a_gpu_can_run_is_refused_by_name() {
        let error = planned(&DISAGG.replace("dynamo.mocker", "dynamo.vllm"), &[]).expect_err("vllm");
        assert_eq!(
            error,
            "g/decode: a decode that runs dynamo.vllm cannot be simulated (allowed: dynamo.mocker, dynamo.frontend, or \
             no command)"
        );
    }

    #[test]
    fn many_replicas_start_in_steps() {
        assert_eq!(stagger(31), Duration::ZERO);
        assert_eq!(stagger(32), Duration::from_millis(3200 + 2000));
        assert_eq!(stagger(128), Duration::from_millis(25_600 + 8000));
    }
}
