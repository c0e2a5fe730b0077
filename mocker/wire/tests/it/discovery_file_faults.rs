//! What becomes of records in a folder when processes die and files are tampered with.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use dynosim_wire::discovery::{Bucket, Discovery};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{DEADLINE, Told, endpoint, own};

const TTL: Duration = Duration::from_secs(10);
const SHORT_TTL: Duration = Duration::from_secs(2);
/// Folder for [`owner_process`].
const OWNER_ROOT: &str = "DYNOSIM_TEST_OWNER_ROOT";

async fn connect(root: &Path, ttl: Duration) -> Discovery {
    let config = DiscoveryConfig::File { root: root.to_owned(), ttl };
    Discovery::connect(&config).await.expect("the folder is usable")
}

fn instances(root: &Path) -> PathBuf {
    root.join("v1/instances")
}

/// Writes a file as another program would, with the age that it says.
fn write(root: &Path, name: &str, content: &[u8], age: Duration) -> PathBuf {
    let path = instances(root).join(name);
    std::fs::write(&path, content).expect("file");
    let touched = std::fs::metadata(&path).and_then(|data| data.modified()).expect("time") - age;
    let file = std::fs::File::options().write(true).open(&path).expect("file");
    file.set_modified(touched).expect("touched");
    path
}

async fn gone(path: &Path) {
    let gone = async {
        while path.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("the file goes");
}

/// A worker that lives until it is killed.
#[tokio::test]
#[ignore = "is started by another test"]
async fn owner_process() {
    let root = PathBuf::from(std::env::var_os(OWNER_ROOT).expect("a folder is given"));
    let worker = connect(&root, SHORT_TTL).await;
    worker.put(&own(&worker)).await.expect("put");
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn records_of_a_killed_process_expire_and_their_files_go() {
    let root = tempfile::tempdir().expect("temporary folder");
    let frontend = connect(root.path(), SHORT_TTL).await;
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let mut owner = tokio::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "discovery_file_faults::owner_process", "--ignored"])
        .env(OWNER_ROOT, root.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a second process");
    told.count(1).await;
    assert!(told.quiet(SHORT_TTL + SHORT_TTL / 2).await, "the living owner keeps it");
    owner.kill().await.expect("killed");
    let killed = tokio::time::Instant::now();
    told.count(0).await;
    assert!(killed.elapsed() < SHORT_TTL + Duration::from_secs(2), "{:?}", killed.elapsed());
    let file = std::fs::read_dir(instances(root.path())).expect("folder").next();
    if let Some(file) = file {
        gone(&file.expect("entry").path()).await;
    }
}

#[tokio::test]
async fn a_root_that_was_removed_is_made_again_with_the_records_of_the_living() {
    let root = tempfile::tempdir().expect("temporary folder");
    let store = root.path().join("store");
    let (worker, frontend) = (connect(&store, SHORT_TTL).await, connect(&store, SHORT_TTL).await);
    let key = worker.put(&own(&worker)).await.expect("put");
    // Of nobody alive: believed until it would have expired.
    write(&store, "dynamo%2Fdead%2Fgenerate%2F7", &endpoint("dead", 7).to_json().expect("json"), Duration::ZERO);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 2);
    // Others may be at making it again already.
    while std::fs::remove_dir_all(&store).is_err() && store.exists() {}
    told.count(1).await;
    assert_eq!(told.records[&key.path], own(&worker));
    assert_eq!(told.log.len(), 4, "two records, synced, one removed: the living was never gone");
    // Watches work in the new folder, and the worker's record is in it.
    let late = worker.put(&endpoint("late", 8)).await.expect("put");
    told.count(2).await;
    assert!(told.records.contains_key(&late.path));
    let newcomer = connect(&store, SHORT_TTL).await;
    Told::new(&newcomer, Bucket::Instances, "").count(2).await;
}

