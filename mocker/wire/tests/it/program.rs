//! Programs that a test needs and a machine may lack.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The program, or none if the test is to be skipped: said loudly, and a failure where everything must be there.
pub(crate) fn find(name: &str, candidates: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let found = candidates.into_iter().find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("DYNOSIM_SHARED").is_none(), "{name} is missing");
        let note = format!("SKIPPED {}: {name} is missing\n", std::thread::current().name().unwrap_or("a test"));
        std::io::stderr().write_all(note.as_bytes()).expect("stderr");
    }
    found
}

/// Where a program may be: in the folders of `PATH` and those of administrators.
pub(crate) fn in_path(name: &str) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let admin = ["/usr/sbin", "/usr/local/bin"].map(Path::new).map(Path::to_owned);
    std::env::split_paths(&path).chain(admin).map(|folder| folder.join(name)).collect()
}
