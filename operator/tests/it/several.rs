//! Several operators, and what an operator's account has to be allowed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use dynosim_api::v1beta1::DynamoGraphDeploymentScalingAdapter;
use dynosim_operator::check::{Only, Place, RULES};
use dynosim_peers::{ApiServer, free_port};
use http::Method;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::proxy::{Mischief, Proxy};
use crate::server::prepare;
use crate::space::{Server, Space, client_by, graph, in_space};

fn command(kubeconfig: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynosim-operator"));
    command.env("KUBECONFIG", kubeconfig).env("RUST_LOG", "info,dynosim_operator=debug").arg("--webhooks=false");
    for flag in ["--health-addr", "--metrics-addr"] {
        command.arg(format!("{flag}=127.0.0.1:{}", free_port()));
    }
    command.args(flags);
    command
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_14_an_operator_of_all_namespaces_keeps_away_from_one_with_its_own() {
    let Some(server) = ApiServer::start() else { return };
    prepare(&server);
    let server = Arc::new(server);
    let mut all = Space::of(Server::Own(Arc::clone(&server)), "everywhere").await;
    all.start_with(command(&server.kubeconfig(), &["--own-namespace", "everywhere"]));
    let mut own = Space::of(Server::Own(Arc::clone(&server)), "restricted").await;
    own.start();
    own.wait("it holds the namespace", async || if own.log().contains("acts") { Ok(()) } else { Err(own.log()) }).await;
    for space in [&all, &own] {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
    }
    assert!(own.log().contains("graph=restricted/g"), "{}", own.log());
    assert!(!all.log().contains("graph=restricted/g"), "{}", all.log());
    assert!(all.log().contains("graph=everywhere/g"), "{}", all.log());
    own.kill();
    own.apply(graph("h", &[("decode", json!({}))])).await;
    own.ready("h").await;
    assert!(all.log().contains("graph=restricted/h"), "{}", all.log());
}

/// What was asked of the server: group, resource and verb.
fn asked(method: &Method, uri: &str) -> Option<(String, String, String)> {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let mut parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let group = match parts.remove(0) {
        "api" => {
            parts.remove(0);
            ""
        }
        "apis" => {
            let group = parts.remove(0);
            parts.remove(0);
            group
        }
        _ => return None,
    };
    if parts.first() == Some(&"namespaces") {
        parts.drain(..2);
    }
    let (resource, name, below) = (parts[0], parts.get(1), parts.get(2));
    let verb = match *method {
        Method::GET if query.contains("watch=true") => "watch",
        Method::GET if name.is_none() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    };
    let resource = below.map_or(resource.to_owned(), |below| format!("{resource}/{below}"));
    Some((group.to_owned(), resource, verb.to_owned()))
}

/// Rules of the operator of one namespace in that namespace, and those of pods that it hands on.
fn role(namespace: &str) -> serde_json::Value {
    let needed = RULES.iter().filter(|rule| {
        matches!(rule.only, Only::Always | Only::OneNamespace) && matches!(rule.place, Place::Graphs | Place::Own)
    });
    let rule = |rule: &dynosim_operator::check::Rule| PolicyRule {
        api_groups: Some(vec![rule.group.to_owned()]),
        resources: Some(vec![rule.resource.to_owned()]),
        verbs: rule.verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let rules: Vec<_> = needed.map(rule).chain(dynosim_operator::build::handed_on()).collect();
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "operator", "namespace": namespace}, "rules": rules})
}

