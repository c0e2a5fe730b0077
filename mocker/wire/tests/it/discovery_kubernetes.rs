//! Records in a Kubernetes cluster: a real API server, with pods and slices that the tests write.

mod faults;
mod roles;

use std::path::PathBuf;
use std::time::Duration;

use dynosim_peers::{ApiServer, Namespace};
use dynosim_wire::DiscoveryConfig;
use dynosim_wire::card::ModelFiles;
use dynosim_wire::discovery::{
    Bucket, Change, ChannelRecord, ChannelTransport, Discovery, DiscoveryError, Key, ModelRecord, PodIdentity, PodUnit,
    Record, Scope,
};
use serde_json::{Value, json};

use crate::sample::{Told, at_port, own};

/// A handle of this pod; its uid is `u-` and its name.
async fn connect_as(namespace: &Namespace<'_>, pod: &str, unit: PodUnit, kubeconfig: PathBuf) -> Discovery {
    let (name, uid) = (pod.to_owned(), format!("u-{pod}"));
    let pod = PodIdentity { name, uid, namespace: namespace.name().to_owned(), unit };
    Discovery::connect(&DiscoveryConfig::Kubernetes { pod, kubeconfig: Some(kubeconfig) }).await.expect("a kubeconfig")
}

async fn connect(namespace: &Namespace<'_>, pod: &str) -> Discovery {
    connect_as(namespace, pod, PodUnit::Pod, namespace.server().kubeconfig()).await
}

fn model(discovery: &Discovery, block_size: u32) -> Record {
    let mut card_json = ModelFiles::open("hub/model").expect("the built-in model").card("m", "hub/model", None);
    card_json.kv_cache_block_size = block_size;
    Record::Model(Box::new(ModelRecord {
        namespace: "dynamo".to_owned(),
        component: "backend".to_owned(),
        endpoint: "generate".to_owned(),
        instance_id: discovery.instance_id(),
        card_json,
        model_suffix: None,
    }))
}

fn channel() -> Record {
    Record::EventChannel(ChannelRecord {
        scope: Scope::Namespace { namespace: "dynamo".to_owned() },
        topic: "kv-events".to_owned(),
        instance_id: 7,
        transport: ChannelTransport::Zmq { endpoint: "tcp://127.0.0.1:1".to_owned() },
    })
}

/// The object as it is.
fn published(namespace: &Namespace<'_>, name: &str) -> Value {
    serde_json::from_str(&namespace.published(name).expect("an object")).expect("JSON")
}

/// Goes on until this is told.
async fn wait_for(told: &mut Told, change: &Change) {
    while told.next().await != *change {}
}

#[tokio::test]
async fn a_worker_is_there_while_its_pod_is_ready_and_leaves_nothing_behind() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "ready");
    let (worker, frontend) = (connect(&namespace, "w").await, connect(&namespace, "f").await);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let key = worker.put(&own(&worker)).await.expect("put");
    assert!(told.quiet(Duration::from_millis(300)).await, "nobody says that it is ready");
    namespace.slice("s", &[("w", "u-w", true)]);
    assert_eq!(told.next().await, Change::Put(key.clone(), Box::new(own(&worker))));
    namespace.slice("s", &[("w", "u-w", false)]);
    assert_eq!(told.next().await, Change::Removed(key.clone()));
    namespace.slice("s", &[("w", "u-w", true)]);
    assert_eq!(told.next().await, Change::Put(key.clone(), Box::new(own(&worker))));
    // Without its label a slice says nothing.
    namespace.kubectl(&["label", "endpointslice", "s", "nvidia.com/dynamo-discovery-enabled-"]);
    assert_eq!(told.next().await, Change::Removed(key.clone()));
    namespace.slice("s", &[("w", "u-w", true)]);
    told.next().await;
    worker.close().await.expect("close");
    assert_eq!(told.next().await, Change::Removed(key));
    assert_eq!(namespace.published("w"), None);
    assert!(matches!(worker.put(&own(&worker)).await, Err(DiscoveryError::Closed)));
}

#[tokio::test]
async fn everything_is_written_at_once_and_belongs_to_the_pod() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "at-once");
    let worker = connect(&namespace, "w").await;
    let records = [channel(), own(&worker), model(&worker, 16)];
    worker.put_all(&records).await.expect("put");
    let object = published(&namespace, "w");
    assert_eq!(object["metadata"]["generation"], 1, "{object}");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "w", "uid": "u-w", "controller": true,
        "blockOwnerDeletion": false});
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner]));
    let id = format!("{:x}", worker.instance_id());
    let data = &object["spec"]["data"];
    assert!(data["endpoints"].get(format!("dynamo/backend/generate/{id}")).is_some(), "{data}");
    assert!(data["model_cards"].get(format!("dynamo/backend/generate/{id}")).is_some(), "{data}");
    assert!(data["event_channels"].get("namespace/dynamo/topic/kv-events/7").is_some(), "{data}");
    // One record gone is one more write of the whole.
    worker.remove(&channel().key()).await.expect("remove");
    let object = published(&namespace, "w");
    assert_eq!(object["metadata"]["generation"], 2);
    assert!(object["spec"]["data"]["event_channels"].as_object().is_none_or(serde_json::Map::is_empty), "{object}");
    // What was never there costs no write.
    worker.remove(&channel().key()).await.expect("remove");
    assert_eq!(published(&namespace, "w")["metadata"]["generation"], 2);
}

