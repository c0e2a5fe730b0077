//! The operator's program on a real API server: what it makes, changes, keeps and takes away.

use std::collections::BTreeSet;

use dynosim_api::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::space::{BROKEN, graph, in_space};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_becomes_ready_and_then_nothing_is_written() {
    in_space("steady", async |space| {
        space.apply(graph("g", &[("decode", json!({})), ("prefill", json!({"scalingAdapter": {}}))])).await;
        let ready = space.ready("g").await;
        let status = ready.status.expect("a status");
        assert_eq!(status.state.as_deref(), Some("successful"));
        let decode = &status.components["decode"];
        assert_eq!((decode.replicas, decode.updated_replicas, decode.available_replicas), (1, 1, Some(1)));
        assert_eq!(decode.served_model_name.as_deref(), Some("m"));
        let [name] = &decode.component_names[..] else { panic!("{decode:?}") };
        let hash = name.strip_prefix("g-decode-").expect("a generation");
        assert_eq!(decode.runtime_namespace, Some(format!("steady-g-{hash}")));
        let before = space.settled().await;
        let kinds: BTreeSet<_> = before.keys().filter_map(|key| key.split('/').next()).collect();
        let expected = [
            "Deployment",
            "DynamoGraphDeployment",
            "DynamoGraphDeploymentScalingAdapter",
            "Role",
            "RoleBinding",
            "Service",
            "ServiceAccount",
        ];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
        // Another operator finds nothing to do.
        space.stop();
        space.start();
        space
            .api::<DynamoGraphDeployment>()
            .patch("g", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"labels": {"touched": "1"}}})))
            .await
            .expect("touched");
        let mut after = space.settled().await;
        assert_ne!(after.insert("DynamoGraphDeployment/g".to_owned(), String::new()), None);
        let mut before = before;
        before.insert("DynamoGraphDeployment/g".to_owned(), String::new());
        assert_eq!(before, after);
        assert!(!space.log().contains("written"), "{}", space.log());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_2_a_removed_component_takes_its_objects_along() {
    in_space("removed", async |space| {
        let both = [("decode", json!({})), ("prefill", json!({"scalingAdapter": {}}))];
        space.apply(graph("g", &both)).await;
        space.ready("g").await;
        space.apply(graph("g", &both[..1])).await;
        space
            .wait("nothing of it is left", async || {
                let state = space.state().await;
                let left: Vec<_> = state.keys().filter(|key| key.contains("prefill")).collect();
                if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
            })
            .await;
        let ready = space.ready("g").await;
        assert!(!ready.status.expect("a status").components.contains_key("prefill"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_4_an_adapter_keeps_its_number_whatever_happens_to_the_graph() {
    in_space("adapter", async |space| {
        let workers = [("decode", json!({"scalingAdapter": {}}))];
        space.apply(graph("g", &workers)).await;
        space.ready("g").await;
        space.scale("g-decode", 3).await;
        let graphs = space.api::<DynamoGraphDeployment>();
        let copied = async || {
            let graph = graphs.get("g").await.expect("it is there");
            if graph.spec.components[1].replicas == Some(3) {
                Ok(())
            } else {
                Err("the graph has another number".to_owned())
            }
        };
        space.wait("planners see the number in the graph", copied).await;
        for touch in 0..20 {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"touch": touch.to_string()}}}));
            graphs.patch("g", &PatchParams::default(), &patch).await.expect("touched");
        }
        // The manifest is applied again with its own number.
        space.apply(graph("g", &workers)).await;
        space.stop();
        space.start();
        space.wait("planners see the number again", copied).await;
        space.ready("g").await;
        let replicas = space.replicas().await;
        let decode = replicas.iter().find(|(name, _)| name.starts_with("g-decode-"));
        assert_eq!(decode.map(|(_, replicas)| *replicas), Some(3), "{replicas:?}");
        let adapter = space.api::<DynamoGraphDeploymentScalingAdapter>().get("g-decode").await.expect("it is there");
        let status = adapter.status.expect("a status");
        assert_eq!((adapter.spec.replicas, status.replicas), (3, Some(3)));
        assert!(status.last_scale_time.is_some());
        assert_eq!(
            status.selector.as_deref(),
            Some("nvidia.com/dynamo-graph-deployment-name=g,nvidia.com/dynamo-component=decode")
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_48_changes_of_children_by_others_are_undone() {
    in_space("drift", async |space| {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
        let deployments = space.api::<Deployment>();
        let (name, _) = space.replicas().await.into_iter().find(|(name, _)| name.contains("decode")).expect("decode");
        let by_hand = |patch| Patch::Merge(patch);
        deployments
            .patch_scale(&name, &PatchParams::default(), &by_hand(json!({"spec": {"replicas": 5}})))
            .await
            .expect("scaled");
        space
            .wait("replicas are as the graph says", async || {
                let replicas = space.replicas().await;
                if replicas[&name] == 1 { Ok(()) } else { Err(format!("{replicas:?}")) }
            })
            .await;
        let services = space.api::<Service>();
        let patch = by_hand(json!({"spec": {"selector": {"nvidia.com/dynamo-component": "nobody"}}}));
        services.patch("g-decode", &PatchParams::default(), &patch).await.expect("changed");
        services.delete("g-frontend", &DeleteParams::default()).await.expect("deleted");
        space
            .wait("services are as they were", async || {
                let found = services.get_opt("g-frontend").await.expect("an answer");
                let selector = services.get("g-decode").await.expect("it is there").spec.expect("a spec").selector;
                let component = selector.and_then(|selector| selector.get("nvidia.com/dynamo-component").cloned());
                match (found.is_some(), component.as_deref()) {
                    (true, Some("decode")) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_1_a_graph_is_not_ready_while_a_pod_of_an_earlier_state_counts() {
    in_space("honest", async |space| {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        let first = space.ready("g").await.status.expect("a status").components["decode"].component_names.clone();
        let policy = |mut graph: serde_json::Value, image: &str| {
            graph["metadata"]["annotations"] = json!({"dynosim/image-policy": "Manifest"});
            graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = image.into();
            graph
        };
        space.apply(policy(graph("g", &[("decode", json!({}))]), BROKEN)).await;
        let status = space.condition("g", "False", |text| text.starts_with("rolling_update_in_progress")).await;
        assert_eq!(status.rolling_update.expect("a roll").phase.as_deref(), Some("InProgress"));
        space.settled().await;
        let replicas = space.replicas().await;
        assert_eq!(replicas.get(&first[0]), Some(&1), "the old pod serves on: {replicas:?}");
        space.apply(policy(graph("g", &[("decode", json!({}))]), "good:1")).await;
        let ready = space.ready("g").await.status.expect("a status");
        assert_eq!(ready.components["decode"].component_names.len(), 1);
        assert_ne!(ready.components["decode"].component_names, first);
        assert_eq!(ready.rolling_update.expect("a roll").phase.as_deref(), Some("Completed"));
        assert_eq!(space.replicas().await.len(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_6_components_without_replicas_get_one_and_the_graph_says_so() {
    in_space("unset", async |space| {
        space.apply(graph("g", &[("decode", json!({"replicas": null}))])).await;
        let ready = space.ready("g").await;
        assert_eq!(ready.spec.components[1].replicas, Some(1));
        assert_eq!(space.replicas().await.values().copied().collect::<Vec<_>>(), [1, 1]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_12_every_type_of_component_can_have_no_replicas() {
    in_space("zero", async |space| {
        let mut zero = graph(
            "g",
            &[("decode", json!({"replicas": 0})), ("prefill", json!({"replicas": 0, "scalingAdapter": {}}))],
        );
        zero["spec"]["components"][0]["replicas"] = 0.into();
        space.apply(zero).await;
        space.ready("g").await;
        assert!(space.replicas().await.values().all(|replicas| *replicas == 0));
        space.scale("g-prefill", 2).await;
        space
            .wait("it has two", async || {
                let replicas = space.replicas().await;
                if replicas.values().sum::<i32>() == 2 { Ok(()) } else { Err(format!("{replicas:?}")) }
            })
            .await;
        space.ready("g").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_others_made_under_a_childs_name_is_left_alone() {
    in_space("taken", async |space| {
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "g-frontend"}, "spec": {"ports": [{"port": 1}]}});
        let service = serde_json::from_value(service).expect("a service");
        let theirs = space.api::<Service>().create(&kube::api::PostParams::default(), &service).await.expect("made");
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.condition("g", "False", |text| text.contains("Service g-frontend is there already")).await;
        let now = space.api::<Service>().get("g-frontend").await.expect("it is there");
        assert_eq!(now.metadata.resource_version, theirs.metadata.resource_version);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graph_that_cannot_be_used_says_why_and_keeps_what_it_has() {
    in_space("invalid", async |space| {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
        let before = space.replicas().await;
        let mut bad = graph("g", &[("decode", json!({}))]);
        bad["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["args"] = json!(["--num-workers", "x"]);
        space.apply(bad).await;
        let failed = space.condition("g", "False", |text| text.starts_with("ValidationFailed")).await;
        assert_eq!(failed.state.as_deref(), Some("failed"));
        assert_eq!(space.replicas().await, before);
        let mut unreadable = graph("g", &[("decode", json!({}))]);
        unreadable["spec"]["components"][1]["podTemplate"]["spec"]["affinity"] = json!({"nodeAffinity": 5});
        space.apply(unreadable).await;
        space.condition("g", "False", |text| text.contains("nodeAffinity")).await;
        assert_eq!(space.replicas().await, before);
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_account_of_planners_goes_with_the_last_graph_that_needs_it() {
    in_space("planners", async |space| {
        let with = |name: &str| {
            let mut graph = graph(name, &[("decode", json!({}))]);
            let planner = json!({"name": "Planner", "type": "planner", "replicas": 1,
                "podTemplate": {"spec": {"containers": [{"name": "main", "image": "any:1", "command": ["python3", "-m", "dynamo.planner"]}]}}});
            graph["spec"]["components"].as_array_mut().expect("a list").push(planner);
            graph
        };
        for name in ["a", "b"] {
            space.apply(with(name)).await;
        }
        for name in ["a", "b"] {
            space.ready(name).await;
        }
        let owners = async |expected: Option<usize>| {
            let account = space.api::<ServiceAccount>().get_opt("planner-serviceaccount").await.expect("an answer");
            let owners = account.map(|account| account.metadata.owner_references.unwrap_or_default().len());
            if owners == expected { Ok(()) } else { Err(format!("{owners:?}")) }
        };
        space.wait("both graphs own it", async || owners(Some(2)).await).await;
        space.settled().await;
        space.apply(graph("a", &[("decode", json!({}))])).await;
        space.wait("one graph owns it", async || owners(Some(1)).await).await;
        space.apply(graph("b", &[("decode", json!({}))])).await;
        space.wait("it is gone", async || owners(None).await).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_14_only_one_of_several_operators_acts_and_another_takes_over() {
    in_space("leaders", async |space| {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
        let mut first = std::mem::replace(space, space.sibling());
        space.start();
        space
            .wait(
                "it waits",
                async || if space.log().contains("waits for the lease") { Ok(()) } else { Err(space.log()) },
            )
            .await;
        first.kill();
        space.apply(graph("h", &[("decode", json!({}))])).await;
        space.ready("h").await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_3_nothing_is_made_for_a_graph_that_is_to_go() {
    in_space("going", async |space| {
        space.apply(graph("g", &[("decode", json!({}))])).await;
        space.ready("g").await;
        let graphs = space.api::<DynamoGraphDeployment>();
        let hold = |finalizers: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
        graphs.patch("g", &PatchParams::default(), &hold(json!(["test/hold"]))).await.expect("held");
        graphs.delete("g", &DeleteParams::foreground()).await.expect("deleted");
        space.api::<Service>().delete("g-frontend", &DeleteParams::default()).await.expect("deleted");
        let before = space.settled().await;
        assert!(!before.contains_key("Service/g-frontend"));
        // Not by an operator that did not see it happen either, and not by a change of the graph.
        space.stop();
        space.start();
        let touch = Patch::Merge(json!({"metadata": {"labels": {"touched": "1"}}}));
        graphs.patch("g", &PatchParams::default(), &touch).await.expect("touched");
        let mut after = space.settled().await;
        after.insert("DynamoGraphDeployment/g".to_owned(), before["DynamoGraphDeployment/g"].clone());
        assert_eq!(before, after);
        graphs.patch("g", &PatchParams::default(), &hold(json!([]))).await.expect("let go");
        space
            .wait(
                "it is gone",
                async || if space.graph_is_there("g").await { Err("it is there".to_owned()) } else { Ok(()) },
            )
            .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_cannot_start_shows_its_reason_in_the_graph() {
    in_space("trouble", async |space| {
        let mut broken = graph("g", &[("decode", json!({}))]);
        broken["metadata"]["annotations"] = json!({"dynosim/image-policy": "Manifest"});
        broken["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["image"] = BROKEN.into();
        space.apply(broken).await;
        space.condition("g", "False", |text| text.contains("decode: 0 of 1 available")).await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {
                "nvidia.com/dynamo-graph-deployment-name": "g", "nvidia.com/dynamo-component": "decode"}},
            "spec": {"containers": [{"name": "main", "image": BROKEN}]}});
        let pods = space.api::<Pod>();
        let pod = serde_json::from_value(pod).expect("a pod");
        pods.create(&kube::api::PostParams::default(), &pod).await.expect("made");
        let waiting = json!({"status": {"containerStatuses": [{"name": "main", "image": BROKEN, "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}]}});
        pods.patch_status("p", &PatchParams::default(), &Patch::Merge(waiting)).await.expect("patched");
        space.condition("g", "False", |text| {
            text.starts_with("pods_not_ready") && text.contains("pod p: ImagePullBackOff: container main: not found")
        })
        .await;
        let unplaced = json!({"status": {"containerStatuses": null, "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}});
        pods.patch_status("p", &PatchParams::default(), &Patch::Merge(unplaced)).await.expect("patched");
        space.condition("g", "False", |text| text.starts_with("insufficient_capacity")).await;
        pods.delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
        space.condition("g", "False", |text| text.ends_with("decode: 0 of 1 available")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_goes_through_the_components_one_after_the_other() {
    in_space("restart", async |space| {
        space.apply(graph("g", &[("decode", json!({})), ("prefill", json!({}))])).await;
        space.ready("g").await;
        let mut restarted = graph("g", &[("decode", json!({})), ("prefill", json!({}))]);
        restarted["spec"]["restart"] = json!({"id": "again"});
        space.apply(restarted).await;
        let restart = space
            .wait("all are through", async || {
                let status = space.ready("g").await.status.expect("a status");
                let restart = status.restart.unwrap_or_default();
                if restart.phase.as_deref() == Some("Completed") { Ok(restart) } else { Err(format!("{restart:?}")) }
            })
            .await;
        assert_eq!(restart.observed_id.as_deref(), Some("again"));
        let list = space.api::<Deployment>().list(&kube::api::ListParams::default()).await.expect("a list");
        for deployment in list.items {
            let template = deployment.spec.expect("a spec").template.metadata.expect("metadata");
            assert_eq!(template.annotations.expect("annotations")["nvidia.com/restartAt"], "again");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn report_17_a_graph_goes_without_an_operator() {
    in_space("alone", async |space| {
        space.apply(graph("g", &[("decode", json!({"scalingAdapter": {}}))])).await;
        space.ready("g").await;
        space.stop();
        let graphs = space.api::<DynamoGraphDeployment>();
        assert_eq!(graphs.get("g").await.expect("it is there").metadata.finalizers, None);
        graphs.delete("g", &DeleteParams::default()).await.expect("deleted");
        assert!(!space.graph_is_there("g").await);
        let adapter = space.api::<DynamoGraphDeploymentScalingAdapter>().get("g-decode").await.expect("it is there");
        assert_eq!(adapter.metadata.finalizers, None);
        assert!(adapter.metadata.owner_references.is_some_and(|owners| owners[0].controller == Some(true)));
    })
    .await;
}
