//! What becomes of records when etcd fails.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dynosim_peers::Etcd;
use dynosim_wire::discovery::{Bucket, Change, Discovery};

use crate::sample::{Told, endpoint, in_etcd, own};

const TTL: Duration = Duration::from_secs(10);

async fn connect(etcd: &Etcd, ttl: Duration) -> Discovery {
    Discovery::connect(&in_etcd(etcd, ttl)).await.expect("etcd is there")
}

#[tokio::test]
async fn a_restart_that_keeps_the_data_changes_nothing_and_watches_go_on() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, TTL).await, connect(&etcd, TTL).await);
    let key = worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    etcd.kill();
    assert!(etcd.resume());
    // Written by retries if the store isn't ready yet.
    let other = worker.put(&endpoint("other", 7)).await.expect("put");
    assert_eq!(told.next().await, Change::Put(other, Box::new(endpoint("other", 7))), "only what is new");
    worker.remove(&key).await.expect("remove");
    assert_eq!(told.next().await, Change::Removed(key));
}

#[tokio::test]
async fn after_a_restart_without_data_the_same_lease_has_the_same_records_again() {
    let Some(mut etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, TTL).await, connect(&etcd, TTL).await);
    let id = worker.instance_id();
    let key = worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    etcd.kill();
    etcd.wipe();
    assert!(etcd.resume());
    let late = connect(&etcd, TTL).await;
    let mut newcomer = Told::new(&late, Bucket::Instances, "");
    newcomer.count(1).await;
    assert_eq!(newcomer.records[&key.path], own(&worker));
    let lease = etcd.call("/v3/lease/timetolive", &format!(r#"{{"ID":"{id}"}}"#));
    assert!(lease.contains("grantedTTL"), "{lease}");
    // The worker was never gone, so nobody is told that it was.
    assert!(told.quiet(Duration::from_millis(500)).await);
    worker.close().await.expect("close");
    told.count(0).await;
}

#[tokio::test]
async fn what_a_store_lost_and_nobody_writes_again_goes_within_a_lease() {
    let Some(mut etcd) = Etcd::start() else { return };
    let frontend = connect(&etcd, Duration::from_secs(2)).await;
    let record = endpoint("dead", 7);
    let (key, value) = (STANDARD.encode(record.key().to_string()), STANDARD.encode(record.to_json().expect("json")));
    etcd.call("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 1);
    etcd.kill();
    etcd.wipe();
    assert!(etcd.resume());
    told.count(0).await;
}

#[tokio::test]
async fn a_lease_that_expired_meanwhile_is_made_again() {
    let Some(etcd) = Etcd::start() else { return };
    let (worker, frontend) = (connect(&etcd, Duration::from_secs(2)).await, connect(&etcd, TTL).await);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    etcd.call("/v3/lease/revoke", &format!(r#"{{"ID":"{}"}}"#, worker.instance_id()));
    told.count(0).await;
    told.count(1).await;
    assert_eq!(told.records.into_values().next(), Some(own(&worker)));
}

#[tokio::test]
async fn a_put_finds_out_that_the_lease_has_gone() {
    let Some(etcd) = Etcd::start() else { return };
    let worker = connect(&etcd, TTL).await;
    worker.put(&own(&worker)).await.expect("put");
    etcd.call("/v3/lease/revoke", &format!(r#"{{"ID":"{}"}}"#, worker.instance_id()));
    worker.put(&endpoint("other", 7)).await.expect("put");
    let told = Told::new(&worker, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 2, "with the first, which the store had lost");
}

#[tokio::test]
async fn what_changed_around_a_restart_is_told_as_differences() {
    let Some(mut etcd) = Etcd::start() else { return };
    let frontend = connect(&etcd, TTL).await;
    let put = |etcd: &Etcd, component: &str, id: u64| {
        let record = endpoint(component, id);
        let (key, value) =
            (STANDARD.encode(record.key().to_string()), STANDARD.encode(record.to_json().expect("json")));
        etcd.call("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
        record.key()
    };
    let (stays, goes) = (put(&etcd, "stays", 1), put(&etcd, "goes", 2));
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 2);
    etcd.kill();
    assert!(etcd.resume());
    etcd.call("/v3/kv/deleterange", &format!(r#"{{"key":"{}"}}"#, STANDARD.encode(goes.to_string())));
    let comes = put(&etcd, "comes", 3);
    let mut changes = [told.next().await, told.next().await];
    changes.sort_by_key(|change| matches!(change, Change::Put(..)));
    assert_eq!(changes, [Change::Removed(goes), Change::Put(comes, Box::new(endpoint("comes", 3)))]);
    assert!(told.records.contains_key(&stays.path));
}

#[tokio::test]
async fn records_that_make_no_sense_are_skipped() {
    let Some(etcd) = Etcd::start() else { return };
    let worker = connect(&etcd, TTL).await;
    let put = |key: &str, value: &str| {
        let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
        etcd.call("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
    };
    let value = String::from_utf8(endpoint("backend", 7).to_json().expect("json")).expect("text");
    put("v1/instances/dynamo/backend/generate/1", "{");
    put("v1/instances/dynamo/backend/generate/2", &value);
    put("v1/instances/dynamo/backend/generate/not-hex", &value);
    put("v1/instances/", &value);
    put("v1/else/dynamo/backend/generate/7", &value);
    put("v1/mdc/dynamo/backend/generate/7", &value);
    put("v1/instances/dynamo/backend/generate/3", &value.replace("generate", &"g".repeat(1_100_000)));
    put("v1/instances/dynamo/backend/generate/7", &value);
    let mut told = Told::new(&worker, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.keys().collect::<Vec<_>>(), ["dynamo/backend/generate/7"]);
    // A record that was good and is no longer so has gone.
    put("v1/instances/dynamo/backend/generate/7", "null");
    told.count(0).await;
    put("v1/instances/dynamo/backend/generate/7", &value);
    told.count(1).await;
}
