//! Kubernetes' API server: users, data over restarts, sharing.

use std::path::Path;
use std::process::{Command, Output};

use dynosim_peers::ApiServer;

const READER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: read, namespace: team}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: read, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: read}
subjects:
  - {kind: ServiceAccount, name: reader, namespace: team}
  - {kind: User, apiGroup: rbac.authorization.k8s.io, name: someone}
  - {kind: Group, apiGroup: rbac.authorization.k8s.io, name: readers}
"#;

/// `kubectl` as the user of a kubeconfig.
fn as_user(kubeconfig: &Path, programs: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(programs.join("kubectl"));
    command.arg("--kubeconfig").arg(kubeconfig).args(args).output().expect("kubectl starts")
}

fn may(server: &ApiServer, kubeconfig: &Path, verb: &str, namespace: &str) -> bool {
    let args = ["auth", "can-i", verb, "configmaps", "--namespace", namespace];
    let output = as_user(kubeconfig, server.programs(), &args);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match said.trim() {
        "yes" => true,
        "no" => false,
        _ => panic!("{said}{}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn users_and_service_accounts_may_what_roles_say() {
    let Some(server) = ApiServer::shared() else { return };
    server.apply(READER);
    assert!(may(server, &server.kubeconfig(), "delete", "default"), "an administrator may all");
    let by_name = server.user("someone", None);
    let by_group = server.user("someone-else", Some("readers"));
    let account = server.service_account("team", "reader");
    for kubeconfig in [&by_name, &by_group, &account] {
        assert!(may(server, kubeconfig, "list", "team"), "{}", kubeconfig.display());
        assert!(!may(server, kubeconfig, "delete", "team"), "{}", kubeconfig.display());
        assert!(!may(server, kubeconfig, "list", "default"), "{}", kubeconfig.display());
    }
    // The account's namespace is the current one of its kubeconfig.
    let listed = as_user(&account, server.programs(), &["get", "configmaps"]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let stranger = server.user("stranger", None);
    assert!(!may(server, &stranger, "list", "team"));
}

#[test]
fn pods_need_no_account_and_keep_what_they_are_given() {
    let Some(server) = ApiServer::shared() else { return };
    server.kubectl(&["create", "namespace", "pods"]);
    server.apply(
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker", "namespace": "pods"},
            "spec": {"containers": [{"name": "main", "image": "none"}]}}"#,
    );
    let pod = server.kubectl(&[
        "get",
        "pod",
        "worker",
        "--namespace=pods",
        "--output=jsonpath={.metadata.uid} {.status.phase}",
    ]);
    assert!(pod.ends_with(" Pending") && pod.len() > 36, "{pod}");
}

#[test]
fn data_and_address_outlive_stops_and_crashes() {
    let Some(mut server) = ApiServer::start() else { return };
    let url = server.url();
    server.kubectl(&["create", "configmap", "kept", "--from-literal=a=1"]);
    let before = server.user("before", Some("system:masters"));
    server.kill();
    let away = as_user(&before, server.programs(), &["get", "configmap", "kept", "--request-timeout=2s"]);
    assert!(!away.status.success(), "no server answers");
    server.resume();
    server.stop();
    server.resume();
    assert_eq!(server.url(), url);
    let again = as_user(&before, server.programs(), &["get", "configmap", "kept", "--output=jsonpath={.data.a}"]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), "1", "{}", String::from_utf8_lossy(&again.stderr));
}
