//! Changes of graphs that are there.

use serde_json::json;

use super::server;

const GRAPH: &str = "
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: g}
spec:
  backendFramework: vllm
  components:
    - {name: a, type: decode, replicas: 1, minAvailable: 1}
    - {name: b}
";

#[test]
fn what_cannot_change_stays_and_all_else_may_change() {
    let Some(server) = server() else { return };
    server.namespace("changed");
    server.create("changed", GRAPH);
    let patch = |version: &str, operations: serde_json::Value| {
        let resource = format!("dynamographdeployments.{version}.nvidia.com");
        server.kubectl("changed", &["patch", &resource, "g", "--type=json", "--patch", &operations.to_string()], "")
    };
    let set = |path: &str, value: serde_json::Value| json!([{"op": "add", "path": path, "value": value}]);
    let gone = |path: &str| json!([{"op": "remove", "path": path}]);
    let component = |field: &str, rest: &str| format!("spec.components[0].{field}: Invalid value: {rest}");
    for (version, operations, message) in [
        ("v1beta1", set("/spec/components/0/type", "prefill".into()), component("type", "cannot be changed")),
        ("v1beta1", gone("/spec/components/0/type"), component("type", "cannot be changed")),
        ("v1beta1", set("/spec/components/0/minAvailable", 2.into()), component("minAvailable", "cannot be changed")),
        (
            "v1beta1",
            set("/spec/backendFramework", "sglang".into()),
            "spec.backendFramework: Invalid value: cannot be changed".to_owned(),
        ),
        (
            "v1beta1",
            gone("/spec/backendFramework"),
            "spec.backendFramework: Invalid value: cannot be changed".to_owned(),
        ),
        (
            "v1alpha1",
            set("/spec/services/a/componentType", "planner".into()),
            "spec.services[a].componentType: Invalid value: cannot be changed".to_owned(),
        ),
    ] {
        let said = patch(version, operations.clone());
        assert!(!said.ok, "{operations} was taken");
        assert!(said.stderr.contains(&message), "{operations}: {}", said.stderr);
    }
    for (version, operations) in [
        // What the planner sends where there is no scaling adapter.
        (
            "v1beta1",
            json!([
                {"op": "test", "path": "/spec/components/1/name", "value": "b"},
                {"op": "add", "path": "/spec/components/1/replicas", "value": 3},
            ]),
        ),
        ("v1beta1", set("/spec/components/1/type", "planner".into())),
        ("v1beta1", set("/spec/restart", json!({"id": "1", "strategy": {"order": ["b", "a"]}}))),
        ("v1alpha1", set("/spec/services/a/replicas", 5.into())),
    ] {
        let said = patch(version, operations.clone());
        assert!(said.ok, "{operations}: {}", said.stderr);
    }
    let stored = server.get("changed", "dgd", "g");
    assert_eq!(
        stored["spec"],
        json!({
            "backendFramework": "vllm",
            "restart": {"id": "1", "strategy": {"type": "Sequential", "order": ["b", "a"]}},
            "components": [
                {"name": "a", "type": "decode", "replicas": 5, "minAvailable": 1},
                {"name": "b", "type": "planner", "replicas": 3},
            ],
        })
    );
}

#[test]
fn a_manifest_of_the_older_version_is_applied_again_over_one_that_was_scaled() {
    let Some(server) = server() else { return };
    server.namespace("again");
    let manifest = include_str!("shapes/alpha-fields.yaml");
    let apply = || server.kubectl("again", &["apply", "--server-side", "--filename=-"], manifest);
    let said = apply();
    assert!(said.ok, "{}", said.stderr);
    let before = server.get("again", "dynamographdeployments.v1alpha1.nvidia.com", "alpha-fields");
    let scale = json!([{"op": "replace", "path": "/spec/components/2/replicas", "value": 4}]).to_string();
    let said = server.kubectl("again", &["patch", "dgd", "alpha-fields", "--type=json", "--patch", &scale], "");
    assert!(said.ok, "{}", said.stderr);
    let after = server.get("again", "dynamographdeployments.v1alpha1.nvidia.com", "alpha-fields");
    let mut expected = before.clone();
    expected["spec"]["services"]["Worker"]["replicas"] = 4.into();
    assert_eq!(after, expected);
    let said = server.kubectl("again", &["apply", "--server-side", "--force-conflicts", "--filename=-"], manifest);
    assert!(said.ok, "{}", said.stderr);
    assert_eq!(server.get("again", "dynamographdeployments.v1alpha1.nvidia.com", "alpha-fields"), before);
}
