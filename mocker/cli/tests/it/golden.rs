//! Files that hold what a run must give, byte by byte.

use std::path::{Path, PathBuf};

pub(crate) use dynosim_peers::assert_golden as assert_equal;

/// A file of `tests/it/golden`.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/golden").join(name)
}
