//! A Kubernetes API server of a test's own: etcd and `kube-apiserver`, without nodes and controllers.

use std::fs::write;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use crate::authority::Authority;
use crate::process::Executor;
use crate::{Etcd, Process, free_port, look, skip};

/// Longer than it takes to be ready, on a machine that has much else to do.
const START: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(100);
const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kubectl"];
const MISSING: &str = "Kubernetes' API server (tests/e2e/cluster/cluster build apiserver)";

/// A running API server with RBAC, or a stopped one that may run again with the same data on the same port.
///
/// Nothing acts on what it stores: no controller, no scheduler, no kubelet; nothing is collected when its owner goes, and
/// pods stay as they were made. Pods need no service account.
#[derive(Debug)]
pub struct ApiServer {
    programs: PathBuf,
    folder: TempDir,
    port: u16,
    authority: Authority,
    etcd: Etcd,
    process: Option<Process>,
}

impl ApiServer {
    /// None if its programs are not here: in the folder that `DYNOSIM_KUBE_BIN` names or, without one, where
    /// `tests/e2e/cluster/cluster build` puts them.
    ///
    /// # Panics
    /// If it does not start, or its programs must be here.
    pub fn start() -> Option<Self> {
        find_kubernetes(&PROGRAMS, MISSING).map(Self::of)
    }

