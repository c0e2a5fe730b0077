//! The chart on a real API server: installed, changed, rolled back, uninstalled, installed again; and its account at work.

use std::path::Path;
use std::process::Command;

use dynosim_peers::ApiServer;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{NAMESPACE, chart, file, helm, objects, only, template};
use crate::manifests::{children, graphs, objects as children_of, shape};
use crate::server::{apply_as, server};

/// A server takes a release of up to a mebibyte; there is to be room for more definitions.
const RELEASE_LIMIT_BYTES: usize = 512 * 1024;
/// Nothing answers the webhooks here, so admission goes on without them.
const UNANSWERED: &str = "webhook.failurePolicy=Ignore,webhook.timeoutSeconds=1";
const GRAPH: &str = "
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: kept, namespace: default}
spec: {components: [{name: Frontend, type: frontend}]}
";

/// Helm against a server; what it says.
fn run(api: &ApiServer, args: &[&str]) -> Result<String, String> {
    let program = dynosim_peers::helm().expect("looked for before");
    let kubeconfig = api.kubeconfig().display().to_string();
    let all = [&["--kubeconfig", &kubeconfig, "--namespace", NAMESPACE], args].concat();
    let output = helm(&program, &all);
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(said) } else { Err(said) }
}

fn install(api: &ApiServer, release: &str, values: &str) -> Result<String, String> {
    let chart = chart().display().to_string();
    let values = format!("{UNANSWERED},{values}");
    run(api, &["upgrade", "--install", release, &chart, "--create-namespace", "--set", &values])
}

fn get(api: &ApiServer, args: &[&str]) -> Value {
    let all = [&["get", "--output=json"], args].concat();
    serde_json::from_str(&api.kubectl(&all)).expect("JSON")
}

/// What the operator does once it runs: tells the authority of its certificate to all that asks the webhooks.
fn inject(api: &ApiServer, authority: &Value) {
    let patch = |kind: &str, name: &str, form: &str, patch: Value| {
        api.kubectl(&["patch", kind, name, form, "--patch", &patch.to_string()]);
    };
    for definition in ["dynamographdeployments", "dynamographdeploymentscalingadapters"] {
        let conversion = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": authority}}}}});
        patch("crd", &format!("{definition}.nvidia.com"), "--type=merge", conversion);
    }
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let add = json!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]);
        patch(kind, "dynosim-webhook", "--type=json", add);
    }
}

/// All that asks the webhooks knows the authority.
fn assert_injected(api: &ApiServer, authority: &Value, when: &str) {
    let definition = get(api, &["crd", "dynamographdeployments.nvidia.com"]);
    assert_eq!(&definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"], authority, "{when}");
    for kind in ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"] {
        let configuration = get(api, &[kind, "dynosim-webhook"]);
        assert_eq!(&configuration["webhooks"][0]["clientConfig"]["caBundle"], authority, "{when}: {kind}");
    }
}

#[test]
fn a_release_is_changed_and_goes_and_comes_back_with_graphs_and_authorities_kept() {
    if dynosim_peers::helm().is_none() {
        return;
    }
    let Some(api) = ApiServer::start() else { return };
    install(&api, "dynosim", "").expect("installed");
    api.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"]);
    let secret = get(&api, &["secret", "sh.helm.release.v1.dynosim.v1", "--namespace", NAMESPACE]);
    let size = secret["data"]["release"].as_str().expect("a release").len();
    assert!(size < RELEASE_LIMIT_BYTES, "{size} bytes");
    api.apply(GRAPH);
    let certificate = rcgen::generate_simple_self_signed(["webhook".to_owned()]).expect("a certificate").cert.pem();
    let authority = serde_json::to_value(ByteString(certificate.into_bytes())).expect("base64");
    inject(&api, &authority);

    let settings = |api: &ApiServer| {
        let deployment = get(api, &["deployment", "dynosim-operator", "--namespace", NAMESPACE]);
        deployment["spec"]["template"]["metadata"]["annotations"]["dynosim/settings"].clone()
    };
    let before = settings(&api);
    // What someone has taken out of a definition comes back.
    let remove = json!([{"op": "remove", "path": "/spec/names/categories"}]).to_string();
    api.kubectl(&["patch", "crd", "dynamographdeployments.nvidia.com", "--type=json", "--patch", &remove]);
    install(&api, "dynosim", "imagePolicy=Manifest").expect("upgraded");
    assert_injected(&api, &authority, "upgraded");
    assert_eq!(get(&api, &["dynamo"])["items"][0]["metadata"]["name"], "kept");
    assert_ne!(settings(&api), before, "a change of settings starts the operator again");
    run(&api, &["rollback", "dynosim", "1"]).expect("rolled back");
    assert_injected(&api, &authority, "rolled back");
    assert_eq!(settings(&api), before);

    run(&api, &["uninstall", "dynosim"]).expect("uninstalled");
    let left = "clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let of_release = ["--selector", "app.kubernetes.io/instance=dynosim"];
    assert_eq!(get(&api, &[&[left], &of_release[..]].concat())["items"], json!([]));
    assert_eq!(get(&api, &[&["crd"], &of_release[..]].concat())["items"].as_array().map(Vec::len), Some(3));
    assert_eq!(get(&api, &["dynamographdeployment", "kept"])["metadata"]["name"], "kept");
    api.kubectl(&["delete", "dynamographdeployment", "kept", "--timeout=30s"]);

    api.kubectl(&["patch", "crd", "dynamographdeployments.nvidia.com", "--type=json", "--patch", &remove]);
    install(&api, "dynosim", "").expect("installed again");
    inject(&api, &authority);
    assert_eq!(get(&api, &["dynamo"])["items"], json!([]));
    let refused = install(&api, "dynosim-2", "").expect_err("the definitions are another release's");
    assert!(refused.contains("invalid ownership metadata") && refused.contains("dynosim"), "{refused}");
}

