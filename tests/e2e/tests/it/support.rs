//! The tests' own tools on the real thing.

use dynosim_e2e::{connect, in_namespace};
use futures_util::FutureExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::Api;

const UNSTARTABLE: &str = r"
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data: {key: value}
---
apiVersion: v1
kind: Pod
metadata: {name: unstartable}
spec:
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: main
      image: localhost/nobody-has-this:1
      imagePullPolicy: Never
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

#[tokio::test]
async fn namespaces_refuse_pods_above_the_restricted_level() {
    in_namespace("level", async |space| {
        let root = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"},
            "spec": {"containers": [{"name": "main", "image": "any"}]}}"#;
        let error = space.try_apply(root).await.expect_err("it asks for nothing that the level wants");
        assert!(error.to_string().contains("restricted"), "{error}");
        assert!(space.api::<Pod>().get_opt("root").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn documents_are_applied_in_order_and_again_without_change() {
    in_namespace("apply", async |space| {
        let made = space.apply(UNSTARTABLE).await;
        let kinds: Vec<_> = made.iter().map(|object| object.types.as_ref().unwrap().kind.as_str()).collect();
        assert_eq!(kinds, ["ConfigMap", "Pod"]);
        let [first, again] = [made, space.apply(UNSTARTABLE).await].map(|objects| objects[0].metadata.clone());
        assert_eq!(first.resource_version, again.resource_version);
        let map = space.api::<ConfigMap>().get("first").await.unwrap();
        assert_eq!(map.data.unwrap()["key"], "value");
    })
    .await;
}

#[tokio::test]
async fn the_report_of_a_failure_names_what_pods_wait_for() {
    in_namespace("report", async |space| {
        space.apply(UNSTARTABLE).await;
        let report = space
            .wait("the reason is known", async || {
                let report = space.report().await;
                let told = report.contains("ErrImageNeverPull") && report.contains("event Pod unstartable");
                if told { Ok(report) } else { Err(report) }
            })
            .await;
        assert!(report.contains("pod unstartable: Pending"), "{report}");
    })
    .await;
}

#[tokio::test]
async fn a_namespace_goes_with_its_test_even_if_that_fails() {
    let Some(client) = connect().await else { return };
    let mut name = String::new();
    let test = in_namespace("gone", async |space| {
        name = space.name().to_owned();
        std::panic::resume_unwind(Box::new("as a failed test does"));
    });
    let outcome = std::panic::AssertUnwindSafe(test).catch_unwind().await;
    assert!(outcome.is_err(), "the failure goes on");
    let namespaces: Api<Namespace> = Api::all(client);
    let left = namespaces.get_opt(&name).await.unwrap();
    assert!(left.is_none_or(|namespace| namespace.metadata.deletion_timestamp.is_some()));
}
