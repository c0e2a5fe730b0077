//! Some graphs at once, on a node that only looks as if it ran pods. `examples/scale.rs` does the same with thousands.

use dynosim_e2e::connect;
use dynosim_e2e::fleet::{COMPONENTS, with_fleet};
use dynosim_e2e::operator::installed;

const GRAPHS: usize = 20;

#[tokio::test]
async fn a_restarted_operator_writes_nothing_and_changes_of_many_graphs_are_seen_through() {
    let Some(client) = connect().await else { return };
    installed().await;
    with_fleet(client, "few", 2, GRAPHS, async |fleet| {
        fleet.apply().await;
        fleet.ready().await;
        let before = fleet.versions().await;
        let deployments = before.keys().filter(|name| name.starts_with("apps/Deployment ")).count();
        assert_eq!(deployments, GRAPHS * COMPONENTS);
        fleet.restart_operator().await;
        assert_eq!(fleet.versions().await, before, "nothing was written");
        for graph in 0..GRAPHS {
            fleet.scale(graph, 2).await;
        }
        fleet.ready().await;
        let reconciled = fleet.reconciled().await.expect("metrics");
        assert!(reconciled.count >= 2.0 * GRAPHS as f64, "{reconciled:?}");
    })
    .await;
}