#[tokio::test]
async fn a_bucket_that_was_removed_is_made_again() {
    let root = tempfile::tempdir().expect("temporary folder");
    let worker = connect(root.path(), TTL).await;
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&worker, Bucket::Instances, "").synced().await;
    while std::fs::remove_dir_all(instances(root.path())).is_err() {}
    let folder = instances(root.path());
    let restored = async {
        while std::fs::read_dir(&folder).map_or(0, Iterator::count) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, restored).await.expect("written again");
    assert!(told.quiet(Duration::from_millis(100)).await);
}

#[tokio::test]
async fn a_record_that_another_removed_is_written_again() {
    let root = tempfile::tempdir().expect("temporary folder");
    let (worker, frontend) = (connect(root.path(), SHORT_TTL).await, connect(root.path(), SHORT_TTL).await);
    worker.put(&own(&worker)).await.expect("put");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let file = std::fs::read_dir(instances(root.path())).expect("folder").next().expect("a file").expect("entry");
    std::fs::remove_file(file.path()).expect("removed");
    told.count(0).await;
    told.count(1).await;
}

#[tokio::test]
async fn files_that_are_too_old_are_dead_and_go_and_half_written_ones_too() {
    let root = tempfile::tempdir().expect("temporary folder");
    let frontend = connect(root.path(), SHORT_TTL).await;
    let old = Duration::from_mins(1);
    let content = endpoint("backend", 7).to_json().expect("json");
    let dead = write(root.path(), "dynamo%2Fbackend%2Fgenerate%2F7", &content, old);
    let half = write(root.path(), ".tmp_1_2", &content, old);
    let told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert!(told.records.is_empty());
    gone(&dead).await;
    gone(&half).await;
}

#[tokio::test]
async fn a_time_in_the_future_is_now_and_a_touch_makes_alive_again() {
    let root = tempfile::tempdir().expect("temporary folder");
    let frontend = connect(root.path(), SHORT_TTL).await;
    let content = endpoint("backend", 7).to_json().expect("json");
    let path = write(root.path(), "dynamo%2Fbackend%2Fgenerate%2F7", &content, Duration::ZERO);
    let file = std::fs::File::options().write(true).open(&path).expect("file");
    let future = std::fs::metadata(&path).and_then(|data| data.modified()).expect("time") + Duration::from_hours(1);
    file.set_modified(future).expect("touched");
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.len(), 1);
    told.count(0).await;
    file.set_modified(future + Duration::from_secs(1)).expect("touched");
    told.count(1).await;
}

#[tokio::test]
async fn records_that_make_no_sense_are_skipped() {
    let root = tempfile::tempdir().expect("temporary folder");
    let frontend = connect(root.path(), TTL).await;
    let content = endpoint("backend", 7).to_json().expect("json");
    let put = |name: &str, content: &[u8]| write(root.path(), name, content, Duration::ZERO);
    put("dynamo%2Fbackend%2Fgenerate%2F1", b"{");
    put("dynamo%2Fbackend%2Fgenerate%2F2", &content);
    put("dynamo%2Fbackend%2Fgenerate%2Fnot", &content);
    put("dynamo%2fbackend%2fgenerate%2f7", &content);
    put("%FF", &content);
    put(".hidden", &content);
    put("dynamo%2Fbackend%2Fgenerate%2F3", &vec![b' '; 2_000_000]);
    std::fs::create_dir(instances(root.path()).join("dynamo%2Fbackend%2Fgenerate%2F4")).expect("folder");
    std::os::unix::fs::symlink("/dev/zero", instances(root.path()).join("dynamo%2Fbackend%2Fgenerate%2F5"))
        .expect("link");
    put("dynamo%2Fbackend%2Fgenerate%2F7", &content);
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    assert_eq!(told.records.keys().collect::<Vec<_>>(), ["dynamo/backend/generate/7"]);
    // A record that was good and is no longer so has gone.
    put("dynamo%2Fbackend%2Fgenerate%2F7", b"null");
    told.count(0).await;
    put("dynamo%2Fbackend%2Fgenerate%2F7", &content);
    told.count(1).await;
}
