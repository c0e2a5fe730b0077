//! Figures of the operator with many graphs, on the cluster that `KUBECONFIG` names, which has it installed.
//!
//! ```text
//!   cargo run -p dynosim-e2e --example scale -- [GRAPHS [NAMESPACES [SECONDS]]]
//! ```
//!
//! Makes a node that only looks as if it ran pods, and graphs of a frontend and three workers (1000 in 4 namespaces, unless
//! told otherwise); restarts the operator; then gives a worker of 1 % of them an adapter each second (for 30 seconds), which
//! is work for the operator alone, and scales as many, which is work for all of Kubernetes. All is removed in the end.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for the terminal that tells times")]

use std::time::{Duration, Instant};

use dynosim_e2e::connect;
use dynosim_e2e::fleet::{COMPONENTS, Fleet, Reconciled, with_fleet};

const MB: f64 = 1e6;

#[tokio::main]
async fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let graphs = numbers.next().unwrap_or(1000);
    let namespaces = numbers.next().unwrap_or(4);
    let seconds = numbers.next().unwrap_or(30);
    let Some(client) = connect().await else { return };
    with_fleet(client, "scale", namespaces, graphs, async |fleet| {
        made(fleet, graphs).await;
        restarted(fleet).await;
        changed(fleet, graphs, seconds, "given an adapter", async |number| fleet.add_adapter(number).await).await;
        changed(fleet, graphs, seconds, "scaled", async |number| fleet.scale(number, 2).await).await;
    })
    .await;
}

async fn reconciled(fleet: &Fleet) -> Reconciled {
    fleet.reconciled().await.expect("metrics")
}

async fn told(fleet: &Fleet, what: &str, begun: Instant, by: &Reconciled) {
    let memory = fleet.memory().await.expect("a figure") as f64 / MB;
    println!(
        "{what}: {:.1} s; {} reconciliations, {} failed, mean {:.2} ms, half within {} ms, p99 within {} ms; operator {memory:.0} MB",
        begun.elapsed().as_secs_f64(),
        by.count,
        by.failed,
        1e3 * by.seconds / by.count.max(1.0),
        1e3 * by.within(0.5),
        1e3 * by.within(0.99),
    );
}

async fn made(fleet: &Fleet, graphs: usize) {
    let (begun, before) = (Instant::now(), reconciled(fleet).await);
    fleet.apply().await;
    println!(
        "{graphs} graphs, {} Deployments: applied after {:.1} s",
        graphs * COMPONENTS,
        begun.elapsed().as_secs_f64()
    );
    fleet.ready().await;
    told(fleet, "all ready", begun, &reconciled(fleet).await.since(&before)).await;
}

async fn restarted(fleet: &Fleet) {
    let before = fleet.versions().await;
    let begun = Instant::now();
    fleet.restart_operator().await;
    told(fleet, "restarted, all looked at", begun, &reconciled(fleet).await).await;
    let after = fleet.versions().await;
    let written = after.iter().filter(|(name, version)| before.get(*name) != Some(version));
    println!("objects written by that: {} of {}", written.count(), before.len());
}

/// Changes 1 % of the graphs each second.
async fn changed(fleet: &Fleet, graphs: usize, seconds: usize, what: &str, change: impl AsyncFn(usize)) {
    let each = graphs.div_ceil(100);
    let (begun, before) = (Instant::now(), reconciled(fleet).await);
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    for second in 0..seconds {
        ticks.tick().await;
        for number in 0..each {
            change((second * each + number) % graphs).await;
        }
    }
    println!("{} changes in {:.1} s", seconds * each, begun.elapsed().as_secs_f64());
    fleet.ready().await;
    told(fleet, &format!("1 % {what} each second, all ready"), begun, &reconciled(fleet).await.since(&before)).await;
}
