//! What the containers of a component run, and which of them the operator's image stands in for.

use std::collections::{BTreeMap, BTreeSet};

use dynosim_api::expand::expand;
use dynosim_api::flags::has;
use dynosim_api::invocation::default_program;
use dynosim_api::{ComponentType, Invocation, Program};
use k8s_openapi::api::core::v1::Container;

use super::Checks;
use crate::config::{Discovery, ImagePolicy};
use crate::defaults::{self, BOOTSTRAP_PORT, Place};
use crate::environment::{known, merge};
use crate::keys::annotation;
use crate::problems::Problem;
use crate::validated::ValidatedContainer;
use crate::worker_flags::{BadFlag, WorkerFlags};
use crate::{gpus, secrets};

impl Checks<'_> {
    /// All containers of a component with what they run, or none if that cannot be told or must not be. Each comes with its
    /// number in the manifest.
    pub(super) fn programs(
        &mut self,
        containers: &[(usize, Container)],
        pod: &str,
        place: &Place<'_>,
        annotations: &BTreeMap<String, String>,
    ) -> Option<Vec<ValidatedContainer>> {
        let policy = match self.setting(annotations, annotation::IMAGE_POLICY) {
            None => self.config.image_policy,
            Some((found, text)) => {
                let key = annotation::IMAGE_POLICY;
                let here = || format!("{}.metadata.annotations[{key}]", pod.trim_end_matches(".spec"));
                let allowed = [("Mocker", ImagePolicy::Mocker), ("Manifest", ImagePolicy::Manifest)];
                self.one_of(found.unwrap_or_else(here), &text, &allowed)
            }
        };
        let mut read = Vec::new();
        for (place_in_list, (index, container)) in containers.iter().enumerate() {
            let path = format!("{pod}.containers[{index}]");
            let is_main = place_in_list == 0;
            read.push(self.program(container, &path, place, is_main, policy));
        }
        let mut read: Vec<_> = read.into_iter().collect::<Option<_>>()?;
        let paths: Vec<_> = containers.iter().map(|(index, _)| format!("{pod}.containers[{index}]")).collect();
        self.ports(&mut read, &paths).then_some(read)
    }

    fn program(
        &mut self,
        container: &Container,
        path: &str,
        place: &Place<'_>,
        is_main: bool,
        policy: ImagePolicy,
    ) -> Option<ValidatedContainer> {
        let own = container.env.as_deref().unwrap_or_default();
        let common = defaults::common(place, &container.name, self.config);
        let env = known(&merge(&[&common, &self.graph.spec.env, own]));
        let kind = is_main.then_some(place.component_type);
        let raw = read_words(container, kind, policy, str::to_owned);
        let invocation = read_words(container, kind, policy, |word| expand(word, &env));
        let stand_in = match (&invocation, &raw, policy) {
            (Invocation::Ours(program, _), Invocation::Ours(_, flags), ImagePolicy::Mocker)
            | (Invocation::Ours(program, flags), _, ImagePolicy::Mocker) => Some((*program, flags.clone())),
            _ => None,
        };
        self.notes_on(container, path, place, is_main, stand_in.is_some(), &invocation);
        if stand_in.is_none() && container.image.as_deref().unwrap_or_default().is_empty() {
            let message = format!("missing: {} runs from its own image", invocation.describe());
            self.problems.error(format!("{path}.image"), message);
        }
        let worker = match &invocation {
            Invocation::Ours(Program::Mocker, flags) => Some(self.worker(container, path, place, flags)?),
            _ => None,
        };
        Some(ValidatedContainer { container: container.clone(), invocation, stand_in, worker, bootstrap: Vec::new() })
    }

    fn notes_on(
        &mut self,
        container: &Container,
        path: &str,
        place: &Place<'_>,
        is_main: bool,
        stands_in: bool,
        invocation: &Invocation,
    ) {
        let mut note = |message: String| self.notes.push(Problem { path: path.to_owned(), message });
        let image = container.image.as_deref().unwrap_or_default();
        if !stands_in {
            let simulated = place.component_type.is_worker() || *place.component_type == ComponentType::Frontend;
            if is_main && simulated {
                note(format!("keeps its image {image}, it runs {}", invocation.describe()));
            }
            return;
        }
        let mocker = &self.config.mocker_image;
        if image != mocker {
            let instead = if image.is_empty() { String::new() } else { format!(" instead of {image}") };
            note(format!("runs {mocker}{instead}"));
        }
        if let Some(gpus) = gpus::describe(container) {
            note(format!("runs without {gpus}"));
        }
        let needed = secrets::needed(container);
        if !needed.is_empty() {
            note(format!("does without what does not exist of the secrets {}", needed.join(", ")));
        }
    }

    fn worker(
        &mut self,
        container: &Container,
        path: &str,
        place: &Place<'_>,
        flags: &[String],
    ) -> Option<WorkerFlags> {
        let list = if container.args.as_ref().is_some_and(|args| !args.is_empty()) { "args" } else { "command" };
        let path = format!("{path}.{list}");
        for (old, new) in [("--is-prefill-worker", "prefill"), ("--is-decode-worker", "decode")] {
            if has(flags, old) {
                self.problems.warn(path.clone(), format!("{old} is deprecated, use --disaggregation-mode {new}"));
            }
        }
        let flags = match WorkerFlags::read(flags) {
            Ok(flags) => flags,
            Err(bad) => {
                for BadFlag(message) in bad {
                    self.problems.error(path.clone(), message);
                }
                return None;
            }
        };
        if flags.workers > 1 && place.discovery == Discovery::Kubernetes {
            let message = format!(
                "--num-workers: {} workers of one pod would be one instance with kubernetes discovery, where the pod's name is \
                 the identity (allowed: 1; set `replicas` to {} instead, or {} to etcd)",
                flags.workers,
                flags.workers,
                annotation::DISCOVERY_BACKEND
            );
            self.problems.error(path, message);
            return None;
        }
        Some(flags)
    }

    /// Gives prefill workers the ports that they need and do not name; refuses ports that two containers would listen on.
    fn ports(&mut self, containers: &mut [ValidatedContainer], paths: &[String]) -> bool {
        let mut taken: BTreeMap<u16, &str> = BTreeMap::new();
        let mut clear = true;
        for (container, path) in containers.iter().zip(paths) {
            let Some(worker) = &container.worker else { continue };
            for (flag, list) in [
                ("--bootstrap-ports", &worker.bootstrap),
                ("--zmq-kv-events-ports", &worker.events),
                ("--zmq-replay-ports", &worker.replay),
            ] {
                for port in list.iter().flat_map(|first| *first..=first.saturating_add(worker.ranks - 1)) {
                    if let Some(other) = taken.insert(port, path) {
                        let where_else = if other == path { "twice in this pod" } else { other };
                        let message =
                            format!("{flag}: port {port} is listened on {where_else} (each rank takes one port)");
                        self.problems.error(format!("{path}.args"), message);
                        clear = false;
                        break;
                    }
                }
            }
        }
        let declared = containers.iter().flat_map(|container| container.container.ports.iter().flatten());
        let mut used: BTreeSet<u16> = declared.filter_map(|port| u16::try_from(port.container_port).ok()).collect();
        used.extend(taken.keys());
        for (container, path) in containers.iter_mut().zip(paths) {
            let Some(worker) = container.worker.as_ref().filter(|worker| worker.wants_bootstrap) else { continue };
            if let Some(ports) = free_ports(&mut used, worker.workers, worker.ranks) {
                container.bootstrap = ports;
                continue;
            }
            let message = format!(
                "--bootstrap-ports: there is no room for {} workers of {} ranks above port {BOOTSTRAP_PORT}",
                worker.workers, worker.ranks
            );
            self.problems.error(format!("{path}.args"), message);
            clear = false;
        }
        clear
    }
}

