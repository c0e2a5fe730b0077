//! A whole run, in parts where its workers have nothing to do with each other.
//!
//! Round robin over scheduled, independent requests deals the workload out whatever the workers do. Each worker then
//! is a run of its own, by the same event loop: its KV cache stays in the processor's, and parts run side by side. What
//! the parts give is put together in the order of the workers, so the number of threads changes nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dynosim_workload::{Part, Workload};

use crate::collector::Collector;
use crate::config::{Admission, Fleet, Pool, Progress, ReplayConfig, ReplayError, Routing};
use crate::records::{Record, sort};
use crate::replay::Replay;
use crate::report::{Provision, Report};

/// What a run gives.
#[derive(Debug)]
pub struct Outcome {
    /// The summary.
    pub report: Report,
    /// Rows per request, sorted by arrival, if they were wanted.
    pub records: Option<Vec<Record>>,
    /// What was asked for by [`ReplayConfig::explain`]: for each choice the cost of every worker and why one won.
    pub explanation: Option<String>,
    /// Digest of all events: equal for equal runs.
    pub digest: u64,
}

/// Replays `workload` from its start, on at most `threads` threads.
pub fn replay(
    config: &ReplayConfig,
    workload: &mut dyn Workload,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Outcome, ReplayError> {
    let mut collector = match independent_parts(config, workload) {
        Some((pool, parts)) => run_parts(config, pool, parts, threads, progress)?,
        None => Replay::new(config, config.fleet.clone(), 0, workload)?.run(progress)?,
    };
    let digest = collector.digest.value();
    let mut records = collector.records.take();
    if let Some(records) = &mut records {
        sort(records);
    }
    let explanation = Some(collector.explanations.concat()).filter(|text| !text.is_empty());
    let report = Report::new(Provision::simulated(config), collector);
    Ok(Outcome { report, records, explanation, digest })
}

type Source = Box<dyn Workload + Send>;

/// One workload per worker, if nothing that a worker does can reach another.
fn independent_parts<'c>(config: &'c ReplayConfig, workload: &dyn Workload) -> Option<(&'c Pool, Vec<Source>)> {
    let (Fleet::Aggregated(pool), Routing::RoundRobin) = (&config.fleet, &config.routing) else { return None };
    let of = pool.engines.len() as u32;
    if of == 1 || config.admission != Admission::Schedule {
        return None;
    }
    let parts: Option<_> = (0..of).map(|number| workload.part(Part { number, of })).collect();
    Some((pool, parts?))
}

