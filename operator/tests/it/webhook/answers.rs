//! What people read who send graphs.

use std::fmt::Write as _;
use std::time::Duration;

use dynosim_api::convert::convert;
use dynosim_peers::assert_golden;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::cluster::{Cluster, connect, run, text, until};
use crate::bad;
use crate::manifests::folder;

const GRAPHS: &str = "dynamographdeployments";

#[test]
fn an_api_server_is_answered() {
    let Some(cluster) = Cluster::start() else { return };
    run(async {
        // Stored before anybody looked: it cannot be used, and something is left to do when it is deleted.
        let stale = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: stale, finalizers: [a.test/b]}, spec: {components: [{name: a, type: frontend, multinode: {}}]}}";
        assert!(cluster.kubectl(&["create", "--filename=-"], stale).ok);
        cluster.configure();
        let mut settings = cluster.settings();
        // Watches alone tell of changes.
        settings.check = Duration::from_hours(1);
        let running = cluster.webhooks(settings).await;
        running.is_ready().await;
        // At once.
        both_versions_are_defaulted_and_stamped(&cluster);
        every_bad_manifest_is_refused_in_these_words(&cluster).await;
        what_cannot_be_read_is_refused_by_the_definition(&cluster);
        what_has_no_effect_is_warned_of(&cluster);
        an_adapter_is_not_fought(&cluster);
        a_stale_graph_is_labelled_and_deleted(&cluster);
        nothing_is_written_while_nothing_changes(&cluster).await;
        what_somebody_takes_away_is_put_back(&cluster).await;
        requests_are_counted(&running.registry);
        strange_requests_are_refused(&cluster).await;
        running.end().await;
        what_is_sent_while_nobody_answers_can_be_sent_again(&cluster).await;
    });
}

/// Neither stored unseen nor lost; and deleting needs nobody.
async fn what_is_sent_while_nobody_answers_can_be_sent_again(cluster: &Cluster) {
    let graph = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: patient}, spec: {components: [{name: F, type: frontend}]}}";
    let apply = || cluster.kubectl(&["apply", "--filename=-"], graph);
    let refused = apply();
    assert!(!refused.ok && refused.stderr.contains("failed calling webhook"), "{}", refused.stderr);
    let there = || cluster.kubectl(&["get", GRAPHS, "patient", "--ignore-not-found", "--output=name"], "").stdout;
    assert_eq!(there(), "");
    let running = cluster.webhooks(cluster.settings()).await;
    running.is_ready().await;
    let said = apply();
    assert!(said.ok, "{}", said.stderr);
    running.end().await;
    let said = cluster.kubectl(&["delete", GRAPHS, "patient", "--wait=false"], "");
    assert!(said.ok, "{}", said.stderr);
    assert_eq!(there(), "");
}

fn both_versions_are_defaulted_and_stamped(cluster: &Cluster) {
    let worker = "extraPodSpec: {mainContainer: {args: [--model-path, m]}}";
    let alpha = format!(
        "{{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {{name: old}}, spec: {{services: {{F: {{componentType: frontend}}, d: {{componentType: worker, subComponentType: decode, {worker}}}}}}}}}"
    );
    let beta = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {generateName: new-}, spec: {components: [{name: F, type: frontend}]}}";
    let said = cluster.kubectl(&["create", "--filename=-"], &alpha);
    assert!(said.ok, "{}", said.stderr);
    let old = cluster.get(GRAPHS, "old");
    let stamp = "nvidia.com/dynamo-operator-origin-version";
    assert_eq!(old["metadata"]["annotations"][stamp], env!("CARGO_PKG_VERSION"));
    let replicas: Vec<_> =
        old["spec"]["components"].as_array().into_iter().flatten().map(|component| &component["replicas"]).collect();
    assert_eq!(replicas, [1, 1]);
    let old = cluster.get("dynamographdeployments.v1alpha1.nvidia.com", "old");
    assert_eq!(
        (&old["spec"]["services"]["F"]["replicas"], &old["spec"]["services"]["d"]["replicas"]),
        (&json!(1), &json!(1))
    );
    let said = cluster.kubectl(&["create", "--filename=-", "--output=json"], beta);
    let new: Value = serde_json::from_str(&said.stdout).expect(&said.stderr);
    assert_eq!(new["spec"]["components"][0]["replicas"], 1);
    // The same once more is no write.
    let again = |text: &str| {
        let said = cluster.kubectl(&["apply", "--server-side", "--filename=-", "--output=json"], text);
        let object: Value = serde_json::from_str(&said.stdout).expect(&said.stderr);
        object["metadata"]["resourceVersion"].clone()
    };
    let named = beta.replace("generateName: new-", "name: new");
    assert_eq!(again(&named), again(&named));
}