/// What a container runs; `kind` is the type of the component whose main container it is. Without a command that one runs the
/// program of its type, but a worker only from the operator's image: what the manifest's starts by itself is not known.
fn read_words(
    container: &Container,
    kind: Option<&ComponentType>,
    policy: ImagePolicy,
    replace: impl Fn(&str) -> String,
) -> Invocation {
    let command = container.command.as_deref().unwrap_or_default();
    let mut words: Vec<_> = command.iter().chain(container.args.iter().flatten()).map(|word| replace(word)).collect();
    if !command.is_empty() {
        return Invocation::of_words(&words);
    }
    match kind.and_then(default_program) {
        Some(Program::Mocker) if policy == ImagePolicy::Manifest => Invocation::Words(words),
        Some(program) => Invocation::Ours(program, words),
        None if kind.is_some_and(|kind| is_for_shell(kind, container)) => {
            words.splice(0..0, SHELL.map(str::to_owned));
            Invocation::of_words(&words)
        }
        None => Invocation::Words(words),
    }
}

/// What reads the arguments of main containers without a command, in components without a type.
pub(crate) const SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// Whether [`SHELL`] reads the arguments of a main container.
pub(crate) fn is_for_shell(kind: &ComponentType, container: &Container) -> bool {
    let empty = |list: &Option<Vec<String>>| list.as_ref().is_none_or(Vec::is_empty);
    matches!(kind, ComponentType::Other(_)) && empty(&container.command) && !empty(&container.args)
}

/// The first port of each worker, all ranks side by side.
fn free_ports(used: &mut BTreeSet<u16>, workers: u16, ranks: u16) -> Option<Vec<u16>> {
    let mut found = Vec::new();
    let mut first = BOOTSTRAP_PORT;
    while found.len() < usize::from(workers) {
        let last = first.checked_add(ranks - 1)?;
        if let Some(taken) = used.range(first..=last).next_back() {
            first = taken.checked_add(1)?;
            continue;
        }
        found.push(first);
        used.extend(first..=last);
        if found.len() < usize::from(workers) {
            first = last.checked_add(1)?;
        }
    }
    Some(found)
}