#[tokio::test]
async fn what_was_there_before_is_told_before_the_watch_is_in_step() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "before");
    namespace.slice("s", &[("w", "u-w", true)]);
    let worker = connect(&namespace, "w").await;
    worker.put_all(&[own(&worker), model(&worker, 16), channel()]).await.expect("put");
    let frontend = connect(&namespace, "f").await;
    for (bucket, count) in [(Bucket::Instances, 1), (Bucket::Models, 1), (Bucket::EventChannels, 1)] {
        assert_eq!(Told::new(&frontend, bucket, "").synced().await.records.len(), count, "{bucket:?}");
    }
    assert!(Told::new(&frontend, Bucket::Instances, "other/").synced().await.records.is_empty());
}

#[tokio::test]
async fn a_process_that_restarts_in_its_pod_takes_over_without_having_been_away() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "restart");
    namespace.slice("s", &[("w", "u-w", true)]);
    let (first, frontend) = (connect(&namespace, "w").await, connect(&namespace, "f").await);
    let mut instances = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let mut models = Told::new(&frontend, Bucket::Models, "").synced().await;
    first.put_all(&[own(&first), model(&first, 16)]).await.expect("put");
    instances.next().await;
    models.next().await;
    // As after a crash, the first has said nothing.
    let second = connect(&namespace, "w").await;
    assert_eq!(second.instance_id(), first.instance_id());
    let moved = at_port("backend", second.instance_id(), 2);
    second.put_all(&[moved.clone(), model(&second, 16)]).await.expect("put");
    assert_eq!(instances.next().await, Change::Put(moved.key(), Box::new(moved.clone())));
    assert!(models.quiet(Duration::from_millis(300)).await, "an equal card is no news");
    // Published frontends take another card only after the old one was away; the endpoint stays all the time.
    let third = connect(&namespace, "w").await;
    let moved = at_port("backend", third.instance_id(), 3);
    third.put_all(&[moved.clone(), model(&third, 32)]).await.expect("put");
    let key = model(&third, 32).key();
    assert_eq!(models.next().await, Change::Removed(key.clone()));
    assert_eq!(models.next().await, Change::Put(key, Box::new(model(&third, 32))));
    assert_eq!(instances.next().await, Change::Put(moved.key(), Box::new(moved)));
}

#[tokio::test]
async fn two_objects_with_the_same_record_are_one_until_both_have_gone() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "twice");
    namespace.slice("s", &[("a", "u-a", true), ("b", "u-b", true)]);
    let (a, b, frontend) =
        (connect(&namespace, "a").await, connect(&namespace, "b").await, connect(&namespace, "f").await);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    a.put(&at_port("backend", 42, 1)).await.expect("put");
    told.next().await;
    b.put(&at_port("backend", 42, 2)).await.expect("put");
    assert!(told.quiet(Duration::from_millis(300)).await, "the first by name counts");
    a.close().await.expect("close");
    wait_for(&mut told, &Change::Put(at_port("backend", 42, 2).key(), Box::new(at_port("backend", 42, 2)))).await;
    b.close().await.expect("close");
    told.count(0).await;
}

#[tokio::test]
async fn in_container_mode_containers_are_members_of_their_own() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "containers");
    let uid = namespace.pod("w", &[("main", true), ("side", false)]);
    let of = |container: &str| PodIdentity {
        name: "w".to_owned(),
        uid: uid.clone(),
        namespace: namespace.name().to_owned(),
        unit: PodUnit::Container(container.to_owned()),
    };
    let kubeconfig = Some(server.kubeconfig());
    let connect = async |container: &str| {
        let config = DiscoveryConfig::Kubernetes { pod: of(container), kubeconfig: kubeconfig.clone() };
        Discovery::connect(&config).await.expect("a kubeconfig")
    };
    let (main, side) = (connect("main").await, connect("side").await);
    assert_ne!(main.instance_id(), side.instance_id());
    main.put(&own(&main)).await.expect("put");
    side.put(&own(&side)).await.expect("put");
    assert_eq!(published(&namespace, "w-side")["metadata"]["ownerReferences"][0]["controller"], false);
    let frontend = connect("frontend").await;
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.keys().collect::<Vec<_>>(), [&own(&main).key().path]);
    namespace.container_statuses("w", &[("main", false), ("side", true)]);
    told.count(0).await;
    told.count(1).await;
    assert_eq!(told.records.keys().collect::<Vec<_>>(), [&own(&side).key().path]);
    namespace.kubectl(&["delete", "pod", "w", "--force", "--grace-period=0"]);
    told.count(0).await;
}

#[tokio::test]
async fn more_workers_than_fit_into_one_answer_are_all_found() {
    const WORKERS: u64 = 520;
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "pages");
    let names: Vec<_> = (0..WORKERS).map(|number| (format!("w{number}"), format!("u-w{number}"))).collect();
    for (number, part) in names.chunks(100).enumerate() {
        let pods: Vec<_> = part.iter().map(|(name, uid)| (name.as_str(), uid.as_str(), true)).collect();
        namespace.slice(&format!("s{number}"), &pods);
    }
    let manifest = |(number, (name, uid)): (u64, &(String, String))| {
        let record = serde_json::from_slice::<Value>(&at_port("backend", number, 1).to_json().expect("JSON"));
        json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoWorkerMetadata",
            "metadata": {"name": name, "namespace": "pages",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}]},
            "spec": {"data": {"endpoints": {"e": record.expect("JSON")}}}})
        .to_string()
    };
    let objects: Vec<_> = (1..).zip(&names).map(manifest).collect();
    server.apply(&objects.join("\n---\n"));
    let frontend = connect(&namespace, "f").await;
    let mut told = Told::new(&frontend, Bucket::Instances, "");
    while told.next_within(Duration::from_mins(1)).await != Change::Synced {}
    assert_eq!(told.records.len() as u64, WORKERS);
    let key = |number: u64| Key { bucket: Bucket::Instances, path: format!("dynamo/backend/generate/{number:x}") };
    assert!(told.records.contains_key(&key(WORKERS).path));
}
