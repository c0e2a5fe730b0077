//! Files that hold what a run must give, byte by byte.

use std::fs;
use std::path::Path;

/// Fails unless the file holds `found`; with `UPDATE_GOLDEN=1`, makes it so.
///
/// # Panics
/// If it does not.
#[track_caller]
pub fn assert_golden(path: &Path, found: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, found).expect("written");
        return;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).position(|(expected, found)| expected != found);
    let line = differs.unwrap_or_else(|| expected.lines().count().min(found.lines().count())) + 1;
    assert!(
        expected == found,
        "{} differs from line {line} on; if that is right, set UPDATE_GOLDEN=1.\nfound:\n{found}",
        path.display()
    );
}
