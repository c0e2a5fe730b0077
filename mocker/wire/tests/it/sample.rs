//! Records and waiting for what becomes of them.

use std::collections::BTreeMap;
use std::time::Duration;

use dynosim_peers::Etcd;
use dynosim_wire::discovery::{Bucket, Change, Discovery, EndpointRecord, Record, Transport, Watch};
use dynosim_wire::{Codec, DiscoveryConfig};

/// Longer than anything takes that works.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// A store in etcd whose records live for `ttl`.
pub(crate) fn in_etcd(etcd: &Etcd, ttl: Duration) -> DiscoveryConfig {
    DiscoveryConfig::Etcd { endpoints: vec![etcd.url()], ttl }
}

/// An endpoint of the instance `id` of a component.
pub(crate) fn endpoint(component: &str, id: u64) -> Record {
    at_port(component, id, 1)
}

/// As [`endpoint`], reached at another port.
pub(crate) fn at_port(component: &str, id: u64, port: u16) -> Record {
    Record::Endpoint(EndpointRecord {
        component: component.to_owned(),
        endpoint: "generate".to_owned(),
        namespace: "dynamo".to_owned(),
        instance_id: id,
        transport: Transport::Tcp(format!("127.0.0.1:{port}/{id:x}/dynamo/{component}/generate")),
        device_type: Some("cuda".to_owned()),
        request_plane_codec: Codec::MessagePack,
    })
}

/// An endpoint of the handle itself.
pub(crate) fn own(discovery: &Discovery) -> Record {
    endpoint("backend", discovery.instance_id())
}

/// A watch and what it has told.
pub(crate) struct Told {
    watch: Watch,
    /// What is there now, by path.
    pub(crate) records: BTreeMap<String, Record>,
    /// Every change, in order.
    pub(crate) log: Vec<Change>,
}

impl Told {
    pub(crate) fn new(discovery: &Discovery, bucket: Bucket, prefix: &str) -> Self {
        Self { watch: discovery.watch(bucket, prefix), records: BTreeMap::new(), log: Vec::new() }
    }

    /// The next change; fails if none comes.
    pub(crate) async fn next(&mut self) -> Change {
        self.next_within(DEADLINE).await
    }

    /// The next change, if it may take longer.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Change {
        let change = tokio::time::timeout(limit, self.watch.next()).await.expect("no change in time");
        let change = change.expect("the watch has ended");
        match &change {
            Change::Put(key, record) => {
                self.records.insert(key.path.clone(), Record::clone(record));
            }
            Change::Removed(key) => {
                self.records.remove(&key.path).expect("removed what was not there");
            }
            Change::Synced => {}
        }
        self.log.push(change.clone());
        change
    }

    /// Goes on until all is told that was there at the beginning.
    pub(crate) async fn synced(mut self) -> Self {
        while self.next().await != Change::Synced {}
        self
    }

    /// Goes on until there are so many records.
    pub(crate) async fn count(&mut self, count: usize) {
        while self.records.len() != count {
            self.next().await;
        }
    }

    /// True once the watch is over, whatever it tells until then.
    pub(crate) async fn ends(&mut self) -> bool {
        let end = async { while self.watch.next().await.is_some() {} };
        tokio::time::timeout(DEADLINE, end).await.is_ok()
    }

    /// Nothing is told for this long.
    pub(crate) async fn quiet(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.watch.next()).await.is_err()
    }
}
