//! Processes that are pods of one namespace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use dynosim_peers::{Namespace, Process, free_port, wait_until};
use dynosim_wire::card::ModelFiles;
use serde_json::Value;

use crate::live_mocker::PROMPT;
use crate::live_mocker::peers::Http;

/// What a frontend may do, and what a worker may do beside that; no more than the release needs.
const READ: [(&str, &str, &str); 2] =
    [("discovery.k8s.io", "endpointslices", "list, watch"), ("nvidia.com", "dynamoworkermetadatas", "list, watch")];
const WRITE: (&str, &str, &str) = ("nvidia.com", "dynamoworkermetadatas", "create, patch, delete");

/// Processes that are pods of one namespace; ended when this goes.
pub(crate) struct Processes {
    namespace: String,
    folder: tempfile::TempDir,
    running: Vec<(String, Process)>,
    started: usize,
}

impl Processes {
    pub(crate) fn new(namespace: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { namespace: namespace.to_owned(), folder, running: Vec::new(), started: 0 }
    }

    fn start(&mut self, pod: &str, command: &mut Command, kubeconfig: &Path, env: &[(&str, &str)]) {
        command.envs([("DYN_DISCOVERY_BACKEND", "kubernetes"), ("POD_NAMESPACE", &self.namespace)]);
        command.envs([("DYN_LOG", "info"), ("DYN_TCP_RPC_HOST", "127.0.0.1")]).env("KUBECONFIG", kubeconfig);
        command.env("POD_NAME", pod).env("POD_UID", format!("u-{pod}"));
        command.env_remove("DYN_KUBE_DISCOVERY_MODE").env_remove("DYN_SYSTEM_PORT").env_remove("NATS_SERVER");
        command.envs(env.iter().copied());
        self.started += 1;
        let log = self.folder.path().join(format!("{pod}-{}.log", self.started));
        self.running.push((pod.to_owned(), Process::start(command, &log)));
    }

    /// A frontend of ours.
    pub(crate) fn frontend(&mut self, kubeconfig: &Path, env: &[(&str, &str)]) -> Http {
        let port = free_port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
        command.args(["frontend", "--http-host", "127.0.0.1", "--http-port", &port.to_string()]);
        let pod = format!("frontend-{port}");
        self.start(&pod, &mut command, kubeconfig, env);
        self.wait_for_line(&pod, "frontend: ");
        Http::at(port)
    }

    fn find(&mut self, pod: &str) -> &mut Process {
        self.running.iter_mut().find(|(name, _)| name == pod).map(|(_, process)| process).expect("it was started")
    }

    fn wait_for_line(&mut self, pod: &str, start: &str) {
        let process = self.find(pod);
        wait_until(&format!("the line of {pod}"), || {
            assert!(!process.has_ended(), "{pod}: {}", process.log());
            process.log().lines().any(|line| line.starts_with(start))
        });
    }

    fn logs(&self) -> String {
        let each = self.running.iter().map(|(name, process)| format!("--- {name}\n{}\n", process.log()));
        each.collect::<Vec<_>>().concat()
    }
}

/// A namespace with processes that run as accounts of it.
pub(crate) struct Graph<'a> {
    pub(crate) namespace: Namespace<'a>,
    frontends: PathBuf,
    workers: PathBuf,
    processes: Processes,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(namespace: Namespace<'a>) -> Self {
        let frontends = namespace.account("frontend", &READ);
        let workers = namespace.account("worker", &[&READ[..], &[WRITE]].concat());
        let processes = Processes::new(namespace.name());
        Self { namespace, frontends, workers, processes }
    }

    /// A worker of ours; waits until it has registered.
    pub(crate) fn worker(&mut self, pod: &str, flags: &[&str], env: &[(&str, &str)]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim"));
        command.args(["mocker", "--model-path", "no/such/model", "--speedup-ratio", "10"]).args(flags);
        if !flags.contains(&"--model-name") {
            command.args(["--model-name", "tiny"]);
        }
        self.processes.start(pod, &mut command, &self.workers, env);
        self.processes.wait_for_line(pod, "mocker: ");
    }

    /// A frontend of ours.
    pub(crate) fn frontend(&mut self, env: &[(&str, &str)]) -> Http {
        self.processes.frontend(&self.frontends, env)
    }

    pub(crate) fn published_frontend(&mut self, python: &Path, router_mode: &str) -> Http {
        let port = free_port();
        let mut command = Process::of_release(python, "dynamo.frontend");
        command.args(["--http-host", "127.0.0.1", "--http-port", &port.to_string(), "--router-mode", router_mode]);
        self.processes.start("frontend", &mut command, &self.frontends, &[]);
        Http::at(port)
    }

    pub(crate) fn published_worker(&mut self, python: &Path, pod: &str) {
        let model = ModelFiles::open("some/model").expect("the built-in model").folder;
        let mut command = Process::of_release(python, "dynamo.mocker");
        command.args(["--model-name", "tiny", "--speedup-ratio", "1000", "--block-size", "64", "--model-path"]);
        command.arg(model);
        self.processes.start(pod, &mut command, &self.workers, &[]);
    }

    /// Asks until the model `tiny` is served.
    pub(crate) fn wait_until_served(&self, http: &Http) {
        let served = (0..600).any(|_| {
            let served = http.status("tiny", PROMPT, 2) == 200;
            if !served {
                std::thread::sleep(Duration::from_millis(50));
            }
            served
        });
        assert!(served, "not served: {}", self.processes.logs());
    }

    /// Ends the process of a pod as a crash would.
    pub(crate) fn kill(&mut self, pod: &str) {
        self.processes.find(pod).kill();
        self.processes.running.retain(|(name, _)| name != pod);
    }

    /// Tells the process of a pod to stop (SIGTERM) and waits until it has.
    pub(crate) fn stop(&mut self, pod: &str) -> ExitStatus {
        self.processes.find(pod).terminate()
    }
}

/// How many instances of workers a frontend of ours knows.
pub(crate) fn instances(http: &Http) -> usize {
    let health: Value = serde_json::from_str(&http.send("GET", "/health", "").expect("health")).expect("JSON");
    let instances = health["instances"].as_array().expect("a list");
    instances.iter().filter(|instance| instance["endpoint"] == "generate").count()
}

/// Most requests after the end of the asking.
const LAST_ONES_MAX: usize = 100;

/// A client that asks one question after the other until it is told to end.
pub(crate) struct Asking {
    end: Arc<AtomicBool>,
    client: JoinHandle<Vec<u16>>,
}

impl Asking {
    pub(crate) fn start(http: Http) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        let client = std::thread::spawn(move || {
            let mut statuses = Vec::new();
            let mut last_ones = 0;
            // It may never have been its turn while somebody served: then what is there now answers.
            while last_ones == 0 || (!statuses.contains(&200) && last_ones < LAST_ONES_MAX) {
                last_ones += usize::from(ended.load(Ordering::Relaxed));
                statuses.push(http.status("tiny", PROMPT, 4));
                std::thread::sleep(Duration::from_millis(5));
            }
            statuses
        });
        Self { end, client }
    }

    /// The status of every answer.
    pub(crate) fn end(self) -> Vec<u16> {
        self.end.store(true, Ordering::Relaxed);
        self.client.join().expect("the client")
    }
}
