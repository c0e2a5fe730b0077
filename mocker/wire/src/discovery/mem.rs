//! Records of one process.

use super::{Backend, Bucket, Done, Key, Record, Watch};

/// Records that live in this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemStore {}

#[derive(Debug)]
pub(crate) struct MemBackend {}

impl MemBackend {
    pub(crate) fn new(_store: &MemStore) -> Self {
        todo!()
    }
}

impl Backend for MemBackend {
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