/// What the API server says to a graph in a version. A restart needs a graph that is there.
async fn refusal(client: &kube::Client, version: &str, graph: &Value) -> String {
    let kind = GroupVersionKind::gvk("nvidia.com", version, "DynamoGraphDeployment");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "test", &ApiResource::from_gvk(&kind));
    let params = PostParams::default();
    let mut object: DynamicObject = serde_json::from_value(graph.clone()).expect("an object");
    object.metadata.uid = None;
    let answer = if graph["spec"]["restart"].is_null() {
        api.create(&params, &object).await
    } else {
        let mut before = object.clone();
        before.data["spec"].as_object_mut().expect("fields").remove("restart");
        let made = api.create(&params, &before).await.expect("a graph without a restart");
        object.metadata.resource_version = made.metadata.resource_version;
        let answer = api.replace("g", &params, &object).await;
        api.delete("g", &kube::api::DeleteParams::default()).await.expect("deleted");
        answer
    };
    match answer {
        Err(kube::Error::Api(status)) => {
            assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{status:?}");
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            let causes: Vec<_> = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            assert!(status.message.ends_with(&causes.join("; ")), "{}", status.message);
            status.message
        }
        other => panic!("{graph}: {other:?}"),
    }
}

async fn every_bad_manifest_is_refused_in_these_words(cluster: &Cluster) {
    let client = cluster.client(&cluster.api.kubeconfig()).await;
    let mut in_older_words = String::new();
    let bad: Vec<_> = bad::all().into_iter().filter(|(_, errors)| !errors.is_empty()).collect();
    assert!(bad.len() >= 80, "{}", bad.len());
    for (graph, errors) in bad {
        let beta = serde_json::to_value(&graph).expect("JSON");
        let start = "admission webhook \"mutate.dynosim.test\" denied the request: ";
        assert_eq!(refusal(&client, "v1beta1", &beta).await, format!("{start}{}", errors.join("; ")));
        let alpha = convert(beta, "nvidia.com/v1alpha1").expect("converted");
        // Its services are a map, in which a name cannot stand twice.
        let said = refusal(&client, "v1alpha1", &alpha).await;
        let said = said.strip_prefix(start).unwrap_or_else(|| panic!("{said}"));
        writeln!(in_older_words, "{}", said.replace("; spec.", "\n  spec.")).expect("written");
    }
    assert_golden(&folder("golden").join("denials-alpha.txt"), &in_older_words);
}

fn what_cannot_be_read_is_refused_by_the_definition(cluster: &Cluster) {
    let bad = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: bad}, spec: {backendFramework: 7, components: [{name: a, replicas: many}]}}";
    let said = cluster.kubectl(&["create", "--filename=-"], bad);
    for path in ["spec.backendFramework: Invalid value", "spec.components[0].replicas: Invalid value"] {
        assert!(!said.ok && said.stderr.contains(path), "{}", said.stderr);
    }
    // Fields of pods that the definition does not name are read by the webhook alone.
    let bad = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: bad}, spec: {components: [{name: a, podTemplate: {spec: {hostAliases: 7}}}]}}";
    let said = cluster.kubectl(&["create", "--filename=-"], bad);
    let message = "The DynamoGraphDeployment \"bad\" is invalid: spec.components[0].podTemplate.spec.hostAliases: invalid type: integer `7`, expected a sequence";
    assert!(!said.ok && said.stderr.contains(message), "{}", said.stderr);
}

