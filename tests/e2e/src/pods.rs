//! Pods: states, logs, commands in them.

use futures_util::{AsyncReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, AttachParams, LogParams, WatchEvent, WatchParams};
use tokio::io::AsyncReadExt as _;

use crate::Namespace;

/// What a command in a container has said.
#[derive(Debug)]
pub struct Executed {
    /// It ended with exit code 0.
    pub succeeded: bool,
    /// What it wrote to its standard output.
    pub output: String,
    /// What it wrote to its standard error.
    pub errors: String,
}

/// How the containers of a deleted pod ended.
#[derive(Debug)]
pub struct Ended {
    /// When its grace time was over, to the second.
    pub deadline: Time,
    /// Name and end of each container that has ended.
    pub containers: Vec<(String, ContainerStateTerminated)>,
}

impl Namespace {
    /// Waits until a pod is ready to serve.
    pub async fn pod_is_ready(&self, name: &str) -> Pod {
        self.wait(&format!("pod {name} is ready"), async || {
            let pod = self.api::<Pod>().get(name).await.map_err(|error| error.to_string())?;
            if condition(&pod, "Ready") { Ok(pod) } else { Err(crate::report::pod(&pod)) }
        })
        .await
    }

    /// What a container has logged. Pods with one container need no name of it.
    pub async fn logs(&self, pod: &str, container: Option<&str>) -> String {
        let params = LogParams { container: container.map(ToOwned::to_owned), ..LogParams::default() };
        self.api::<Pod>().logs(pod, &params).await.unwrap_or_else(|error| format!("no logs: {error}"))
    }

    /// All that the only container of a running pod says until it ends.
    ///
    /// # Panics
    /// If its log cannot be followed.
    pub async fn whole_log(&self, pod: &str) -> impl Future<Output = String> + Send + use<> {
        let params = LogParams { follow: true, ..LogParams::default() };
        let stream = self.api::<Pod>().log_stream(pod, &params).await.expect("its log can be followed");
        async move {
            let (mut stream, mut text) = (std::pin::pin!(stream), String::new());
            // A log that breaks off is what there is of it.
            let _ = stream.read_to_string(&mut text).await;
            text
        }
    }

    /// Ends the processes of a pod as a crash would, and waits until the container runs again.
    ///
    /// # Panics
    /// If it does not.
    pub async fn kill_container(&self, pod: &str, container: &str) {
        let restarts = async || {
            let pod = self.api::<Pod>().get(pod).await.map_err(|error| error.to_string())?;
            let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            let status = statuses.into_iter().find(|status| status.name == container).ok_or("no such container")?;
            Ok::<_, String>((status.restart_count, status.ready))
        };
        let (before, _) = restarts().await.expect("it runs");
        let uid = self.api::<Pod>().get(pod).await.expect("it is there").metadata.uid.expect("a uid");
        let processes = processes_of(&uid);
        if processes.is_empty() {
            dynosim_peers::skip("the processes of pods (the cluster's node is another machine)");
            return;
        }
        let killed = std::process::Command::new("kill").arg("-9").args(&processes).status().expect("kill runs");
        assert!(killed.success(), "{processes:?}");
        self.wait(&format!("container {container} of {pod} runs again"), async || match restarts().await? {
            (after, true) if after > before => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    /// Runs a command in a container.
    ///
    /// # Panics
    /// If it can't be run.
    pub async fn exec(&self, pod: &str, container: &str, command: &[&str]) -> Executed {
        let params = AttachParams::default().container(container).stdout(true).stderr(true);
        let process = self.api::<Pod>().exec(pod, command.iter().copied(), &params).await;
        let mut process = process.unwrap_or_else(|error| panic!("{command:?} in {pod}: {error}"));
        let (mut stdout, mut stderr) = (process.stdout().expect("it is asked for"), process.stderr().expect("it too"));
        let status = process.take_status().expect("it is taken once");
        let (mut output, mut errors) = (String::new(), String::new());
        let (read, read_errors) = tokio::join!(stdout.read_to_string(&mut output), stderr.read_to_string(&mut errors));
        read.and(read_errors).expect("text");
        let status = status.await.expect("it ends");
        Executed { succeeded: status.status.as_deref() == Some("Success"), output, errors }
    }

    /// Deletes a pod with its own grace time and follows it until it is gone.
    ///
    /// # Panics
    /// If the pod is not there.
    pub async fn delete_pod(&self, name: &str) -> Ended {
        let api = self.api::<Pod>();
        let mut last = api.get(name).await.expect("the pod is there");
        let params = WatchParams::default().fields(&format!("metadata.name={name}"));
        let version = last.resource_version().expect("it is stored");
        let watch = api.watch(&params, &version).await.expect("pods can be watched");
        let deleted = api.delete(name, &kube::api::DeleteParams::default()).await.expect("the pod can be deleted");
        // The kubelet moves it to the present once all has ended.
        let deadline = deleted.left().and_then(|pod| pod.metadata.deletion_timestamp).expect("the pod is asked to end");
        let mut watch = std::pin::pin!(watch);
        let seen = async {
            loop {
                match watch.try_next().await.expect("the watch goes on").expect("the pod goes before the watch ends") {
                    WatchEvent::Modified(pod) => last = pod,
                    WatchEvent::Deleted(pod) => break last = pod,
                    WatchEvent::Error(error) => panic!("{error}"),
                    WatchEvent::Added(_) | WatchEvent::Bookmark(_) => {}
                }
            }
        };
        tokio::time::timeout(crate::LIMIT, seen).await.unwrap_or_else(|_| panic!("pod {name} does not go"));
        let statuses = last.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let containers = statuses
            .filter_map(|container| {
                let ended = container.state.as_ref()?.terminated.clone()?;
                Some((container.name.clone(), ended))
            })
            .collect();
        Ended { deadline, containers }
    }
}

/// Processes of this machine that a pod has, but for the one that holds it together.
fn processes_of(uid: &str) -> Vec<String> {
    let names = [uid.to_owned(), uid.replace('-', "_")];
    let read = |pid: &str, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|pid| names.iter().any(|name| read(pid, "cgroup").contains(name.as_str())))
        .filter(|pid| read(pid, "comm").trim() != "pause")
        .collect()
}

/// A condition of a pod is true.
pub(crate) fn condition(pod: &Pod, kind: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == kind && condition.status == "True")
}

/// Names of the containers of a pod.
pub(crate) fn containers(pod: &Pod) -> Vec<String> {
    pod.spec.iter().flat_map(|spec| spec.containers.iter().map(|container| container.name.clone())).collect()
}

/// All pods of a namespace; none if they can't be listed.
pub(crate) async fn all(api: &Api<Pod>) -> Vec<Pod> {
    api.list(&kube::api::ListParams::default()).await.map(|list| list.items).unwrap_or_default()
}
