//! The engine on the wall clock: one thread that owns it and sleeps until its step ends.
//!
//! Virtual time is the monotonic clock since the worker's start, and steps begin where the last one ended, not where the
//! thread woke up: it never drifts. See [`crate::pace`] for why a late wake-up decides nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use dynosim_engine::{BlockHashes, Engine, EngineConfig, Nanos, Request, Role};

use crate::flight::{Content, Serial};
use crate::pace::{Command, Due, Observe, Pace, Prompt, Submission};
use crate::progress::{Progress, Snapshot};
use crate::queue::{Clock, CommandQueue, Wait};

/// Requests inside one worker at once; more are refused.
pub const MAX_REQUESTS: usize = 65_536;
/// Stack of an engine's thread in bytes. Nothing there recurses.
const STACK_BYTES: usize = 512 * 1024;

/// Watches an engine and says when it wants to be asked again.
pub trait Report: Observe + Send + 'static {
    /// All that was due is done. What comes back is when something is to be reported even if nothing happens.
    fn settle(&mut self, now: Nanos, engine: &Engine) -> Option<Nanos>;
}

/// More requests than a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_REQUESTS} requests at once, more are not allowed")]
pub struct TooManyRequests;

#[derive(Debug)]
struct Shared {
    /// Requests that have ended may still hold KV here.
    holds_kv: bool,
    queue: CommandQueue,
    serials: AtomicU64,
    requests: AtomicUsize,
}

/// The way to an engine. Clones share it.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    shared: Arc<Shared>,
}

/// A request as its task has it.
#[derive(Debug)]
pub struct NewRequest {
    /// Rank, or the next one in turn.
    pub rank: Option<u32>,
    /// Who computes the prompt.
    pub prompt: Prompt,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Output tokens.
    pub planned: u32,
    /// vLLM's meaning: lower runs first.
    pub priority: i32,
    /// The client asked to go on after an end token.
    pub ignore_eos: bool,
    /// What its blocks hold.
    pub content: Content,
    /// Sets blocks without hashes apart from those of other requests.
    pub salt: u64,
}

/// A request inside the engine. Dropped before it has ended, it is aborted.
#[derive(Debug)]
pub struct InFlight {
    handle: EngineHandle,
    serial: Serial,
    progress: Arc<Progress>,
}

impl EngineHandle {
    fn new(role: Role) -> Self {
        let queue = CommandQueue::new(Clock::start());
        let shared = Shared { holds_kv: role == Role::Prefill, queue, serials: AtomicU64::new(0), requests: AtomicUsize::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Hands a request to the engine; it arrives now.
    pub fn submit(&self, new: NewRequest) -> Result<InFlight, TooManyRequests> {
        if self.shared.requests.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            self.shared.requests.fetch_sub(1, Ordering::Relaxed);
            return Err(TooManyRequests);
        }
        let serial = Serial(self.shared.serials.fetch_add(1, Ordering::Relaxed));
        let progress = Arc::new(Progress::default());
        let known = new.content.blocks.iter().map(|block| block.sequence).collect();
        let request = Request {
            prompt_tokens: new.prompt_tokens,
            max_output_tokens: new.planned,
            priority: new.priority,
            ignore_eos: new.ignore_eos,
            hashes: BlockHashes { known, salt: new.salt },
        };
        let submission = Submission {
            rank: new.rank,
            prompt: new.prompt,
            ..Submission::new(serial, request, new.content, &progress)
        };
        let request = InFlight { handle: self.clone(), serial, progress };
        self.shared.queue.push(Command::Submit(Box::new(submission)));
        Ok(request)
    }

    /// Requests whose tasks have not let go of them.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Commands that the engine has not seen, because its step is under way.
    pub fn queued(&self) -> usize {
        self.shared.queue.len()
    }
}

impl InFlight {
    /// Number of the request.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// How far it has come.
    pub fn snapshot(&self) -> Snapshot {
        self.progress.snapshot()
    }

    /// Waits for news since the last call. Dropping the future loses nothing.
    pub async fn changed(&self) {
        self.progress.changed().await;
    }

    /// Decode role: the KV has arrived.
    pub fn activate(&self) {
        self.handle.shared.queue.push(Command::Activate(self.serial));
    }

    /// Prefill role: the KV was taken over, its blocks may go.
    pub fn release(&self) {
        self.handle.shared.queue.push(Command::Release(self.serial));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // An engine that has forgotten the request does not mind.
        if self.handle.shared.holds_kv || self.progress.snapshot().end.is_none() {
            self.handle.shared.queue.push(Command::Abort(self.serial));
        }
        self.handle.shared.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An engine on its thread. Dropped, it stops.
#[derive(Debug)]
pub struct Driver {
    handle: EngineHandle,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    /// Starts the thread. `report` is made there, once the handle exists.
    pub fn start<R: Report>(name: &str, config: EngineConfig, mut report: R) -> std::io::Result<Self> {
        let handle = EngineHandle::new(config.role);
        let shared = handle.shared.clone();
        let run = move || {
            let mut engine = Engine::new(config);
            engine.report_detail();
            drive(&shared.queue, Pace::new(engine), &mut report);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(run)?;
        Ok(Self { handle, thread: Some(thread) })
    }

    /// The way to the engine.
    pub fn handle(&self) -> &EngineHandle {
        &self.handle
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.handle.shared.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the hook; requests were told that the engine has stopped.
            let _ = thread.join();
        }
    }
}

fn drive(queue: &CommandQueue, mut pace: Pace, report: &mut impl Report) {
    let mut commands = VecDeque::new();
    let mut wait = Wait::Command(report.settle(Nanos::ZERO, pace.engine()));
    while let Some(until) = queue.wait(wait, &mut commands) {
        let due = pace.advance(until, &mut commands, report);
        pace.deliver();
        let again = report.settle(until, pace.engine());
        wait = match (due, pace.busy_until()) {
            (Due::Now, _) => Wait::Until(until),
            (Due::Later, Some(end)) => Wait::Until(again.map_or(end, |again| again.min(end))),
            (Due::Later, None) => Wait::Command(again),
        };
    }
}
