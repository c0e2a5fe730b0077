//! Records in etcd.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dynosim_peers::{Etcd, free_port};
use dynosim_wire::discovery::{Bucket, Change, Discovery, DiscoveryError};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{DEADLINE, Told, at_port, endpoint, in_etcd, own};

const TTL: Duration = Duration::from_secs(10);

async fn connect(etcd: &Etcd, ttl: Duration) -> Discovery {
    Discovery::connect(&in_etcd(etcd, ttl)).await.expect("etcd is there")
}

#[tokio::test]
async fn a_watch_tells_what_is_there_then_synced_then_changes() {
    let Some(etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, TTL).await, connect(&etcd, TTL).await);
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
async fn the_instance_id_is_the_lease_and_keys_are_plain() {
    let Some(etcd) = Etcd::start() else { return };
    let worker = connect(&etcd, TTL).await;
    let id = worker.instance_id();
    assert!(id > 0 && i64::try_from(id).is_ok());
    worker.put(&own(&worker)).await.expect("put");
    let leases = etcd.call("/v3/lease/timetolive", &format!(r#"{{"ID":"{id}","keys":true}}"#));
    let key = format!("v1/instances/dynamo/backend/generate/{id:x}");
    assert!(leases.contains(&STANDARD.encode(key)), "{leases}");
    assert!(leases.contains(r#""grantedTTL":"10""#), "{leases}");
}

#[tokio::test]
async fn closing_revokes_the_lease_with_all_records_and_ends_own_watches() {
    let Some(etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, TTL).await, connect(&etcd, TTL).await);
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
    let Some(etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, TTL).await, connect(&etcd, TTL).await);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    drop(worker);
    told.count(0).await;
}

#[test]
fn records_of_a_dead_owner_expire_with_the_lease() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let (alive, dying) = (runtime(), runtime());
    let Some(etcd) = Etcd::start() else { return };
    let ttl = Duration::from_secs(2);
    let worker = dying.block_on(async {
        let worker = connect(&etcd, ttl).await;
        worker.put(&own(&worker)).await.expect("put");
        worker
    });
    alive.block_on(async {
        let frontend = connect(&etcd, TTL).await;
        let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
        assert_eq!(told.records.len(), 1);
        // Its tasks die without a word, as with the process.
        dying.shutdown_background();
        told.count(0).await;
    });
    drop(worker);
}

#[tokio::test]
async fn a_lease_is_kept_alive() {
    let Some(etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, Duration::from_secs(1)).await, connect(&etcd, TTL).await);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert!(told.quiet(Duration::from_secs(3)).await, "three times the life of the lease");
}

#[tokio::test]
async fn more_records_than_a_page_are_all_told() {
    let Some(etcd) = Etcd::start() else { return };
    let worker = connect(&etcd, TTL).await;
    for id in 1..=150 {
        worker.put(&endpoint("backend", id)).await.expect("put");
    }
    let told = Told::new(&worker, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 150);
    let told = Told::new(&worker, Bucket::Instances, "dynamo/backend/generate/1").synced().await;
    // 1 and 10 to 1f; the last is 96.
    assert_eq!(told.records.len(), 17);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_an_error_that_names_the_endpoint() {
    let port = free_port();
    let endpoints = vec![format!("http://127.0.0.1:{port}")];
    let config = DiscoveryConfig::Etcd { endpoints, ttl: TTL };
    let connected = tokio::time::timeout(DEADLINE, Discovery::connect(&config)).await.expect("an answer in time");
    let error = connected.expect_err("nobody is there").to_string();
    assert!(error.contains(&format!("127.0.0.1:{port}")) && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn endpoints_are_tried_in_turn() {
    let Some(etcd) = Etcd::start() else { return };
    let port = free_port();
    let endpoints = vec![format!("http://127.0.0.1:{port}"), etcd.url()];
    let worker = Discovery::connect(&DiscoveryConfig::Etcd { endpoints, ttl: TTL }).await.expect("the second serves");
    worker.put(&own(&worker)).await.expect("put");
}
