//! Telling a folder from another that was made in its place.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

/// Which folder it is. Inode numbers alone are used again at once by some file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    made: Option<SystemTime>,
}

impl Identity {
    /// Of the folder that has this path now; none if there is none.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some(Self { device: metadata.dev(), inode: metadata.ino(), made: metadata.created().ok() })
    }
}
