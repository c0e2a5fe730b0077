//! The published release (1.6.1) and this library on one store.

use std::path::Path;
use std::time::Duration;

use dynosim_peers::{Etcd, Process, free_port, http, release};
use dynosim_wire::card::ModelFiles;
use dynosim_wire::discovery::{Bucket, Discovery, ModelRecord, Record};
use dynosim_wire::runtime::DiscoveryConfig;

use crate::sample::{Told, in_etcd, own};

/// The release needs seconds to start, more on a busy machine.
const START: Duration = Duration::from_mins(1);
const TTL: Duration = Duration::from_secs(10);

/// Where both keep their records.
struct Store {
    config: DiscoveryConfig,
    backend: &'static str,
    environment: (&'static str, String),
    events: &'static str,
}

fn file_store(root: &Path) -> Store {
    let environment = ("DYN_FILE_KV", root.display().to_string());
    Store {
        config: DiscoveryConfig::File { root: root.to_owned(), ttl: TTL },
        backend: "file",
        environment,
        events: "zmq",
    }
}

fn etcd_store(etcd: &Etcd) -> Store {
    Store { config: in_etcd(etcd, TTL), backend: "etcd", environment: ("ETCD_ENDPOINTS", etcd.url()), events: "zmq" }
}

impl Store {
    fn start(&self, python: &Path, folder: &Path, module: &str, args: &[&str]) -> Process {
        let store = ["--discovery-backend", self.backend, "--request-plane", "tcp", "--event-plane", self.events];
        let (name, value) = &self.environment;
        let mut command = Process::of_release(python, module);
        Process::start(command.args(args).args(store).env(name, value), &folder.join("log"))
    }
}

async fn the_worker_of_the_release_is_seen_until_it_leaves(store: &Store) {
    let Some(python) = release() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    let model = ModelFiles::open("hub/model").expect("the built-in model");
    let discovery = Discovery::connect(&store.config).await.expect("the store is there");
    let mut watched = Bucket::ALL.map(|bucket| Told::new(&discovery, bucket, ""));
    let path = model.folder.display().to_string();
    let args = ["--model-path", &path, "--model-name", "tiny", "--speedup-ratio", "1000"];
    let mut worker = store.start(&python, folder.path(), "dynamo.mocker", &args);
    let appear = async {
        // Two endpoints, a card, four event channels, a source; the last channel is only there with a router.
        for (told, count) in watched.iter_mut().zip([2, 1, 3, 1]) {
            while told.records.len() < count {
                told.next_within(START).await;
            }
        }
    };
    tokio::time::timeout(START, appear).await.unwrap_or_else(|_| panic!("not all is there: {}", worker.log()));
    let Some(Record::Model(record)) = watched[1].records.values().next() else { panic!("no card") };
    let card = &record.card_json;
    let ours = model.card("tiny", &path, None);
    assert_eq!((&card.model_info, &card.tokenizer), (&ours.model_info, &ours.tokenizer), "paths, checksums, sizes");
    assert_eq!((&card.prompt_formatter, &card.gen_config), (&ours.prompt_formatter, &ours.gen_config));
    assert_eq!(
        (&card.slug, card.architectural_max_context_length),
        (&ours.slug, ours.architectural_max_context_length)
    );
    worker.terminate();
    for told in &mut watched {
        while !told.records.is_empty() {
            told.next_within(START).await;
        }
    }
}

async fn the_frontend_of_the_release_lists_our_model(store: &Store) {
    let Some(python) = release() else { return };
    let folder = tempfile::tempdir().expect("temporary folder");
    let model = ModelFiles::open("hub/model").expect("the built-in model");
    let discovery = Discovery::connect(&store.config).await.expect("the store is there");
    let port = free_port();
    let args = ["--http-host", "127.0.0.1", "--http-port", &port.to_string(), "--router-mode", "round-robin"];
    let frontend = store.start(&python, folder.path(), "dynamo.frontend", &args);
    let mut card = model.card("our/model", "our/model", None);
    card.kv_cache_block_size = 64;
    let record = ModelRecord {
        namespace: "dynamo".to_owned(),
        component: "backend".to_owned(),
        endpoint: "generate".to_owned(),
        instance_id: discovery.instance_id(),
        card_json: card,
        model_suffix: None,
    };
    discovery.put(&own(&discovery)).await.expect("put");
    discovery.put(&Record::Model(Box::new(record))).await.expect("put");
    let listed = async |expected: bool| {
        let listed = async {
            while models(port).is_none_or(|models| models.contains("our/model") != expected) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let waited = tokio::time::timeout(START, listed).await;
        waited.unwrap_or_else(|_| panic!("listed should be {expected}: {:?} {}", models(port), frontend.log()));
    };
    listed(true).await;
    discovery.close().await.expect("close");
    listed(false).await;
}

fn models(port: u16) -> Option<String> {
    http(port, "GET", "/v1/models", "").ok().filter(|answer| answer.contains("\"object\":\"list\""))
}

#[tokio::test]
async fn the_worker_of_the_release_is_seen_in_a_folder() {
    let root = tempfile::tempdir().expect("temporary folder");
    the_worker_of_the_release_is_seen_until_it_leaves(&file_store(root.path())).await;
}

#[tokio::test]
async fn the_worker_of_the_release_is_seen_in_etcd() {
    let Some(etcd) = Etcd::start() else { return };
    the_worker_of_the_release_is_seen_until_it_leaves(&etcd_store(&etcd)).await;
}

#[tokio::test]
async fn the_frontend_of_the_release_lists_our_model_from_a_folder() {
    let root = tempfile::tempdir().expect("temporary folder");
    the_frontend_of_the_release_lists_our_model(&file_store(root.path())).await;
}

#[tokio::test]
async fn the_frontend_of_the_release_lists_our_model_from_etcd() {
    let Some(etcd) = Etcd::start() else { return };
    the_frontend_of_the_release_lists_our_model(&etcd_store(&etcd)).await;
}
