//! Crashes, lost connections, late and lost events: always the same objects in the end.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dynosim_api::v1beta1::DynamoGraphDeployment;
use kube::Api;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::proxy::{Mischief, Proxy};
use crate::space::{Space, graph, in_space};

/// Most writes that the steps need.
const WRITES_MAX: u32 = 120;

/// What a user does to a graph, one after the other.
const STEPS: [&str; 6] = ["create", "change", "scale", "restart", "remove", "delete"];

/// Does a step.
async fn take(space: &Space, step: &str) {
    let decode = |replicas: i32, block: &str| {
        let mut component = json!({"replicas": replicas});
        component["podTemplate"] = json!({"spec": {"containers": [{
            "name": "main", "image": "any:1", "command": ["python3", "-m", "dynamo.mocker"],
            "args": ["--model-path", "m", "--disaggregation-mode", "decode", "--block-size", block],
        }]}});
        component
    };
    let prefill = || ("prefill", json!({"scalingAdapter": {}}));
    match step {
        "create" => space.apply(graph("g", &[("decode", decode(2, "64")), prefill()])).await,
        // A change of one worker is a new generation of all.
        "change" => space.apply(graph("g", &[("decode", decode(2, "32")), prefill()])).await,
        "scale" => space.scale("g-prefill", 3).await,
        "restart" => {
            let mut restarted = graph("g", &[("decode", decode(2, "32")), prefill()]);
            restarted["spec"]["restart"] = json!({"id": "1"});
            space.apply(restarted).await;
        }
        "remove" => space.apply(graph("g", &[("decode", decode(1, "32"))])).await,
        "delete" => {
            let graphs = space.api::<DynamoGraphDeployment>();
            let hold = |finalizers: Value| Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
            graphs.patch("g", &PatchParams::default(), &hold(json!(["test/hold"]))).await.expect("held");
            graphs.delete("g", &DeleteParams::foreground()).await.expect("deleted");
            // Nothing collects children here: the test does, and whatever comes back stays.
            sleep(Duration::from_millis(300)).await;
            for (resource, name) in children(space).await {
                let api: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &resource);
                api.delete(&name, &DeleteParams::default()).await.expect("deleted");
            }
            sleep(Duration::from_millis(700)).await;
            graphs.patch("g", &PatchParams::default(), &hold(json!([]))).await.expect("let go");
        }
        other => panic!("no step {other}"),
    }
}

async fn children(space: &Space) -> Vec<(ApiResource, String)> {
    let mut all = Vec::new();
    for kind in dynosim_operator::kinds::OWNED.iter().filter(|kind| kind.kind != "PodMonitor") {
        let resource = kind.resource();
        let api: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &resource);
        for object in api.list(&ListParams::default()).await.expect("a list").items {
            all.push((resource.clone(), object.metadata.name.expect("a name")));
        }
    }
    all
}

/// Everything that was made, without what is another one each time.
async fn contents(space: &Space) -> BTreeMap<String, Value> {
    let mut contents = BTreeMap::new();
    for (resource, name) in children(space).await {
        let api: Api<DynamicObject> = Api::namespaced_with(space.client(), space.name(), &resource);
        let mut object = serde_json::to_value(api.get(&name).await.expect("it is there")).expect("JSON");
        let metadata = object["metadata"].as_object_mut().expect("metadata");
        for changing in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"] {
            metadata.remove(changing);
        }
        metadata["ownerReferences"][0]["uid"] = Value::Null;
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove("deployment.kubernetes.io/revision");
        }
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(spec) = object["spec"].as_object_mut() {
                spec.remove(field);
            }
        }
        if let Some(status) = object["status"].as_object_mut() {
            status.remove("lastScaleTime");
            status.remove("observedGeneration");
        }
        contents.insert(format!("{}/{name}", resource.kind), object);
    }
    contents
}

/// Takes all steps, waits after each until the graph is ready and nothing changes, and gives what is there then.
async fn walk(space: &mut Space, mut settle: impl AsyncFnMut(&mut Space, &str)) -> Vec<BTreeMap<String, Value>> {
    let mut seen = Vec::new();
    for step in STEPS {
        take(space, step).await;
        settle(space, step).await;
        if step == "delete" {
            let left = children(space).await;
            assert!(left.is_empty(), "made for a graph that is to go: {left:?}");
        } else {
            space.ready("g").await;
            space.settled().await;
        }
        seen.push(contents(space).await);
    }
    seen
}

fn assert_same(undisturbed: &[BTreeMap<String, Value>], disturbed: &[BTreeMap<String, Value>]) {
    for (step, (one, other)) in STEPS.iter().zip(undisturbed.iter().zip(disturbed)) {
        assert_eq!(one.keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>(), "{step}");
        for (name, object) in one {
            assert_eq!(object, &other[name], "{step}: {name}");
        }
    }
}