fn what_has_no_effect_is_warned_of(cluster: &Cluster) {
    let alpha = "{apiVersion: nvidia.com/v1alpha1, kind: DynamoGraphDeployment, metadata: {name: warned}, spec: {services: {a: {componentType: frontend, replica: 2, dynamoNamespace: x, autoscaling: {enabled: true}}}}}";
    let said = cluster.kubectl(&["create", "--filename=-"], alpha);
    assert!(said.ok, "{}", said.stderr);
    let warnings: Vec<_> = said.stderr.lines().collect();
    assert_eq!(
        warnings,
        [
            "Warning: nvidia.com/v1alpha1 DynamoGraphDeployment is deprecated; use nvidia.com/v1beta1",
            "Warning: spec.services.a.replica: is not known here, it is kept",
            "Warning: spec.services.a.dynamoNamespace: is deprecated and has no effect, the graph's is used",
            "Warning: spec.services.a.autoscaling: is deprecated and has no effect, use scalingAdapter",
        ]
    );
}

fn an_adapter_is_not_fought(cluster: &Cluster) {
    let graph = |replicas: u32| {
        format!(
            "{{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {{name: scaled}}, spec: {{components: [{{name: F, type: frontend, replicas: {replicas}, scalingAdapter: {{}}}}]}}}}"
        )
    };
    let apply = |replicas: u32| {
        let said = cluster.kubectl(&["apply", "--filename=-"], &graph(replicas));
        assert!(said.ok, "{}", said.stderr);
        said.stderr
    };
    let replicas = || cluster.get(GRAPHS, "scaled")["spec"]["components"][0]["replicas"].clone();
    assert_eq!((apply(1), replicas()), (String::new(), json!(1)));
    // As planners do without an adapter.
    cluster
        .api
        .apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: planner-serviceaccount, namespace: test}}");
    cluster.api.kubectl(&[
        "create",
        "clusterrolebinding",
        "planner",
        "--clusterrole=cluster-admin",
        "--serviceaccount=test:planner-serviceaccount",
    ]);
    let planner = cluster.api.service_account("test", "planner-serviceaccount");
    let patch = r#"[{"op": "replace", "path": "/spec/components/0/replicas", "value": 5}]"#;
    let planner = planner.display().to_string();
    let args = ["--kubeconfig", &planner, "patch", "dgd", "scaled", "--type=json", "--patch", patch];
    let said = cluster.kubectl(&args, "");
    assert!(said.ok, "{}", said.stderr);
    assert_eq!(replicas(), 5);
    let warning = "Warning: spec.components[0].replicas: stays 5, its scaling adapter sets it: kubectl scale dgdsa/scaled-f --replicas=2\n";
    assert_eq!((apply(2), replicas()), (warning.to_owned(), json!(5)));
    let adapter = "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeploymentScalingAdapter, metadata: {name: scaled-f}, spec: {replicas: 5, dgdRef: {name: scaled, componentName: F}}}";
    assert!(cluster.kubectl(&["create", "--filename=-"], adapter).ok);
    assert!(cluster.kubectl(&["scale", "dgdsa/scaled-f", "--replicas=2"], "").ok);
    let said = cluster.kubectl(&["apply", "--filename=-"], &adapter.replace("name: scaled, ", "name: other, "));
    let message = "The DynamoGraphDeploymentScalingAdapter \"scaled-f\" is invalid: spec.dgdRef: cannot be changed: make another adapter for another component";
    assert!(!said.ok && said.stderr.contains(message), "{}", said.stderr);
}

fn a_stale_graph_is_labelled_and_deleted(cluster: &Cluster) {
    let said = cluster.kubectl(&["label", "dgd", "stale", "a=b"], "");
    assert!(said.ok, "{}", said.stderr);
    let scaled = r#"[{"op": "add", "path": "/spec/components/0/replicas", "value": 2}]"#;
    let said = cluster.kubectl(&["patch", "dgd", "stale", "--type=json", "--patch", scaled], "");
    assert!(!said.ok && said.stderr.contains("spec.components[0].multinode: 2 nodes"), "{}", said.stderr);
    assert!(cluster.kubectl(&["delete", "dgd", "stale", "--wait=false"], "").ok);
    let done = r#"{"metadata": {"finalizers": null}}"#;
    let said = cluster.kubectl(&["patch", "dgd", "stale", "--type=merge", "--patch", done], "");
    assert!(said.ok, "{}", said.stderr);
    assert!(!cluster.kubectl(&["get", "dgd", "stale"], "").ok);
}

