//! Records in a folder.

use std::path::Path;
use std::time::Duration;

use dynosim_wire::discovery::{Bucket, Change, Discovery, DiscoveryError};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{Told, at_port, endpoint, own};

async fn connect(root: &Path, ttl: Duration) -> Discovery {
    let config = DiscoveryConfig::File { root: root.to_owned(), ttl };
    Discovery::connect(&config).await.expect("the folder is usable")
}

const TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_watch_tells_what_is_there_then_synced_then_changes() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (worker, frontend) = (connect(root.path(), TTL).await, connect(root.path(), TTL).await);
    let key = worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.log, [Change::Put(key.clone(), Box::new(own(&worker))), Change::Synced]);
    let moved = at_port("backend", worker.instance_id(), 2);
    worker.put(&moved).await.expect("put");
    assert_eq!(told.next().await, Change::Put(key.clone(), Box::new(moved)));
    worker.remove(&key).await.expect("remove");
    assert_eq!(told.next().await, Change::Removed(key));
}

#[tokio::test]
async fn a_record_is_seen_within_a_few_milliseconds() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (worker, frontend) = (connect(root.path(), TTL).await, connect(root.path(), TTL).await);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let mut delays = Vec::new();
    for id in 1..=20 {
        let begin = tokio::time::Instant::now();
        worker.put(&endpoint("backend", id)).await.expect("put");
        told.count(id as usize).await;
        delays.push(begin.elapsed());
    }
    delays.sort();
    // Polling alone would need half a second; the machine may be busy, so only the usual case is held to account.
    assert!(delays[10] < Duration::from_millis(50), "{delays:?}");
}

#[tokio::test]
async fn files_have_the_published_layout() {
    let root = tempfile::tempdir().expect("temporary folder");
    let worker = connect(root.path(), TTL).await;
    let record = own(&worker);
    worker.put(&record).await.expect("put");
    let name = format!("dynamo%2Fbackend%2Fgenerate%2F{:x}", worker.instance_id());
    let file = root.path().join("v1/instances").join(name);
    assert_eq!(std::fs::read(&file).expect("the record's file"), record.to_json().expect("json"));
    let files = std::fs::read_dir(root.path().join("v1/instances")).expect("the folder").count();
    assert_eq!(files, 1, "no temporary file is left");
    worker.close().await.expect("close");
    assert!(!file.exists());
}

#[tokio::test]
async fn closing_leaves_nothing_and_ends_own_watches() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (worker, frontend) = (connect(root.path(), TTL).await, connect(root.path(), TTL).await);
    for component in ["backend", "prefill"] {
        worker.put(&endpoint(component, worker.instance_id())).await.expect("put");
    }
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let mut ending = Told::new(&worker, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 2);
    worker.close().await.expect("close");
    told.count(0).await;
    assert!(ending.ends().await);
    assert!(matches!(worker.put(&own(&worker)).await, Err(DiscoveryError::Closed)));
    worker.close().await.expect("closing again is no error");
}

#[tokio::test]
async fn records_go_with_the_last_clone_of_their_handle() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (worker, frontend) = (connect(root.path(), TTL).await, connect(root.path(), TTL).await);
    worker.put(&own(&worker)).await.expect("put");
    let clone = worker.clone();
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    drop(worker);
    assert!(told.quiet(Duration::from_millis(50)).await, "a clone is left");
    drop(clone);
    told.count(0).await;
}

#[tokio::test]
async fn records_of_the_living_do_not_expire() {
    let root = tempfile::tempdir().expect("temporary folder");
    let ttl = Duration::from_secs(2);
    let (worker, frontend) = (connect(root.path(), ttl).await, connect(root.path(), ttl).await);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert!(told.quiet(ttl * 2).await);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let root = tempfile::tempdir().expect("temporary folder");
    let file = root.path().join("file");
    std::fs::write(&file, "").expect("a file in the way");
    let config = DiscoveryConfig::File { root: file.clone(), ttl: TTL };
    let error = Discovery::connect(&config).await.expect_err("a file is no folder").to_string();
    assert!(error.contains(&file.display().to_string()), "{error}");
}
