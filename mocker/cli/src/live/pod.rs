//! Which pod this process is, by files or environment.

use std::path::Path;

use dynosim_wire::discovery::{PodIdentity, PodUnit, check_name};

use super::Env;
use crate::failure::Failure;

/// Where the downward API's files are, if a pod has them; they go before the environment (as published).
pub(super) const PODINFO: &str = "/etc/podinfo";
/// Namespace if nothing names one (as published).
const DEFAULT_NAMESPACE: &str = "default";

/// Reads who this is; whatever is missing or cannot be is named.
pub(super) fn identity(env: &Env, podinfo: &Path) -> Result<PodIdentity, Failure> {
    let known = |file: &str, variable: &str| {
        let written = std::fs::read_to_string(podinfo.join(file)).unwrap_or_default();
        let written = Some(written.trim()).filter(|text| !text.is_empty());
        written.or_else(|| env.get(variable)).map(str::to_owned)
    };
    let needed = |file: &str, variable: &str, what: &str| {
        known(file, variable).ok_or_else(|| {
            Failure::input(format_args!(
                "{variable}: is needed with discovery backend `kubernetes` (allowed: {what}, by the downward API)"
            ))
        })
    };
    let named = |variable: &str, name: String| match check_name(&name) {
        Ok(()) => Ok(name),
        Err(error) => Err(Failure::input(format_args!("{variable}: {error}"))),
    };
    let pod = PodIdentity {
        name: named("POD_NAME", needed("pod_name", "POD_NAME", "the pod's name")?)?,
        uid: needed("pod_uid", "POD_UID", "the pod's uid")?,
        namespace: named(
            "POD_NAMESPACE",
            known("pod_namespace", "POD_NAMESPACE").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        )?,
        unit: unit(env)?,
    };
    let whole = named("POD_NAME with CONTAINER_NAME", pod.object_name())?;
    tracing::debug!(object = whole, namespace = pod.namespace, "this pod");
    Ok(pod)
}

fn unit(env: &Env) -> Result<PodUnit, Failure> {
    match env.get("DYN_KUBE_DISCOVERY_MODE") {
        None | Some("pod") => Ok(PodUnit::Pod),
        Some("container") => match env.get("CONTAINER_NAME") {
            Some(container) => Ok(PodUnit::Container(container.to_owned())),
            None => Err(Failure::input(
                "CONTAINER_NAME: is needed with DYN_KUBE_DISCOVERY_MODE `container` (allowed: the name of this container)",
            )),
        },
        Some(text) => Err(Failure::input(format_args!(
            "DYN_KUBE_DISCOVERY_MODE: `{text}` cannot be used (allowed: pod, container)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Result<PodIdentity, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).expect("a file");
        }
        let env = Env::default().with(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        identity(&env, folder.path()).map_err(|failure| failure.to_string())
    }

    const NAME: (&str, &str) = ("POD_NAME", "w");
    const UID: (&str, &str) = ("POD_UID", "u-1");

    #[test]
    fn files_go_before_the_environment_and_the_namespace_has_a_default() {
        let pod = read(&[NAME, UID], &[]).expect("a pod");
        assert_eq!((pod.namespace.as_str(), &pod.unit), ("default", &PodUnit::Pod));
        let files = [("pod_name", "other\n"), ("pod_uid", "u-2"), ("pod_namespace", "prod\n")];
        let pod = read(&[NAME, UID, ("POD_NAMESPACE", "x")], &files).expect("a pod");
        assert_eq!((pod.to_string().as_str(), pod.uid.as_str()), ("prod/other", "u-2"));
        let pod = read(&[NAME, UID], &[("pod_name", "\n")]).expect("an empty file says nothing");
        assert_eq!(pod.name, "w");
    }

    #[test]
    fn a_container_has_a_name_of_its_own() {
        let mode = ("DYN_KUBE_DISCOVERY_MODE", "container");
        let pod = read(&[NAME, UID, mode, ("CONTAINER_NAME", "side")], &[]).expect("a pod");
        assert_eq!(pod.object_name(), "w-side");
        assert_eq!(read(&[NAME, UID, ("DYN_KUBE_DISCOVERY_MODE", "pod")], &[]).expect("a pod").unit, PodUnit::Pod);
    }

    #[test]
    fn what_is_missing_or_cannot_be_is_named() {
        let container = ("DYN_KUBE_DISCOVERY_MODE", "container");
        for (variables, said) in [
            (&[UID][..], "POD_NAME: is needed with discovery backend `kubernetes` (allowed: the pod's name, by"),
            (&[NAME], "POD_UID: is needed with discovery backend `kubernetes` (allowed: the pod's uid, by"),
            (&[NAME, UID, container], "CONTAINER_NAME: is needed with DYN_KUBE_DISCOVERY_MODE `container` (allowed: "),
            (
                &[NAME, UID, ("DYN_KUBE_DISCOVERY_MODE", "node")],
                "DYN_KUBE_DISCOVERY_MODE: `node` cannot be used (allowed: pod, container)",
            ),
            (&[UID, ("POD_NAME", "W_1")], "POD_NAME: `W_1` is no name in Kubernetes (allowed: "),
            (&[NAME, UID, ("POD_NAMESPACE", "a/b")], "POD_NAMESPACE: `a/b` is no name"),
            (
                &[NAME, UID, container, ("CONTAINER_NAME", "Side")],
                "POD_NAME with CONTAINER_NAME: `w-Side` is no name in Kubernetes",
            ),
        ] {
            let error = read(variables, &[]).expect_err(said);
            assert!(error.starts_with(said), "{error}");
        }
    }
}
