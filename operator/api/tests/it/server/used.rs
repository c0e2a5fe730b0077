//! What clients do with the resources: explain, list, scale, write as workers do.

use serde_json::{Value, json};

use super::server;

#[test]
fn the_definitions_are_structural_and_in_use() {
    let Some(server) = server() else { return };
    let said = server.kubectl("default", &["get", "crd", "--output=json"], "");
    let list: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let items = list["items"].as_array().expect("a list");
    assert_eq!(items.len(), 3);
    for item in items {
        let conditions = item["status"]["conditions"].as_array().expect("conditions");
        let status = |kind: &str| conditions.iter().find(|c| c["type"] == kind).map(|c| c["status"].clone());
        assert_eq!(status("Established"), Some("True".into()));
        assert_eq!(status("NamesAccepted"), Some("True".into()));
        assert!(status("NonStructuralSchema").is_none_or(|status| status == "False"));
        let served =
            item["spec"]["versions"].as_array().expect("versions").iter().all(|version| version["served"] == true);
        assert!(served);
    }
}

#[test]
fn explain_tells_of_every_level_in_both_versions() {
    let Some(server) = server() else { return };
    for (version, path, text) in [
        ("v1beta1", "dgd", "A serving graph: the components that together serve models."),
        ("v1beta1", "dgd.spec.components.type", "ENUM:\n    frontend\n    worker\n    prefill\n    decode"),
        ("v1beta1", "dgd.spec.components.podTemplate.spec.containers.env", "wins over the graph's by name"),
        ("v1beta1", "dgd.spec.components.sharedMemorySize", "8Gi if not given"),
        ("v1beta1", "dgd.status.components.servedModelName", "Name of the model as clients ask for it."),
        ("v1alpha1", "dgd.spec.services.subComponentType", "`prefill` or `decode`, for workers."),
        ("v1alpha1", "dgd.spec.services.ingress.hostSuffix", "What stands after the host's name"),
        ("v1beta1", "dgdsa.spec.dgdRef.componentName", "Name of the component, as the graph writes it."),
        ("v1alpha1", "dynamoworkermetadatas.spec.data", "`null` is as good as empty"),
    ] {
        let said = server.kubectl("default", &["explain", path, &format!("--api-version=nvidia.com/{version}")], "");
        let found: Vec<_> = said.stdout.lines().map(str::trim_end).collect();
        let found = found.join("\n");
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&found).contains(&words(text)), "{path}: {found}{}", said.stderr);
    }
}

