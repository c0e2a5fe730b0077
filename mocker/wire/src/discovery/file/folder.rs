//! The folder of one bucket as a reader sees it.
//!
//! Who is alive is judged by how long a file was not touched, on the monotonic clock from the second look on: setting the
//! wall clock kills nobody. A record whose file alone has gone was removed by its owner; if the folder has gone with it,
//! somebody cleared the store, and its owner is believed to be alive for as long as after its last touch.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::identity::Identity;
use super::name::path_of;
use super::own::{TEMPORARY, bucket_folder};
use crate::discovery::view::Views;
use crate::discovery::{Bucket, Key, Record};
use crate::limits::MAX_RECORD_BYTES;
use crate::time;

/// A file that is missing is looked for again after this long, to tell its removal from that of the whole folder.
const CONFIRM: Duration = Duration::from_millis(10);
/// A dead record's file is removed this long after its owner might have touched it once more.
const DELETE_GRACE: Duration = Duration::from_secs(1);

/// What changes when a file is written or touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), size: metadata.len(), modified }
    }

    /// How long ago the file was touched, by the wall clock; a time in the future is now.
    fn age(self) -> Duration {
        let modified = self.modified.0.saturating_mul(1000).saturating_add(self.modified.1 / 1_000_000);
        Duration::from_millis(time::unix_ms().saturating_sub(modified.max(0) as u64))
    }
}

/// A file that is missing.
#[derive(Clone, Copy, Debug)]
enum Absence {
    /// Since then; perhaps the folder goes next.
    Doubtful(Instant),
    /// Its folder has gone too.
    FolderLost,
}

/// A file as it was last seen.
#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    /// Hash of its content or of what is wrong with it; so a fault is told once.
    content: u64,
    /// In the view.
    shown: bool,
    /// Dead from then on unless touched.
    alive_until: Instant,
    absence: Option<Absence>,
}

/// The folder of one bucket.
#[derive(Debug)]
pub(super) struct Folder {
    bucket: Bucket,
    path: PathBuf,
    ttl: Duration,
    identity: Option<Identity>,
    files: BTreeMap<String, Seen>,
    last_scan: Option<Instant>,
}

impl Folder {
    pub(super) fn new(root: &Path, bucket: Bucket, ttl: Duration) -> Self {
        let path = bucket_folder(root, bucket);
        Self { bucket, path, ttl, identity: None, files: BTreeMap::new(), last_scan: None }
    }

