//! Records of one process.

use std::time::Duration;

use dynosim_wire::discovery::{Bucket, Change, Discovery, DiscoveryError, MemStore};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{Told, at_port, endpoint, own};

async fn connect(store: &MemStore) -> Discovery {
    Discovery::connect(&DiscoveryConfig::Mem(store.clone())).await.expect("memory is always there")
}

#[tokio::test]
async fn a_watch_tells_what_is_there_then_synced_then_changes() {
    let store = MemStore::default();
    let (worker, frontend) = (connect(&store).await, connect(&store).await);
    assert_ne!(worker.instance_id(), frontend.instance_id());
    let key = worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.log, [Change::Put(key.clone(), Box::new(own(&worker))), Change::Synced]);

    worker.put(&own(&worker)).await.expect("put");
    assert!(told.quiet(Duration::from_millis(20)).await, "an equal record is no change");
    let moved = at_port("backend", worker.instance_id(), 2);
    worker.put(&moved).await.expect("put");
    assert_eq!(told.next().await, Change::Put(key.clone(), Box::new(moved)));
    worker.remove(&key).await.expect("remove");
    assert_eq!(told.next().await, Change::Removed(key));
}

#[tokio::test]
async fn a_watch_tells_only_its_bucket_and_prefix() {
    let store = MemStore::default();
    let worker = connect(&store).await;
    for component in ["backend", "prefill", "prefill2"] {
        worker.put(&endpoint(component, 7)).await.expect("put");
    }
    let told = Told::new(&worker, Bucket::Instances, "dynamo/prefill/").synced().await;
    assert_eq!(told.records.into_keys().collect::<Vec<_>>(), ["dynamo/prefill/generate/7"]);
    let told = Told::new(&worker, Bucket::Models, "").synced().await;
    assert!(told.records.is_empty());
}

#[tokio::test]
async fn records_go_with_the_last_clone_of_their_handle() {
    let store = MemStore::default();
    let (worker, frontend) = (connect(&store).await, connect(&store).await);
    worker.put(&own(&worker)).await.expect("put");
    let clone = worker.clone();
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    drop(worker);
    assert!(told.quiet(Duration::from_millis(20)).await, "a clone is left");
    drop(clone);
    told.count(0).await;
}

#[tokio::test]
async fn closing_removes_own_records_only_and_ends_own_watches() {
    let store = MemStore::default();
    let (worker, frontend) = (connect(&store).await, connect(&store).await);
    worker.put(&own(&worker)).await.expect("put");
    // Whoever writes a record last owns it.
    worker.put(&endpoint("shared", 1)).await.expect("put");
    frontend.put(&endpoint("shared", 1)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let mut ending = Told::new(&worker, Bucket::Instances, "").synced().await;
    worker.close().await.expect("close");
    told.count(1).await;
    assert!(told.records.contains_key("dynamo/shared/generate/1"));
    assert!(ending.ends().await);
    assert!(matches!(worker.put(&own(&worker)).await, Err(DiscoveryError::Closed)));
}

#[tokio::test]
async fn a_slow_watcher_holds_nobody_up_and_misses_nothing_that_lasts() {
    let store = MemStore::default();
    let worker = connect(&store).await;
    let mut told = Told::new(&worker, Bucket::Instances, "").synced().await;
    for round in 0..3 {
        for id in 1..=1000 {
            worker.put(&at_port("backend", id, round)).await.expect("put");
        }
    }
    for id in 501..=1000 {
        worker.remove(&endpoint("backend", id).key()).await.expect("remove");
    }
    worker.put(&endpoint("last", 1)).await.expect("put");
    while !told.records.contains_key("dynamo/last/generate/1") || told.records.len() != 501 {
        told.next().await;
    }
    assert_eq!(told.records["dynamo/backend/generate/1f4"], at_port("backend", 500, 2));
}