    /// One for all tests of a program, which keep apart by namespaces of their own. It ends with the program.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<(ApiServer, Executor)> = OnceLock::new();
        // Every test says for itself that it is skipped.
        let programs = find_kubernetes(&PROGRAMS, MISSING)?;
        let (server, _) = SHARED.get_or_init(|| {
            let server = Self::of(programs);
            let processes = [server.process.as_ref().map(Process::id), server.etcd.id()];
            let processes: Vec<_> = processes.into_iter().flatten().collect();
            let executor = Executor::of(&processes, &[server.folder.path(), server.etcd.folder()]);
            (server, executor)
        });
        Some(server)
    }

    fn of(programs: PathBuf) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::new(folder.path());
        authority.server("server", &["127.0.0.1", "localhost"]);
        // Its key signs the tokens of service accounts, its certificate proves them.
        authority.server("tokens", &[]);
        let etcd = Etcd::of(&programs.join("etcd"), &["--unsafe-no-fsync"]);
        let mut server = Self { programs, folder, port: free_port(), authority, etcd, process: None };
        server.write_kubeconfig("admin", "default", &server.certificate_of("admin", Some("system:masters")));
        server.resume();
        server
    }

    /// Starts the stopped server with the data that is there, and waits until it is ready.
    ///
    /// # Panics
    /// If it does not get ready.
    pub fn resume(&mut self) {
        // A connection to somewhere else may have taken the port for a moment.
        for _ in 0..5 {
            let mut process = Process::start(&mut self.command(), &self.folder.path().join("log"));
            let mut ended = false;
            let ready = look(START, PAUSE, || {
                ended = process.has_ended();
                ended || self.is_ready()
            });
            assert!(ready, "kube-apiserver is not ready in time: {}", process.log());
            self.process = Some(process);
            if !ended {
                return;
            }
        }
        panic!("kube-apiserver does not start: {}", self.log());
    }

    fn command(&self) -> Command {
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        let flag = |name: &str, value: String| format!("--{name}={value}");
        let mut command = Command::new(self.programs.join("kube-apiserver"));
        command.args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"]);
        // Nobody would make the accounts that pods have to name.
        command.args(["--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.96.0.0/16"]);
        command.args(["--service-account-issuer=https://kubernetes.default.svc", "--allow-privileged=true"]);
        command.args([
            flag("etcd-servers", self.etcd.url()),
            flag("secure-port", self.port.to_string()),
            flag("client-ca-file", self.authority.certificate().display().to_string()),
            flag("tls-cert-file", file("server.crt")),
            flag("tls-private-key-file", file("server.key")),
            flag("service-account-signing-key-file", file("tokens.key")),
            flag("service-account-key-file", file("tokens.crt")),
        ]);
        command
    }

    fn is_ready(&self) -> bool {
        let listens = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok();
        listens
            && self
                .kubectl_command(&["get", "--raw=/readyz", "--request-timeout=5s"])
                .output()
                .is_ok_and(|output| output.status.success())
    }

    /// Asks the server to end (SIGTERM), and waits for that. It finishes what is in progress first.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate();
        }
    }

    /// Ends the server as a crash would. Its data stays.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// The folder that `kubectl` and the server's own programs are in.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The last of what it has said, for messages of failed tests.
    pub fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }

    /// Where the kubeconfig of an administrator is.
    pub fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig_of("admin")
    }

    /// Makes a kubeconfig of a user who may do what roles say of the user or of the group.
    pub fn user(&self, name: &str, group: Option<&str>) -> PathBuf {
        self.write_kubeconfig(&format!("user-{name}"), "default", &self.certificate_of(name, group))
    }

    /// Makes a kubeconfig of a service account that is there, with its namespace as the current one.
    ///
    /// # Panics
    /// If it is not there.
    pub fn service_account(&self, namespace: &str, name: &str) -> PathBuf {
        let token = self.kubectl(&["create", "token", name, "--namespace", namespace]);
        let credentials = format!(r#"{{"token": "{}"}}"#, token.trim());
        self.write_kubeconfig(&format!("account-{namespace}-{name}"), namespace, &credentials)
    }

    /// What `kubectl` says as an administrator.
    ///
    /// # Panics
    /// If it fails.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.kubectl_with_input(args, "")
    }

    /// Applies objects on the server's side, as an administrator.
    ///
    /// # Panics
    /// If it refuses one.
    pub fn apply(&self, yaml: &str) -> String {
        self.kubectl_with_input(&["apply", "--server-side", "--filename=-"], yaml)
    }

    fn kubectl_with_input(&self, args: &[&str], input: &str) -> String {
        let mut command = self.kubectl_command(args);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kubectl starts");
        child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("kubectl reads");
        let output = child.wait_with_output().expect("kubectl ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "kubectl {args:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn kubectl_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.programs.join("kubectl"));
        // Its cache of what the server knows belongs to this server.
        command.arg("--kubeconfig").arg(self.kubeconfig()).arg("--cache-dir").arg(self.folder.path().join("cache"));
        command.args(args);
        command
    }

    fn certificate_of(&self, user: &str, group: Option<&str>) -> String {
        let [certificate, key] = self.authority.client(&format!("user-{user}"), user, group);
        format!(r#"{{"client-certificate": "{}", "client-key": "{}"}}"#, certificate.display(), key.display())
    }

    fn kubeconfig_of(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.kubeconfig"))
    }

    fn write_kubeconfig(&self, name: &str, namespace: &str, credentials: &str) -> PathBuf {
        let authority = self.authority.certificate().display().to_string();
        let text = format!(
            r#"apiVersion: v1
kind: Config
clusters: [{{"name": "test", "cluster": {{"server": "{}", "certificate-authority": "{authority}"}}}}]
users: [{{"name": "{name}", "user": {credentials}}}]
contexts: [{{"name": "test", "context": {{"cluster": "test", "user": "{name}", "namespace": "{namespace}"}}}}]
current-context: test
"#,
            self.url()
        );
        let file = self.kubeconfig_of(name);
        write(&file, text).expect("a file");
        file
    }
}

/// Helm's program; none if the test is to be skipped.
///
/// # Panics
/// If it must be here.
pub fn helm() -> Option<PathBuf> {
    find_kubernetes(&["helm"], "Helm (tests/e2e/cluster/cluster build helm)").map(|folder| folder.join("helm"))
}

/// The folder of Kubernetes' programs; none if the test is to be skipped.
fn find_kubernetes(programs: &[&str], missing: &str) -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let found = if let Some(folder) = variable("DYNOSIM_KUBE_BIN") {
        first_with_all(programs, [folder])
    } else {
        let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let defaults = [Some("/var/lib".into()), cache].map(|folder| folder.map(|folder| folder.join("e2e-cluster")));
        let states = std::iter::once(variable("CLUSTER_STATE")).chain(defaults);
        first_with_all(programs, states.flatten().map(|state| state.join("bin")))
    };
    if found.is_none() {
        assert!(variable("DYNOSIM_SHARED").is_none(), "{missing} is missing");
        skip(missing);
    }
    found
}

fn first_with_all(programs: &[&str], folders: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    folders.into_iter().find(|folder| programs.iter().all(|program| folder.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_counts_once_all_programs_are_there() {
        let [half, whole] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        write(half.path().join("etcd"), "").unwrap();
        let folders = || [half.path().to_owned(), whole.path().to_owned()];
        assert_eq!(first_with_all(&PROGRAMS, folders()), None);
        for program in PROGRAMS {
            write(whole.path().join(program), "").unwrap();
        }
        assert_eq!(first_with_all(&PROGRAMS, folders()).as_deref(), Some(whole.path()));
    }
}