    /// Brings the view up to date. Returns when it must be done again even if nothing happens.
    pub(super) fn scan(&mut self, views: &Views) -> Option<Instant> {
        let now = time::now();
        let identity = Identity::of(&self.path);
        let mut present = match list(&self.path) {
            Ok(present) => present,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(folder = %self.path.display(), %error, "cannot read a discovery folder");
                }
                BTreeMap::new()
            }
        };
        self.clear_leftovers(&mut present);
        let same_folder = identity.is_some() && identity == self.identity;
        self.note_absent(&present, same_folder, now, views);
        for (name, metadata) in &present {
            self.look(name, metadata, now, views);
        }
        self.expire(now, views);
        self.identity = identity;
        self.last_scan = Some(now);
        views.set_loaded(self.bucket);
        self.next_look()
    }

    /// Temporary files whose writer has died go when they are as old as a dead record.
    fn clear_leftovers(&self, present: &mut BTreeMap<String, Metadata>) {
        present.retain(|name, metadata| {
            if name.starts_with(TEMPORARY) && Stamp::of(metadata).age() > self.ttl + DELETE_GRACE {
                // Another process may have been faster.
                let _ = fs::remove_file(self.path.join(name));
            }
            !name.starts_with('.')
        });
    }

    fn note_absent(&mut self, present: &BTreeMap<String, Metadata>, same_folder: bool, now: Instant, views: &Views) {
        let bucket = self.bucket;
        self.files.retain(|name, seen| {
            if present.contains_key(name) {
                seen.absence = None;
                return true;
            }
            let absence = match seen.absence {
                Some(Absence::FolderLost) => Absence::FolderLost,
                _ if !same_folder => Absence::FolderLost,
                Some(Absence::Doubtful(since)) => Absence::Doubtful(since),
                None => Absence::Doubtful(now),
            };
            seen.absence = Some(absence);
            let removed = matches!(absence, Absence::Doubtful(since) if now >= since + CONFIRM);
            if removed {
                hide(seen, name, bucket, views);
            }
            !removed
        });
    }

    /// A file that is there.
    fn look(&mut self, name: &str, metadata: &Metadata, now: Instant, views: &Views) {
        let stamp = Stamp::of(metadata);
        let known = self.files.get(name);
        if known.is_some_and(|seen| seen.stamp == stamp) {
            return;
        }
        let mut age = stamp.age();
        if known.is_some()
            && let Some(last_scan) = self.last_scan
        {
            // It was touched since the last look, whatever the wall clock says.
            age = age.min(now - last_scan);
        }
        let alive_until = now + self.ttl.saturating_sub(age);
        let seen = Seen { stamp, content: 0, shown: false, alive_until, absence: None };
        let (content, shown) = known.map_or((None, false), |seen| (Some(seen.content), seen.shown));
        let seen =
            if alive_until > now { self.read(name, seen, content, shown, views) } else { Seen { shown, ..seen } };
        self.files.insert(name.to_owned(), seen);
    }

    /// Reads a file that is new, changed, or touched.
    fn read(&self, name: &str, mut seen: Seen, known: Option<u64>, shown: bool, views: &Views) -> Seen {
        let content = self.content(name);
        let text = content.as_deref().unwrap_or_else(|fault| fault.as_bytes());
        seen.content = xxhash_rust::xxh3::xxh3_64(text);
        let same = known == Some(seen.content);
        if same && shown {
            return Seen { shown: true, ..seen };
        }
        let record = content.and_then(|value| {
            let key = key_of(name, self.bucket).ok_or("its name stands for no key")?;
            let record = Record::parse(&key, &value).map_err(|error| error.reason)?;
            Ok((key, record))
        });
        match record {
            Ok((key, record)) => {
                views.put(&key, Arc::new(record));
                seen.shown = true;
            }
            Err(reason) => {
                seen.shown = shown;
                hide(&mut seen, name, self.bucket, views);
                if !same {
                    let file = self.path.join(name);
                    tracing::warn!(file = %file.display(), reason, "a discovery record is skipped");
                }
            }
        }
        seen
    }

    fn content(&self, name: &str) -> Result<Vec<u8>, String> {
        let mut content = Vec::new();
        // One byte more than allowed tells what is too large.
        let limit = MAX_RECORD_BYTES as u64 + 1;
        File::open(self.path.join(name))
            .and_then(|file| file.take(limit).read_to_end(&mut content))
            .map_err(|error| error.to_string())?;
        Ok(content)
    }

    /// The dead are hidden; their files go a little later, since an owner may have been late.
    fn expire(&mut self, now: Instant, views: &Views) {
        let (bucket, grace) = (self.bucket, delete_grace(self.ttl));
        let folder = &self.path;
        self.files.retain(|name, seen| {
            if now >= seen.alive_until && seen.shown {
                hide(seen, name, bucket, views);
                tracing::info!(file = name, "a discovery record has expired");
            }
            let due = now >= seen.alive_until + grace;
            if due && seen.absence.is_none() {
                delete_if_unchanged(&folder.join(name), seen.stamp);
                // Seen to be gone at the next look; if it cannot be deleted, tried again later.
                seen.alive_until = now;
            }
            !(due && seen.absence.is_some())
        });
    }

    /// When the next file dies, is to be deleted, or must be looked for again.
    fn next_look(&self) -> Option<Instant> {
        let grace = delete_grace(self.ttl);
        let due = |seen: &Seen| match seen.absence {
            Some(Absence::Doubtful(since)) => since + CONFIRM,
            _ if seen.shown => seen.alive_until,
            _ => seen.alive_until + grace,
        };
        self.files.values().map(due).min()
    }
}

fn delete_grace(ttl: Duration) -> Duration {
    ttl / 3 + DELETE_GRACE
}

fn key_of(name: &str, bucket: Bucket) -> Option<Key> {
    path_of(name).map(|path| Key { bucket, path })
}

fn hide(seen: &mut Seen, name: &str, bucket: Bucket, views: &Views) {
    if std::mem::take(&mut seen.shown)
        && let Some(key) = key_of(name, bucket)
    {
        views.remove(&key);
    }
}

/// Names and metadata of the plain files of a folder; what vanishes meanwhile is left out.
fn list(folder: &Path) -> io::Result<BTreeMap<String, Metadata>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else { continue };
        // Opening anything else might block.
        if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
            files.insert(name, metadata);
        }
    }
    Ok(files)
}

fn delete_if_unchanged(path: &Path, stamp: Stamp) {
    if fs::symlink_metadata(path).is_ok_and(|metadata| Stamp::of(&metadata) == stamp) {
        // Another process may have been faster, or the folder is not ours; the record is dead either way.
        let _ = fs::remove_file(path);
    }
}
