//! The tests that `docs/compatibility.md` names are there.

use std::collections::BTreeSet;
use std::path::Path;

/// Files of tests, and those below a folder.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `module::test` of all functions in the folders of tests.
fn tests(root: &Path) -> BTreeSet<String> {
    let mut files = Vec::new();
    let crates =
        ["operator", "operator/api", "mocker/worker", "mocker/frontend", "mocker/wire", "mocker/cli", "tests/e2e"];
    for name in crates {
        sources(&root.join(name).join("tests/it"), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in files {
        let module = file.file_stem().expect("a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("read");
        let functions =
            text.split("fn ").skip(1).filter_map(|rest| rest.split_once('(').map(|(name, _)| name.to_owned()));
        found.extend(functions.map(|name| format!("{module}::{name}")));
    }
    found
}

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tests = tests(&root);
    let text = std::fs::read_to_string(root.join("docs/compatibility.md")).expect("the page");
    let named = text.split('`').skip(1).step_by(2).filter(|text| text.contains("::") && *text != "module::test");
    let named: Vec<_> = named.collect();
    assert!(named.len() > 100, "{} names", named.len());
    let missing: BTreeSet<_> = named.into_iter().filter(|name| !tests.contains(*name)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}
