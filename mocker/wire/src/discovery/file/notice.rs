//! Being told by the system that something in the folders has changed.

use std::path::{Path, PathBuf};

use notify::event::ModifyKind;
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use super::identity::Identity;
use super::own::{TEMPORARY, bucket_folder};
use crate::discovery::Bucket;

/// Watches the folders of all buckets. Without it (no watches left in the system) polling alone finds changes.
#[derive(Debug)]
pub(super) struct Notice {
    watcher: RecommendedWatcher,
    /// Folders, and which of that name is watched.
    watched: Vec<(PathBuf, Option<Identity>)>,
}

impl Notice {
    /// `changed` is called for every change that matters, from a thread of the watcher's.
    pub(super) fn new(root: &Path, changed: impl Fn() + Send + 'static) -> Option<Self> {
        let handler = move |event: notify::Result<notify::Event>| {
            if event.as_ref().map_or(true, matters) {
                changed();
            }
        };
        match notify::recommended_watcher(handler) {
            Ok(watcher) => {
                let folders = Bucket::ALL.map(|bucket| (bucket_folder(root, bucket), None)).to_vec();
                Some(Self { watcher, watched: folders })
            }
            Err(error) => {
                tracing::warn!(%error, "cannot be told of changes in the discovery folder; polling it instead");
                None
            }
        }
    }

    /// Watches again what was removed and made anew. True if any folder was.
    pub(super) fn renew(&mut self) -> bool {
        let mut renewed = false;
        for (folder, watched) in &mut self.watched {
            let present = Identity::of(folder);
            if present == *watched {
                continue;
            }
            renewed = true;
            // The system has dropped the watch of a removed folder by itself; then this fails, which is fine.
            let _ = self.watcher.unwatch(folder);
            *watched = None;
            if present.is_none() {
                continue;
            }
            match self.watcher.watch(folder, RecursiveMode::NonRecursive) {
                Ok(()) => *watched = present,
                Err(error) => tracing::warn!(folder = %folder.display(), %error, "cannot watch a discovery folder"),
            }
        }
        renewed
    }
}

/// Touching, opening, reading and files that are not complete change nothing for readers.
fn matters(event: &notify::Event) -> bool {
    let content = !matches!(event.kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)));
    let temporary = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(TEMPORARY));
    content && (event.need_rescan() || event.paths.is_empty() || !event.paths.iter().all(temporary))
}
