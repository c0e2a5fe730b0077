//! Records in file.

use super::{Backend, Bucket, Done, Key, Record, Watch};

#[derive(Debug)]
pub(crate) struct FileBackend {}

impl FileBackend {
    pub(crate) async fn open(
        _root: &std::path::Path,
        _ttl: std::time::Duration,
    ) -> Result<Self, super::DiscoveryError> {
        todo!()
    }
}

impl Backend for FileBackend {
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
