//! How each field of one version is said in the other.

use serde_json::{Value, json};

use super::{ALPHA, BETA, graph, leftovers, to_alpha, to_beta};

fn service(fields: &Value) -> Value {
    graph(ALPHA, &json!({"services": {"A": fields}}))
}

fn component(fields: &Value) -> Value {
    let mut fields = fields.clone();
    fields["name"] = "A".into();
    graph(BETA, &json!({"components": [fields]}))
}

/// A component whose main container has these fields.
fn main(fields: &Value) -> Value {
    let mut fields = fields.clone();
    fields["name"] = "main".into();
    component(&json!({"podTemplate": {"spec": {"containers": [fields]}}}))
}

#[test]
fn fields_that_both_versions_have_leave_nothing_over() {
    let env = json!([{"name": "X", "value": "1"}]);
    let adapter = json!({"enabled": true});
    let rows = [
        (service(&json!({})), component(&json!({}))),
        (service(&json!({"componentType": "frontend"})), component(&json!({"type": "frontend"}))),
        (service(&json!({"componentType": "worker"})), component(&json!({"type": "worker"}))),
        (
            service(&json!({"componentType": "worker", "subComponentType": "prefill"})),
            component(&json!({"type": "prefill"})),
        ),
        (
            service(&json!({"componentType": "worker", "subComponentType": "decode"})),
            component(&json!({"type": "decode"})),
        ),
        (service(&json!({"replicas": 0})), component(&json!({"replicas": 0}))),
        (service(&json!({"globalDynamoNamespace": true})), component(&json!({"globalDynamoNamespace": true}))),
        (service(&json!({"scalingAdapter": adapter})), component(&json!({"scalingAdapter": {}}))),
        (service(&json!({"sharedMemory": {"size": "1Gi"}})), component(&json!({"sharedMemorySize": "1Gi"}))),
        (service(&json!({"sharedMemory": {"disabled": true}})), component(&json!({"sharedMemorySize": "0"}))),
        (service(&json!({"modelRef": {"name": "m"}})), component(&json!({"modelRef": {"name": "m"}}))),
        (service(&json!({"failover": {"a": 1}})), component(&json!({"experimental": {"failover": {"a": 1}}}))),
        (service(&json!({"checkpoint": {}})), component(&json!({"experimental": {"checkpoint": {}}}))),
        (
            service(&json!({"extraPodMetadata": {"labels": {"a": "b"}}})),
            component(&json!({"podTemplate": {"metadata": {"labels": {"a": "b"}}}})),
        ),
        (
            service(&json!({"extraPodSpec": {"nodeSelector": {"a": "b"}}})),
            component(&json!({"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}})),
        ),
        (
            service(&json!({"extraPodSpec": {"mainContainer": {"image": "i", "args": ["x"]}}})),
            main(&json!({"image": "i", "args": ["x"]})),
        ),
        (service(&json!({"envs": env, "extraPodSpec": {"mainContainer": {}}})), main(&json!({"env": env}))),
        (
            service(&json!({"envFromSecret": "s", "extraPodSpec": {"mainContainer": {}}})),
            main(&json!({"envFrom": [{"secretRef": {"name": "s"}}]})),
        ),
        (
            service(&json!({
                "resources": {"limits": {"cpu": "1", "memory": "1Gi", "gpu": "2", "custom": {"a/b": "3"}}},
                "extraPodSpec": {"mainContainer": {}},
            })),
            main(&json!({"resources": {"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "2", "a/b": "3"}}})),
        ),
        (
            service(&json!({"readinessProbe": {"httpGet": {"port": 1}}, "extraPodSpec": {"mainContainer": {}}})),
            main(&json!({"readinessProbe": {"httpGet": {"port": 1}}})),
        ),
        (
            service(&json!({"volumeMounts": [{"name": "v", "mountPoint": "/c", "useAsCompilationCache": true}]})),
            component(&json!({"compilationCache": {"pvcName": "v", "mountPath": "/c"}})),
        ),
        (service(&json!({"newer": {"a": null}})), component(&json!({"newer": {"a": null}}))),
        (
            graph(ALPHA, &json!({"services": {}, "envs": env, "restart": {"id": "1"}, "backendFramework": "vllm"})),
            graph(BETA, &json!({"components": [], "env": env, "restart": {"id": "1"}, "backendFramework": "vllm"})),
        ),
    ];
    for (alpha, beta) in rows {
        assert_eq!(to_beta(&alpha), beta);
        assert_eq!(to_alpha(&beta), alpha);
    }
}

#[test]
fn what_the_newer_version_says_otherwise_means_the_same_and_comes_back() {
    let rows = [
        (service(&json!({"componentType": "decode"})), component(&json!({"type": "decode"}))),
        (service(&json!({"componentType": "router"})), component(&json!({}))),
        (service(&json!({"scalingAdapter": {}})), component(&json!({}))),
        (service(&json!({"scalingAdapter": {"enabled": false}})), component(&json!({}))),
        (service(&json!({"ingress": {"enabled": true, "host": "h"}})), component(&json!({}))),
        (service(&json!({"dynamoNamespace": "n", "autoscaling": {}, "serviceName": "A"})), component(&json!({}))),
        (
            service(&json!({"labels": {"a": "1", "b": "1"}, "extraPodMetadata": {"labels": {"a": "2"}}})),
            component(&json!({"podTemplate": {"metadata": {"labels": {"a": "2", "b": "1"}}}})),
        ),
        (
            service(&json!({
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"gpu": "1", "gpuType": "amd.com/gpu"}},
                "extraPodSpec": {"mainContainer": {"resources": {"requests": {"cpu": "2"}}}},
            })),
            main(&json!({"resources": {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"amd.com/gpu": "1"}}})),
        ),
        (
            service(&json!({"volumeMounts": [{"name": "v", "mountPoint": "/m"}]})),
            component(&json!({"podTemplate": {"spec": {
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}],
                "containers": [{"name": "main", "volumeMounts": [{"name": "v", "mountPath": "/m"}]}],
            }}})),
        ),
        (graph(ALPHA, &json!({"pvcs": [{"name": "v"}], "services": {}})), graph(BETA, &json!({"components": []}))),
    ];
    for (alpha, beta) in rows {
        let mut there = to_beta(&alpha);
        assert!(leftovers(&there).is_some(), "{alpha}");
        assert_eq!(to_alpha(&there), alpha);
        there["metadata"].as_object_mut().expect("an object").remove("annotations");
        assert_eq!(there, beta);
    }
}

#[test]
fn the_strongest_entry_of_an_environment_stays() {
    let entry = |name: &str, from: &str| json!({"name": name, "value": from});
    let alpha = graph(
        ALPHA,
        &json!({
            "envs": [entry("graph", "graph"), entry("both", "graph")],
            "services": {"A": {
                "envs": [entry("own", "own"), entry("both", "own")],
                "extraPodSpec": {"mainContainer": {"env": [
                    entry("graph", "main"), entry("both", "main"), entry("own", "main"), entry("main", "main"),
                ]}},
            }},
        }),
    );
    let beta = to_beta(&alpha);
    let main = &beta["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0];
    assert_eq!(main["env"], json!([entry("both", "own"), entry("own", "own"), entry("main", "main")]));
    assert_eq!(beta["spec"]["env"], alpha["spec"]["envs"]);
    assert_eq!(to_alpha(&beta), alpha);
}

#[test]
fn sidecars_stay_and_the_main_container_keeps_its_place() {
    let sidecar = json!({"name": "side", "image": "s"});
    let beta = component(&json!({"podTemplate": {"spec": {"containers": [sidecar, {"name": "main", "image": "i"}]}}}));
    let alpha = to_alpha(&beta);
    let pod = json!({"containers": [sidecar], "mainContainer": {"image": "i"}});
    assert_eq!(alpha["spec"]["services"]["A"]["extraPodSpec"], pod);
    assert!(
        leftovers(&alpha).is_some_and(|text| text.contains(r#""names":["side","main"]"#) && !text.contains("cells"))
    );
    assert_eq!(to_beta(&alpha), beta);
}

#[test]
fn the_status_has_the_names_of_each_version() {
    let mut beta = graph(BETA, &json!({"components": [{"name": "A"}]}));
    beta["status"] = json!({
        "observedGeneration": 3,
        "components": {"A": {"componentKind": "Deployment", "componentNames": ["g-a-1", "g-a-2"], "replicas": 1}},
        "rollingUpdate": {"phase": "InProgress", "updatedComponents": ["A"]},
    });
    let alpha = to_alpha(&beta);
    assert_eq!(
        alpha["status"],
        json!({
            "observedGeneration": 3,
            "services": {"A": {
                "componentKind": "Deployment", "componentName": "g-a-1", "componentNames": ["g-a-1", "g-a-2"], "replicas": 1,
            }},
            "rollingUpdate": {"phase": "InProgress", "updatedServices": ["A"]},
        })
    );
    assert_eq!(leftovers(&alpha), None);
    assert_eq!(to_beta(&alpha), beta);
}

#[test]
fn a_scaling_adapter_names_its_component_by_each_version() {
    let adapter = |version: &str, field: &str| {
        json!({
            "apiVersion": version, "kind": "DynamoGraphDeploymentScalingAdapter", "metadata": {"name": "g-a"},
            "spec": {"replicas": 2, "dgdRef": {"name": "g", field: "A"}}, "status": {"replicas": 1},
        })
    };
    let (alpha, beta) = (adapter(ALPHA, "serviceName"), adapter(BETA, "componentName"));
    assert_eq!(to_beta(&alpha), beta);
    assert_eq!(to_alpha(&beta), alpha);
}