/// Starts the operator behind a proxy, with one name over all of its lives.
fn start(space: &mut Space, proxy: &Proxy) {
    let mut command = space.command();
    command.env("KUBECONFIG", &proxy.kubeconfig).args(["--identity", "one"]);
    space.start_with(command);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_is_killed_after_each_of_its_writes_ends_with_the_same_objects() {
    in_space("killed", async |space| {
        let undisturbed = walk(space, async |_, _| {}).await;
        space.stop();
        let proxy = Proxy::start("killed", space.client(), Mischief::default()).await;
        let mut kills = 0;
        let disturbed = walk(space, async |space, _| {
            // Each life of the operator has one write; its answer is lost.
            loop {
                let before = proxy.mischief.writes.load(Ordering::SeqCst);
                proxy.mischief.writes_max.store(before + 1, Ordering::SeqCst);
                let written = proxy.mischief.written.notified();
                let mut written = std::pin::pin!(written);
                written.as_mut().enable();
                start(space, &proxy);
                let has_written = tokio::time::timeout(Duration::from_secs(4), written).await.is_ok();
                space.kill();
                if !has_written {
                    break;
                }
                kills += 1;
                assert!(kills < WRITES_MAX, "there is no end to it");
            }
            proxy.mischief.writes_max.store(0, Ordering::SeqCst);
            // What is left to be seen needs one that lives.
            start(space, &proxy);
            if space.graph_is_there("g").await {
                space.ready("g").await;
                space.settled().await;
            }
            space.kill();
        })
        .await;
        assert!(kills >= 30, "{kills}");
        assert_same(&undisturbed, &disturbed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_late_and_events_that_never_come_lead_to_the_same_objects() {
    in_space("late", async |space| {
        let undisturbed = walk(space, async |_, _| {}).await;
        space.stop();
        let mischief = Mischief { watch_delay: Duration::from_millis(400), ..Mischief::default() };
        let proxy = Proxy::start("late", space.client(), mischief).await;
        start(space, &proxy);
        let disturbed = walk(space, async |_, _| sleep(Duration::from_secs(1)).await).await;
        assert_same(&undisturbed, &disturbed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happened_while_the_server_could_not_be_reached_is_made_up_for() {
    in_space("away", async |space| {
        let undisturbed = walk(space, async |_, _| {}).await;
        space.stop();
        let proxy = Proxy::start("away", space.client(), Mischief::default()).await;
        start(space, &proxy);
        let disturbed = walk(space, async |space, step| {
            if step != "delete" {
                space.ready("g").await;
            }
            proxy.mischief.cut_off();
            sleep(Duration::from_secs(4)).await;
            proxy.mischief.mend();
            if space.has_ended() {
                // It could not renew its lease: whoever started it starts it again.
                start(space, &proxy);
            }
        })
        .await;
        assert_same(&undisturbed, &disturbed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_storage_whose_answers_get_lost_changes_nothing_in_the_end() {
    in_space("slow", async |space| {
        let undisturbed = walk(space, async |_, _| {}).await;
        space.stop();
        let mischief = Mischief { answer_delay: Duration::from_millis(300), lost_each: 3, ..Mischief::default() };
        let proxy = Proxy::start("slow", space.client(), mischief).await;
        start(space, &proxy);
        let disturbed = walk(space, async |_, _| sleep(Duration::from_secs(1)).await).await;
        assert!(proxy.mischief.writes.load(Ordering::SeqCst) >= 30, "some answers were lost");
        assert!(!space.has_ended(), "{}", space.log());
        assert_same(&undisturbed, &disturbed);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_wrong_by_days_changes_neither_graphs_nor_who_acts() {
    let Some(library) = dynosim_peers::clock_library() else { return };
    in_space("clock", async |space| {
        space.kill();
        for (number, offset) in ["+40h", "-40h"].into_iter().enumerate() {
            let mut command = space.command();
            command.env("LD_PRELOAD", &library).env("FAKETIME", offset).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            space.start_with(command);
            let name = format!("g{number}");
            space.apply(graph(&name, &[("decode", json!({"scalingAdapter": {}}))])).await;
            space.ready(&name).await;
            let mut right = space.sibling();
            right.start();
            space
                .wait(
                    "it waits",
                    async || if right.log().contains("waits for the lease") { Ok(()) } else { Err(right.log()) },
                )
                .await;
            space.scale(&format!("{name}-decode"), 40).await;
            space
                .wait("all have started, one after the other", async || {
                    let status = space.ready(&name).await.status.unwrap_or_default();
                    let now = status.components["decode"].available_replicas;
                    if now == Some(40) { Ok(()) } else { Err(format!("{now:?}")) }
                })
                .await;
            assert!(!right.log().contains("acts"), "{}", right.log());
            right.kill();
            space.kill();
        }
    })
    .await;
}