fn run_parts(
    config: &ReplayConfig,
    pool: &Pool,
    parts: Vec<Source>,
    threads: usize,
    progress: Progress<'_>,
) -> Result<Collector, ReplayError> {
    let count = parts.len();
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let parts: Vec<_> = parts.into_iter().map(|source| Mutex::new(Some(source))).collect();
    let results: Vec<_> = (0..count).map(|_| Mutex::new(None)).collect();
    let work = |tell: Progress<'_>| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(mut source) = parts.get(number).and_then(take) else { return };
            let fleet = Fleet::Aggregated(Pool { engines: vec![pool.engines[number].clone()], ..*pool });
            let mut told = 0;
            let mut part_progress = |ended: u64| {
                let all = done.fetch_add(ended - told, Ordering::Relaxed) + ended - told;
                told = ended;
                tell(all);
            };
            let part = Replay::new(config, fleet, number as u32, &mut *source);
            let result = part.and_then(|part| part.run(&mut part_progress));
            if let Ok(mut slot) = results[number].lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(|| work(&mut |_| ()));
        }
        work(progress);
    });
    let mut whole: Option<Collector> = None;
    for result in results.iter().filter_map(take) {
        let part = result?;
        match &mut whole {
            Some(whole) => whole.append(part),
            None => whole = Some(part),
        }
    }
    Ok(whole.unwrap_or_default())
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().ok()?.take()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use dynosim_engine::{EngineArgs, Horizon, Nanos, Timing};
    use dynosim_workload::{SessionArrivals, SharedPrefix, Synthetic, SyntheticOptions, Turn, WorkloadError};
    use serde_json::Value;

    use super::*;
    use crate::sla::Sla;

    fn config(workers: u32) -> ReplayConfig {
        let args = EngineArgs::from_json(r#"{"num_gpu_blocks": 40, "block_size": 16}"#).unwrap();
        let engines = (0..workers).map(|worker| args.engine_config(worker.into(), Timing::default())).collect();
        ReplayConfig {
            fleet: Fleet::Aggregated(Pool {
                engines,
                max_num_batched_tokens: None,
                gpus_per_worker: 1,
                startup: Nanos::ZERO,
            }),
            routing: Routing::RoundRobin,
            admission: Admission::Schedule,
            end: None,
            sla: Sla { ttft_ms: Some(100.0), ..Sla::default() },
            records: true,
            kv_eviction_policy: "lineage",
            reasoning: None,
            horizon: Horizon::Run,
            explain: None,
        }
    }

    fn workload() -> Synthetic {
        Synthetic::new(SyntheticOptions {
            input_tokens: 200,
            output_tokens: 40,
            request_count: 301,
            shared_prefix: SharedPrefix { ratio: 0.5, groups: 5 },
            arrivals: SessionArrivals::Poisson { rate_rps: 30.0, seed: 3 },
            ..SyntheticOptions::default()
        })
        .unwrap()
    }

    fn assert_close(a: &Value, b: &Value) {
        for (name, value) in a.as_object().unwrap() {
            let same = match (value.as_f64(), b[name].as_f64()) {
                (Some(x), Some(y)) => (x - y).abs() <= 1e-9 * x.abs(),
                _ => *value == b[name],
            };
            assert!(same, "{name}: {value}, {}", b[name]);
        }
    }

    #[test]
    fn parts_give_what_one_loop_over_all_workers_gives() {
        let (config, mut source) = (config(3), workload());
        let whole = Replay::new(&config, config.fleet.clone(), 0, &mut source).unwrap();
        let whole = whole.run(&mut |_| ()).unwrap();
        let mut rows = whole.records.clone().unwrap();
        sort(&mut rows);
        let whole = Report::new(Provision::simulated(&config), whole);
        let parts = replay(&config, &mut workload(), 2, &mut |_| ()).unwrap();
        assert_close(&parts.report.to_json(1.0), &whole.to_json(1.0));
        assert_eq!(serde_json::to_value(parts.records).unwrap(), serde_json::to_value(rows).unwrap());
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let run = |threads| {
            let outcome = replay(&config(4), &mut workload(), threads, &mut |_| ()).unwrap();
            (outcome.digest, outcome.report.to_json(1.0), serde_json::to_value(outcome.records).unwrap())
        };
        assert_eq!(run(1), run(3));
    }

    #[test]
    fn progress_counts_requests_of_all_parts() {
        let mut told = 0;
        replay(&config(1), &mut workload(), 4, &mut |done| told = done).unwrap();
        assert!((200..=301).contains(&told), "{told}");
    }

    /// Holds one request back that it has promised.
    struct Lost(Synthetic);

    impl Workload for Lost {
        fn peek(&mut self) -> Result<Option<Nanos>, WorkloadError> {
            self.0.peek()
        }

        fn take(&mut self, hashes: &mut Vec<u64>) -> Result<Option<Turn>, WorkloadError> {
            self.0.take(hashes)
        }

        fn next_delay(&mut self, turn: &Turn) -> Option<Nanos> {
            self.0.next_delay(turn)
        }

        fn take_next(&mut self, session: u32, hashes: &mut Vec<u64>) -> Result<Turn, WorkloadError> {
            self.0.take_next(session, hashes)
        }

        fn total_requests(&self) -> u64 {
            self.0.total_requests() + 1
        }

        fn total_sessions(&self) -> u64 {
            self.0.total_sessions()
        }

        fn session_name(&self, session: u32) -> Cow<'_, str> {
            self.0.session_name(session)
        }
    }

    #[test]
    fn a_run_that_comes_to_a_dead_end_says_so() {
        let error = replay(&config(2), &mut Lost(workload()), 1, &mut |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("1 requests are left at "), "{error}");
        let early = ReplayConfig { end: Some(Nanos::from_ms(1e9)), ..config(2) };
        assert!(replay(&early, &mut Lost(workload()), 1, &mut |_| ()).is_ok());
    }
}
