//! Records in a folder.

use std::path::Path;
use std::time::Duration;

use dynosim_wire::discovery::{Bucket, Change, Discovery};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{Told, at_port, own};

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
