//! The process: its async runtime and how long it is up.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};

use super::families::Make;

/// A timer that comes later than that is a stall.
const STALL_S: f64 = 0.005;

/// Figures of the process.
#[derive(Debug)]
pub(crate) struct ProcessMetrics {
    started: Instant,
    uptime: Gauge,
    delay: Histogram,
    stalls: IntCounter,
    tasks: IntGauge,
    queue: IntGauge,
    busy: IntGaugeVec,
    parks: IntCounterVec,
    /// When the page was last made, and how long each thread had been busy by then.
    last: Mutex<(Instant, Vec<Duration>)>,
}

const DELAY_S: [f64; 10] = [0.0, 1e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

impl ProcessMetrics {
    pub(super) fn new(make: &Make<'_>, instance: u64) -> Result<Self, prometheus::Error> {
        let now = dynosim_wire::time::now();
        let uptime = Opts::new("dynamo_component_uptime_seconds", "Seconds since the start")
            .const_label("worker_id", format!("{instance:x}"));
        Ok(Self {
            started: now,
            uptime: make.float_gauge(uptime)?,
            delay: make.histogram(
                &make.own("event_loop_delay_seconds"),
                "Seconds that a timer of 10 ms came late",
                &DELAY_S,
            )?,
            stalls: make.counter(&make.own("event_loop_stall_total"), "Timers that came more than 5 ms late")?,
            tasks: make.gauge("dynamo_tokio_alive_tasks", "Tasks of the async runtime")?,
            queue: make.gauge("dynamo_tokio_global_queue_depth", "Tasks in the global queue of the async runtime")?,
            busy: make.gauges(
                "dynamo_tokio_worker_busy_ratio",
                "Thousandths of the time since the last look that a thread was busy",
                &["worker"],
            )?,
            parks: make.counters(
                "dynamo_tokio_worker_park_count_total",
                "Times that a thread went to sleep",
                &["worker"],
            )?,
            last: Mutex::new((now, Vec::new())),
        })
    }

    /// How late a timer came.
    pub(super) fn timer_was_late(&self, seconds: f64) {
        self.delay.observe(seconds);
        if seconds > STALL_S {
            self.stalls.inc();
        }
    }

    /// Takes the figures of now; does nothing for the runtime outside of one.
    pub(super) fn update(&self) {
        self.uptime.set(self.started.elapsed().as_secs_f64());
        let Ok(handle) = tokio::runtime::Handle::try_current() else { return };
        let runtime = handle.metrics();
        self.tasks.set(runtime.num_alive_tasks() as i64);
        self.queue.set(runtime.global_queue_depth() as i64);
        let now = dynosim_wire::time::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(last.0).as_secs_f64();
        let threads = runtime.num_workers();
        last.1.resize(threads, Duration::ZERO);
        for thread in 0..threads {
            let label = thread.to_string();
            let busy = runtime.worker_total_busy_duration(thread);
            let since = busy.saturating_sub(last.1[thread]).as_secs_f64();
            let thousandths = if passed > 0.0 { (since / passed).min(1.0) * 1e3 } else { 0.0 };
            self.busy.with_label_values(&[&label]).set(thousandths as i64);
            let parks = self.parks.with_label_values(&[&label]);
            parks.inc_by(runtime.worker_park_count(thread).saturating_sub(parks.get()));
            last.1[thread] = busy;
        }
        last.0 = now;
    }
}
