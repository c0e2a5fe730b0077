//! Records that this handle has written, and keeping them alive.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::name::file_name;
use crate::discovery::{Bucket, Key};
use crate::time;

/// How names of files begin that are not complete yet.
pub(super) const TEMPORARY: &str = ".tmp_";

/// The folder of a bucket.
pub(super) fn bucket_folder(root: &Path, bucket: Bucket) -> PathBuf {
    root.join(bucket.name())
}

/// Makes all folders that are missing.
pub(super) fn make_folders(root: &Path) -> io::Result<()> {
    Bucket::ALL.into_iter().try_for_each(|bucket| fs::create_dir_all(bucket_folder(root, bucket)))
}

/// What this handle has in the store.
#[derive(Debug)]
pub(super) struct Own {
    root: PathBuf,
    instance_id: u64,
    records: BTreeMap<Key, Vec<u8>>,
}

impl Own {
    pub(super) fn new(root: &Path, instance_id: u64) -> Self {
        Self { root: root.to_owned(), instance_id, records: BTreeMap::new() }
    }

    fn file(&self, key: &Key) -> PathBuf {
        bucket_folder(&self.root, key.bucket).join(file_name(&key.path))
    }

    /// Writes a record; it is kept alive only if that worked.
    pub(super) fn put(&mut self, key: Key, value: Vec<u8>) -> io::Result<()> {
        self.write(&key, &value)?;
        self.records.insert(key, value);
        Ok(())
    }

    /// Readers see the old content or the new, nothing between.
    fn write(&self, key: &Key, value: &[u8]) -> io::Result<()> {
        let folder = bucket_folder(&self.root, key.bucket);
        fs::create_dir_all(&folder)?;
        let temporary = folder.join(format!("{TEMPORARY}{}_{:x}", std::process::id(), self.instance_id));
        let written = File::create(&temporary)
            .and_then(|mut file| file.write_all(value))
            .and_then(|()| fs::rename(&temporary, self.file(key)));
        if written.is_err() {
            // The cause is what the caller must hear of, not that cleaning up failed too.
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes a record; one that has gone already is no error.
    pub(super) fn remove(&mut self, key: &Key) -> io::Result<()> {
        if self.records.remove(key).is_none() {
            return Ok(());
        }
        remove_if_there(&self.file(key))
    }

    /// Removes all; goes on after a failure and returns the first.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        let records = std::mem::take(&mut self.records);
        let failures: Vec<_> = records.keys().filter_map(|key| remove_if_there(&self.file(key)).err()).collect();
        failures.into_iter().next().map_or(Ok(()), Err)
    }

    /// Touches all; what has gone is written again.
    pub(super) fn keep_alive(&self) {
        for (key, value) in &self.records {
            let kept = match touch(&self.file(key)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tracing::warn!(%key, "a discovery record of this process was removed by another; writing it again");
                    self.write(key, value)
                }
                touched => touched,
            };
            if let Err(error) = kept {
                tracing::warn!(%key, %error, "cannot keep a discovery record alive");
            }
        }
    }

    /// Writes again what has gone, without touching the rest.
    pub(super) fn restore(&self) {
        for (key, value) in &self.records {
            if self.file(key).exists() {
                continue;
            }
            match self.write(key, value) {
                Ok(()) => tracing::warn!(%key, "a discovery record of this process had gone; wrote it again"),
                Err(error) => tracing::warn!(%key, %error, "cannot write a discovery record again"),
            }
        }
    }
}

fn touch(path: &Path) -> io::Result<()> {
    let now = std::time::UNIX_EPOCH + std::time::Duration::from_millis(time::unix_ms());
    File::options().write(true).open(path)?.set_times(FileTimes::new().set_modified(now))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