/// Everything that makes the operator do whatever it can do.
async fn exercise(space: &Space) {
    let everything = || {
        let mut graph = graph("g", &[("decode", json!({})), ("prefill", json!({"scalingAdapter": {}}))]);
        let planner = json!({"name": "Planner", "type": "planner", "replicas": 1,
            "podTemplate": {"spec": {"containers": [{"name": "main", "image": "any:1", "command": ["python3", "-m", "dynamo.planner"]}]}}});
        graph["spec"]["components"].as_array_mut().expect("a list").push(planner);
        graph
    };
    space.apply(everything()).await;
    space.ready("g").await;
    // The second time an event is told, it is the first one once more.
    for replicas in [2, 3] {
        space.scale("g-prefill", replicas).await;
        space.settled().await;
        space.ready("g").await;
    }
    let adapters = space.api::<DynamoGraphDeploymentScalingAdapter>();
    let label = Patch::Merge(json!({"metadata": {"labels": {"nvidia.com/dynamo-component": "changed"}}}));
    adapters.patch("g-prefill", &PatchParams::default(), &label).await.expect("changed");
    space.settled().await;
    // The older form has claims and ways in.
    let older = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "old"}, "spec": {
        "pvcs": [{"name": "cache", "create": true, "size": "1Gi", "storageClass": "s", "volumeAccessMode": "ReadWriteOnce"}],
        "services": {"Frontend": {"componentType": "frontend", "replicas": 1, "ingress": {"enabled": true, "host": "h"},
            "extraPodSpec": {"mainContainer": {"image": "any:1"}}}}}});
    let mut older = dynosim_api::convert::convert(older, "nvidia.com/v1beta1").expect("converted");
    space.apply(older.clone()).await;
    space.ready("old").await;
    let annotations = older["metadata"]["annotations"].as_object_mut().expect("what only the older form says");
    annotations.clear();
    space.apply(older).await;
    space.settled().await;
    // Components, their accounts, and what leads to them go.
    let mut bare = graph("g", &[]);
    bare["metadata"]["annotations"] = json!({"nvidia.com/dynamo-discovery-backend": "etcd"});
    space.apply(bare).await;
    space.settled().await;
    space.ready("g").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_are_what_is_done_and_nothing_else() {
    in_space("rules", async |space| {
        space.kill();
        let user = space.server().user("operator-of-rules", None);
        let role = role(space.name());
        space.server().apply(&role.to_string());
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "operator", "namespace": space.name()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator-of-rules"}]});
        space.server().apply(&binding.to_string());
        let client = client_by(&user).await;
        let proxy = Proxy::start("rules", client, Mischief::default()).await;
        let mut command = space.command();
        command.env("KUBECONFIG", &proxy.kubeconfig);
        space.start_with(command);
        exercise(space).await;
        assert!(!space.log().contains("forbidden"), "{}", space.log());
        let asked: BTreeSet<_> = {
            let all = proxy.mischief.asked.lock().expect("no panic");
            all.iter().filter_map(|(method, uri)| asked(method, uri)).collect()
        };
        let allowed: BTreeSet<_> = RULES
            .iter()
            .filter(|rule| matches!(rule.only, Only::Always | Only::OneNamespace))
            .flat_map(|rule| {
                rule.verbs.iter().map(|verb| (rule.group.to_owned(), rule.resource.to_owned(), (*verb).to_owned()))
            })
            .collect();
        let spare: Vec<_> = allowed.difference(&asked).filter(|rule| !is_indirect(rule)).collect();
        let lacking: Vec<_> = asked.difference(&allowed).collect();
        assert!(spare.is_empty() && lacking.is_empty(), "never done: {spare:?}; not allowed: {lacking:?}");
        let check = command_of_check(space, &user);
        assert_eq!(check, (true, String::new()));
    })
    .await;
}

/// Rights that the server asks for besides a call: to make an object by applying it, and to name an owner that is held.
fn is_indirect((_, resource, verb): &(String, String, String)) -> bool {
    verb == "create" || resource == "dynamographdeployments/finalizers"
}

fn command_of_check(space: &Space, user: &Path) -> (bool, String) {
    let mut command = space.command();
    let output = command.env("KUBECONFIG", user).arg("--check").output().expect("it ends");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_names_what_an_account_lacks() {
    in_space("check", async |space| {
        let user = space.server().user("nobody-of-check", None);
        let (succeeded, said) = command_of_check(space, &user);
        assert!(!succeeded);
        let lines: Vec<_> = said.lines().collect();
        assert!(lines.contains(&"lacks patch deployments.apps (pods of components)"), "{said}");
        assert!(lines.contains(&"lacks list secrets (secrets for registries)"), "{said}");
        let (succeeded, said) = command_of_check(space, &space.server().kubeconfig());
        assert_eq!((succeeded, said.as_str()), (true, ""));
    })
    .await;
}
