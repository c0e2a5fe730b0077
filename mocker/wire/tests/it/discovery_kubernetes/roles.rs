//! What accounts must be allowed to do: the rules that the release needs, and no more.

use std::time::Duration;

use dynosim_peers::{ApiServer, Namespace};
use dynosim_wire::discovery::{Bucket, Change, Discovery, PodUnit};

use super::{connect, connect_as, published};
use crate::sample::{Told, own};

const SLICES: (&str, &str, &str) = ("discovery.k8s.io", "endpointslices", "list, watch");
const READ: (&str, &str, &str) = ("nvidia.com", "dynamoworkermetadatas", "list, watch");
const WRITE: (&str, &str, &str) = ("nvidia.com", "dynamoworkermetadatas", "create, patch");

async fn as_account(namespace: &Namespace<'_>, pod: &str, rules: &[(&str, &str, &str)]) -> Discovery {
    let kubeconfig = namespace.account(&format!("account-{pod}"), rules);
    connect_as(namespace, pod, PodUnit::Pod, kubeconfig).await
}

#[tokio::test]
async fn a_frontend_reads_with_list_and_watch_and_a_worker_writes_with_create_and_patch() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "least-roles");
    namespace.slice("s", &[("w", "u-w", true)]);
    let frontend = as_account(&namespace, "f", &[SLICES, READ]).await;
    let worker = as_account(&namespace, "w", &[WRITE]).await;
    let mut told = Told::new(&frontend, Bucket::Instances, "").synced().await;
    let key = worker.put(&own(&worker)).await.expect("put");
    assert_eq!(told.next().await, Change::Put(key.clone(), Box::new(own(&worker))));
    // It may not delete its object, but nobody is sent there any more.
    worker.close().await.expect("close");
    assert_eq!(told.next().await, Change::Removed(key));
    let left = published(&namespace, "w");
    assert!(left["spec"]["data"]["endpoints"].as_object().is_none_or(serde_json::Map::is_empty), "{left}");
    // A frontend that ends needs to write nothing.
    frontend.close().await.expect("close");
}

#[tokio::test]
async fn a_worker_that_may_not_write_says_so_and_one_whose_role_comes_late_goes_on() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "no-roles");
    let worker = as_account(&namespace, "w", &[READ]).await;
    let refused = worker.put(&own(&worker)).await.expect_err("it may not").to_string();
    assert!(refused.starts_with("Kubernetes https://127.0.0.1:") && refused.contains("forbidden"), "{refused}");
    assert!(refused.contains("system:serviceaccount:no-roles:account-w"), "{refused}");
    assert!(refused.contains("dynamoworkermetadatas"), "{refused}");
    let late = as_account(&namespace, "late", &[READ]).await;
    let record = own(&late);
    let put = async { late.put(&record).await };
    let grant = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        namespace.account("account-late", &[READ, WRITE]);
    };
    let (put, ()) = tokio::join!(put, grant);
    put.expect("the role came");
}

#[tokio::test]
async fn a_record_that_the_server_refuses_takes_no_other_with_it() {
    let Some(server) = ApiServer::shared() else { return };
    let namespace = Namespace::new(server, "refused");
    let worker = connect(&namespace, "w").await;
    worker.put(&own(&worker)).await.expect("put");
    let wrong = connect(&namespace, "w.").await;
    let refused = wrong.put(&own(&wrong)).await.expect_err("no such name can be").to_string();
    assert!(refused.contains("Invalid value"), "{refused}");
    assert_eq!(published(&namespace, "w")["metadata"]["generation"], 1);
}