#[test]
fn its_pod_may_run_where_pods_are_restricted() {
    let Some(api) = server() else { return };
    api.apply(
        "{apiVersion: v1, kind: Namespace, metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}}",
    );
    for values in ["published.yaml", "everything.yaml"] {
        let Some(yaml) = template(&["--values", &file(values)]) else { return };
        let mut pod = only(&yaml.expect("rendered"), "Deployment")["spec"]["template"].take();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "operator".into();
        pod["metadata"]["namespace"] = "restricted".into();
        let said = apply_as(api, &api.kubeconfig(), &[pod], &["--dry-run=server"]);
        assert!(said.is_ok(), "{values}: {said:?}");
    }
}

/// Installs what the operator is allowed to do, and nothing that it does; the kubeconfig of its account.
fn account(api: &ApiServer, namespace: &str, values: &[&str]) -> Option<std::path::PathBuf> {
    let yaml = template(values)?.expect("rendered");
    api.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {NAMESPACE}}}}}"));
    api.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {namespace}}}}}"));
    for kind in ["ServiceAccount", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"] {
        for object in objects(&yaml, Some(kind)) {
            api.apply(&object.to_string());
        }
    }
    let account = only(&yaml, "ServiceAccount");
    Some(api.service_account(NAMESPACE, account["metadata"]["name"].as_str().expect("a name")))
}

/// Applies the objects of graphs in a namespace, with the rights of an account.
fn apply_graphs(api: &ApiServer, account: &Path, namespace: &str) -> Result<usize, String> {
    let mut count = 0;
    for name in ["disagg.yaml", "global-planner.yaml", "everything.yaml"] {
        for graph in graphs(&shape(name)) {
            let mut objects = children_of(&children(&graph));
            for object in &mut objects {
                object["metadata"]["namespace"] = namespace.into();
                let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
                subjects.into_iter().flatten().for_each(|subject| subject["namespace"] = namespace.into());
            }
            count += apply_as(api, account, &objects, &[])?.len();
        }
    }
    Ok(count)
}

#[test]
fn its_account_may_make_the_objects_of_graphs_with_the_roles_that_they_get() {
    let Some(api) = server() else { return };
    let Some(account) = account(api, "anywhere", &["--set", "fullnameOverride=everywhere"]) else { return };
    let made = apply_graphs(api, &account, "anywhere").expect("the server lets it");
    assert!(made > 50, "{made} objects");
    let can = |verb: &str, what: &str| may(api, &account, verb, what);
    assert!(can("patch", "dynamographdeployments/status") && can("list", "secrets"));
    assert!(!can("get", "secrets") && !can("create", "pods") && !can("delete", "dynamographdeployments"));
    assert!(!can("create", "clusterroles") && !can("list", "nodes") && !can("get", "configmaps"));
    // Leases of one name, and no others.
    let leases = ["get", "leases", "--all-namespaces", "--output=name"];
    let named = [&leases[..], &["--field-selector=metadata.name=dynamo-operator-namespace-scope"]].concat();
    let (listed, said) = kubectl_as(api, &account, &named);
    assert!(listed, "{said}");
    assert!(!kubectl_as(api, &account, &leases).0, "all leases are listed");
}

#[test]
fn its_account_may_do_nothing_outside_the_namespace_that_it_is_restricted_to() {
    let Some(api) = server() else { return };
    let values =
        ["--set", "fullnameOverride=one,namespaceRestriction.enabled=true,namespaceRestriction.targetNamespace=mine"];
    let Some(account) = account(api, "mine", &values) else { return };
    assert!(apply_graphs(api, &account, "mine").expect("the server lets it") > 50);
    api.apply("{apiVersion: v1, kind: Namespace, metadata: {name: theirs}}");
    let refused = apply_graphs(api, &account, "theirs").expect_err("another namespace");
    assert!(refused.contains("forbidden"), "{refused}");
    for what in ["dynamographdeployments", "secrets", "deployments.apps", "pods", "leases.coordination.k8s.io"] {
        assert!(!may(api, &account, "list", what), "{what}");
    }
}

/// Whether an account may do something in all namespaces.
fn may(api: &ApiServer, account: &Path, verb: &str, what: &str) -> bool {
    let (may, said) = kubectl_as(api, account, &["auth", "can-i", "--all-namespaces", "--quiet", verb, what]);
    assert!(said.is_empty(), "{verb} {what}: {said}");
    may
}

/// `kubectl` with the rights of an account: whether it succeeds, and what it complains of.
fn kubectl_as(api: &ApiServer, account: &Path, args: &[&str]) -> (bool, String) {
    let mut command = Command::new(api.programs().join("kubectl"));
    command.arg("--kubeconfig").arg(account).args(args).env("HOME", env!("CARGO_TARGET_TMPDIR"));
    let output = command.output().expect("kubectl starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}
