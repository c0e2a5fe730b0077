//! Records in etcd.

use super::{Backend, Bucket, Done, Key, Record, Watch};

#[derive(Debug)]
pub(crate) struct EtcdBackend {}

impl EtcdBackend {
    pub(crate) async fn connect(
        _endpoints: &[String],
        _ttl: std::time::Duration,
    ) -> Result<Self, super::DiscoveryError> {
        todo!()
    }
}

impl Backend for EtcdBackend {
    fn instance_id(&self) -> u64 {
        todo!()
    }
    fn put<'a>(&'a self, _key: &'a Key, _record: &'a Record) -> Done<'a, ()> {
        todo!()
    }
    fn remove<'a>(&'a self, _key: &'a Key) -> Done<'a, ()> {
        todo!()
    }
    fn watch(&self, _bucket: Bucket, _prefix: &str) -> Watch {
        todo!()
    }
    fn close(&self) -> Done<'_, ()> {
        todo!()
    }
}
