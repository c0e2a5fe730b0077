//! What becomes of records when the API server, or somebody who writes to it, fails.

use std::sync::Arc;
use std::time::Duration;

use dynosim_peers::{ApiServer, Namespace};
use dynosim_wire::discovery::{Bucket, Change, Discovery};
use tokio::time::timeout;

use super::{connect, model, published};
use crate::sample::{Told, at_port, endpoint, own};

/// An API server takes its time to come back on a machine that is busy.
const LONG: Duration = Duration::from_mins(2);

async fn until_there(told: &mut Told, count: usize) {
    while told.records.len() != count {
        told.next_within(LONG).await;
    }
}

#[tokio::test]
async fn an_api_server_that_is_away_takes_nothing_away_and_nothing_is_lost() {
    let Some(mut server) = ApiServer::start() else { return };
    let (worker, frontend) = {
        let namespace = Namespace::new(&server, "away");
        namespace.slice("s", &[("w", "u-w", true), ("v", "u-v", true)]);
        (connect(&namespace, "w").await, connect(&namespace, "f").await)
    };
    let worker = Arc::new(worker);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    until_there(&mut told, 1).await;
    for crash in [false, true] {
        if crash {
            server.kill();
        } else {
            server.stop();
        }
        // Asked for while nobody answers; and so is a worker's whole start.
        let second = endpoint(if crash { "second" } else { "first" }, 7);
        let later = tokio::spawn({
            let (worker, second) = (Arc::clone(&worker), second.clone());
            async move { worker.put(&second).await }
        });
        assert!(told.quiet(Duration::from_secs(3)).await, "who serves goes on serving");
        assert!(!later.is_finished(), "it waits");
        server.resume();
        timeout(LONG, later).await.expect("in time").expect("no panic").expect("written once the server is back");
        until_there(&mut told, if crash { 3 } else { 2 }).await;
        assert!(told.records.contains_key(&second.key().path));
    }
    // A worker that starts while the server is away registers when it comes.
    server.kill();
    let (late, key) = {
        let namespace = Namespace::there(&server, "away");
        let late = connect(&namespace, "v").await;
        let key = own(&late).key();
        (tokio::spawn(async move { late.put(&own(&late)).await.map(|_| late) }), key)
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resume();
    let late: Discovery = timeout(LONG, late).await.expect("in time").expect("no panic").expect("put");
    while !told.records.contains_key(&key.path) {
        told.next_within(LONG).await;
    }
    // What happens while nobody can watch is found by the list that follows.
    assert!(told.log.iter().all(|change| !matches!(change, Change::Removed(_))), "nothing was ever told to be gone");
    late.close().await.expect("close");
    while told.records.contains_key(&key.path) {
        told.next_within(LONG).await;
    }
}

/// A definition that lets everything pass, as clusters may have it.
const LENIENT: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dynamoworkermetadatas.nvidia.com}
spec:
  group: nvidia.com
  scope: Namespaced
  names: {kind: DynamoWorkerMetadata, listKind: DynamoWorkerMetadataList, plural: dynamoworkermetadatas, singular: dynamoworkermetadata}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test]
async fn objects_that_cannot_be_read_keep_nobody_from_being_found() {
    let Some(server) = ApiServer::start() else { return };
    // Before the definition is there, frontends and workers wait for it.
    server.apply("{apiVersion: v1, kind: Namespace, metadata: {name: broken}}");
    let namespace = Namespace::there(&server, "broken");
    namespace.slice("s", &[("w", "u-w", true), ("x", "u-x", true)]);
    let frontend = connect(&namespace, "f").await;
    let mut told = Told::new(&frontend, Bucket::Instances, "");
    assert!(told.quiet(Duration::from_secs(1)).await, "not even that everything is told");
    let worker = Arc::new(connect(&namespace, "w").await);
    let put = tokio::spawn({
        let worker = Arc::clone(&worker);
        async move { worker.put_all(&[own(&worker), model(&worker, 16)]).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!put.is_finished(), "it waits");
    server.apply(LENIENT);
    timeout(LONG, put).await.expect("in time").expect("no panic").expect("put");
    until_there(&mut told, 1).await;
    if !told.log.contains(&Change::Synced) {
        assert_eq!(told.next_within(LONG).await, Change::Synced);
    }
    let write = |rest: &str| {
        server.apply(&format!(
            "{{apiVersion: nvidia.com/v1alpha1, kind: DynamoWorkerMetadata, metadata: {{name: x, namespace: broken, \
             ownerReferences: [{{apiVersion: v1, kind: Pod, name: x, uid: u-x}}]}}{rest}}}"
        ))
    };
    let record = |port: u16| String::from_utf8(at_port("other", 42, port).to_json().expect("JSON")).expect("text");
    // Never good: it says nothing, and newcomers find the others all the same.
    for rest in ["", ", spec: {}", ", spec: {data: {endpoints: {a: {type: Endpoint}}}}"] {
        write(rest);
        let newcomer = connect(&namespace, "f").await;
        let told = Told::new(&newcomer, Bucket::Instances, "").synced().await;
        assert_eq!(told.records.len(), 1, "with `{rest}` beside it");
    }
    assert!(told.quiet(Duration::from_millis(300)).await);
    write(&format!(", spec: {{data: {{endpoints: {{a: {}}}}}}}", record(1)));
    until_there(&mut told, 2).await;
    // Good before: that stays in force until it is good again.
    write(&format!(", spec: {{data: {{endpoints: {{a: {}, b: {{type: New}}}}}}}}", record(2)));
    assert!(told.quiet(Duration::from_millis(300)).await);
    write(&format!(", spec: {{data: {{endpoints: {{a: {}}}, event_channels: null}}}}", record(3)));
    let moved = at_port("other", 42, 3);
    assert_eq!(told.next().await, Change::Put(moved.key(), Box::new(moved)));
    // One record and null maps: an object may be emptied in many ways.
    write(", spec: {data: {endpoints: null, model_cards: {}}}");
    until_there(&mut told, 1).await;
}

#[tokio::test]
async fn an_object_that_somebody_deletes_is_written_again() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "deleted");
    namespace.slice("s", &[("w", "u-w", true)]);
    let (worker, frontend) = (connect(&namespace, "w").await, connect(&namespace, "f").await);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    worker.put(&own(&worker)).await.expect("put");
    told.count(1).await;
    let before = published(&namespace, "w")["metadata"]["uid"].clone();
    namespace.kubectl(&["delete", "dynamoworkermetadata", "w"]);
    told.count(0).await;
    told.count(1).await;
    assert_ne!(published(&namespace, "w")["metadata"]["uid"], before);
    // One that is closed stays away.
    worker.close().await.expect("close");
    told.count(0).await;
    assert!(told.quiet(Duration::from_secs(1)).await);
    assert_eq!(namespace.published("w"), None);
}

#[tokio::test]
async fn a_handle_that_is_dropped_takes_its_object_along() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "dropped");
    namespace.slice("s", &[("w", "u-w", true)]);
    let (worker, frontend) = (connect(&namespace, "w").await, connect(&namespace, "f").await);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    worker.put(&own(&worker)).await.expect("put");
    told.count(1).await;
    drop(worker);
    told.count(0).await;
    drop(frontend);
    assert!(told.ends().await);
}