#[test]
fn lists_show_what_people_look_for() {
    let Some(server) = server() else { return };
    server.namespace("listed");
    server.create("listed", "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: g}, spec: {backendFramework: vllm, components: [{name: A}]}}");
    server.create("listed", "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: g-a}, spec: {replicas: 2, dgdRef: {name: g, componentName: A}}}");
    let status = json!({"status": {"conditions": [{
        "type": "Ready", "status": "True", "reason": "all_resources_are_ready", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let patch = |resource: &str, name: &str, status: &Value| {
        let patch = status.to_string();
        let args = ["patch", resource, name, "--subresource=status", "--type=merge", "--patch", &patch];
        let said = server.kubectl("listed", &args, "");
        assert!(said.ok, "{}", said.stderr);
    };
    patch("dgd", "g", &status);
    patch("dgdsa", "g-a", &json!({"status": {"replicas": 1}}));
    let row = |args: &[&str]| {
        let said = server.kubectl("listed", args, "");
        let lines: Vec<Vec<String>> =
            said.stdout.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
        assert_eq!(lines.len(), 2, "{}{}", said.stdout, said.stderr);
        // The last column is the age.
        lines.into_iter().map(|mut line| line.drain(..line.len() - 1).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(row(&["get", "dgd"]), ["NAME READY BACKEND", "g True vllm"]);
    assert_eq!(row(&["get", "dynamographdeployments.v1alpha1.nvidia.com"]), ["NAME READY BACKEND", "g True vllm"]);
    assert_eq!(row(&["get", "dgdsa"]), ["NAME DGD COMPONENT REPLICAS", "g-a g A 1"]);
    let older = "dynamographdeploymentscalingadapters.v1alpha1.nvidia.com";
    assert_eq!(row(&["get", older]), ["NAME DGD SERVICE REPLICAS", "g-a g A 1"]);
    let all = server.kubectl("listed", &["get", "dynamo", "--output=name"], "").stdout;
    assert_eq!(all.lines().count(), 2, "{all}");
    let warned = server.kubectl("listed", &["get", "dynamographdeployments.v1alpha1.nvidia.com"], "").stderr;
    assert!(
        warned.contains("nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; use nvidia.com/v1beta1"),
        "{warned}"
    );
}

#[test]
fn an_adapter_is_scaled_through_its_subresource_in_both_versions() {
    let Some(server) = server() else { return };
    server.namespace("scaled");
    server.create("scaled", "{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: g-a}, spec: {replicas: 1, dgdRef: {name: g, serviceName: A}}}");
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}}).to_string();
    let args = ["patch", "dgdsa", "g-a", "--subresource=status", "--type=merge", "--patch", &status];
    assert!(server.kubectl("scaled", &args, "").ok);
    let scale = |version: &str, replicas: u32| {
        let resource = format!("dynamographdeploymentscalingadapters.{version}.nvidia.com/g-a");
        let said = server.kubectl("scaled", &["scale", &resource, &format!("--replicas={replicas}")], "");
        assert!(said.ok, "{}", said.stderr);
        server.get("scaled", "dgdsa", "g-a")["spec"].clone()
    };
    let spec = |replicas: u32| json!({"replicas": replicas, "dgdRef": {"name": "g", "componentName": "A"}});
    assert_eq!(scale("v1beta1", 3), spec(3));
    assert_eq!(scale("v1alpha1", 0), spec(0));
    // As the planner does.
    let patch = json!({"spec": {"replicas": 5}}).to_string();
    let args = ["patch", "dgdsa", "g-a", "--subresource=scale", "--type=merge", "--patch", &patch];
    assert!(server.kubectl("scaled", &args, "").ok);
    let path = "/apis/nvidia.com/v1beta1/namespaces/scaled/dynamographdeploymentscalingadapters/g-a/scale";
    let found: Value =
        serde_json::from_str(&server.kubectl("scaled", &["get", "--raw", path], "").stdout).expect("JSON");
    assert_eq!(
        (&found["spec"], &found["status"]),
        (&json!({"replicas": 5}), &json!({"replicas": 1, "selector": "a=b"}))
    );
    let negative = server.kubectl(
        "scaled",
        &["patch", "dgdsa", "g-a", "--subresource=scale", "--type=merge", "--patch", r#"{"spec":{"replicas":-1}}"#],
        "",
    );
    assert!(negative.stderr.contains("spec.replicas: Invalid value: -1: "), "{}", negative.stderr);
}

#[test]
fn replicas_that_are_not_given_stay_so_and_nulls_are_as_good_as_that() {
    let Some(server) = server() else { return };
    server.namespace("defaults");
    server.create(
        "defaults",
        "
{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: g}, spec: {env: null, components: [
  {name: a, replicas: null, multinode: {}, podTemplate: {spec: {containers: [{name: main, env: null}], newer: null}}},
]}}",
    );
    // The number 1 is for the operator's webhook to write: it tells who owns it from what was written.
    assert_eq!(
        server.get("defaults", "dgd", "g")["spec"],
        json!({"components": [{
            "name": "a", "multinode": {"nodeCount": 2},
            "podTemplate": {"spec": {"containers": [{"name": "main"}], "newer": null}},
        }]})
    );
    let status = json!({"status": {"observedGeneration": 1}}).to_string();
    let args = ["patch", "dgd", "g", "--subresource=status", "--type=merge", "--patch", &status];
    assert!(server.kubectl("defaults", &args, "").ok);
    assert_eq!(server.get("defaults", "dgd", "g")["status"], json!({"observedGeneration": 1, "state": "initializing"}));
}

#[test]
fn a_worker_writes_as_the_published_one_does_and_its_nulls_stay() {
    let Some(server) = server() else { return };
    server.namespace("worker");
    let endpoint = json!({
        "type": "Endpoint", "namespace": "dynamo", "component": "backend", "endpoint": "generate",
        "instance_id": 282_580_808_468_563_u64, "device_type": "cuda", "request_plane_codec": "msgpack",
        "transport": {"tcp": "10.0.0.7:34147/1010178b58853/dynamo/backend/generate"},
    });
    let card = json!({
        "type": "Model", "namespace": "dynamo", "component": "backend", "endpoint": "generate",
        "instance_id": 282_580_808_468_563_u64, "card_json": {"display_name": "m", "lora": null, "context_length": 0, "x": [1.5]},
    });
    let key = "dynamo/backend/generate/1010178b58853";
    let data = json!({
        "endpoints": {key: endpoint}, "model_cards": {key: card}, "event_channels": null, "event_sources": {"a/b": {"type": "EventSource"}},
    });
    let object = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoWorkerMetadata",
        "metadata": {"name": "worker-a", "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": "worker-a", "uid": "0f6ab3ef-6d5c-4c6b-9c8e-000000000000",
            "controller": true, "blockOwnerDeletion": false,
        }]},
        "spec": {"data": data},
    });
    let apply = ["apply", "--server-side", "--force-conflicts", "--field-manager=dynamo-worker", "--filename=-"];
    let said = server.kubectl("worker", &apply, &object.to_string());
    assert!(said.ok, "{}", said.stderr);
    assert_eq!(server.get("worker", "dynamoworkermetadatas", "worker-a")["spec"]["data"], data);
    let mut emptied = object;
    emptied["spec"]["data"] =
        json!({"endpoints": null, "model_cards": {}, "event_channels": null, "event_sources": null});
    let said = server.kubectl("worker", &apply, &emptied.to_string());
    assert!(said.ok, "{}", said.stderr);
    // A map that was applied with entries and is now without becomes null.
    emptied["spec"]["data"]["model_cards"] = Value::Null;
    assert_eq!(server.get("worker", "dynamoworkermetadatas", "worker-a")["spec"], emptied["spec"]);
}