async fn nothing_is_written_while_nothing_changes(cluster: &Cluster) {
    let before = cluster.versions();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.versions(), before);
}

async fn what_somebody_takes_away_is_put_back(cluster: &Cluster) {
    let kinds = ["mutatingwebhookconfiguration", "validatingwebhookconfiguration"];
    let bundles = |kind: &str| {
        let hooks = cluster.get(kind, "dynosim-webhook")["webhooks"].clone();
        let hooks = hooks.as_array().cloned().unwrap_or_default();
        hooks.iter().map(|hook| hook["clientConfig"]["caBundle"].clone()).collect::<Vec<_>>()
    };
    let expected = cluster.secret()["data"]["ca.crt"].clone();
    // As a release that is applied once more by force.
    for kind in kinds {
        let patch = r#"[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]"#;
        assert!(cluster.kubectl(&["patch", kind, "dynosim-webhook", "--type=json", "--patch", patch], "").ok);
    }
    for kind in kinds {
        until(|| bundles(kind).iter().all(|bundle| *bundle == expected), "the authority in every webhook").await;
    }
    // As the files of `crds/` are.
    let name = "dynamographdeployments.nvidia.com";
    let service = json!({"namespace": "dynosim-system", "name": "dynosim-webhook", "path": "/convert", "port": 443});
    let url = cluster.get("crd", name)["spec"]["conversion"]["webhook"]["clientConfig"]["url"].clone();
    let config = |config: Value| json!({"spec": {"conversion": {"webhook": {"clientConfig": config}}}}).to_string();
    let patch = config(json!({"url": null, "caBundle": null, "service": service}));
    assert!(cluster.kubectl(&["patch", "crd", name, "--type=merge", "--patch", &patch], "").ok);
    let led = json!({"service": {"namespace": "ours", "name": "webhooks", "path": "/convert", "port": 443}, "caBundle": expected});
    let found = || cluster.get("crd", name)["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    until(|| found() == led, "conversion is led to the operator's service").await;
    let back = config(json!({"url": url, "service": null}));
    assert!(cluster.kubectl(&["patch", "crd", name, "--type=merge", "--patch", &back], "").ok);
    until(|| cluster.kubectl(&["get", "dynamographdeployments.v1alpha1.nvidia.com"], "").ok, "conversion works").await;
}

fn requests_are_counted(registry: &prometheus::Registry) {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).expect("text");
    let labels = |operation: &str, more: &str| {
        format!("{{operation=\"{operation}\",{more}resource_type=\"DynamoGraphDeployment\"")
    };
    for start in [
        format!("dynamo_operator_webhook_denials_total{}", labels("CREATE", "reason=\"invalid_config\",")),
        format!("dynamo_operator_webhook_duration_seconds_count{}", labels("UPDATE", "")),
        "dynamo_operator_webhook_requests_total{operation=\"CONVERT\",resource_type=\"DynamoGraphDeployment\",result=\"allowed\"".to_owned(),
        "dynamo_operator_webhook_requests_total{operation=\"UPDATE\",resource_type=\"DynamoGraphDeploymentScalingAdapter\",result=\"denied\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|line| line.starts_with(&start)), "{start}: {text}");
    }
}

async fn strange_requests_are_refused(cluster: &Cluster) {
    let path = "/validate-nvidia-com-v1beta1-dynamographdeployment";
    for (request, status) in [
        (format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n"), "405"),
        ("POST /other HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n".to_owned(), "404"),
        (format!("POST {path}?timeout=10s HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{{}}"), "400"),
        (format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999\r\n\r\n"), "413"),
        (format!("POST {path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), "411"),
        ("POST /convert HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nnull".to_owned(), "400"),
    ] {
        let bundle = text(&cluster.secret()["data"]["ca.crt"]);
        let mut connection = connect(cluster.port, &bundle).await.expect("trusted");
        connection.write_all(request.as_bytes()).await.expect("written");
        let mut head = [0; 12];
        connection.read_exact(&mut head).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&head), format!("HTTP/1.1 {status}"), "{request}");
    }
}
