//! The event loop.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dynosim_engine::Nanos;
use dynosim_replay::{Admission, Measured, Measurement, Outcome, Sla};
use dynosim_workload::{Ending, Synthetic, SyntheticOptions, Turn, Workload, WorkloadError};
use mio::{Events, Token};

use crate::answer::{Answer, State, Tokens};
use crate::clock::Clock;
use crate::config::{Answering, LoadConfig};
use crate::connection::Flight;
use crate::failure::{Failure, FailureKind};
use crate::limits::{EVENTS_PER_POLL, HEARTBEAT, READ_BUFFER, SENDS_PER_TURN, WARMUP_CONCURRENCY};
use crate::pool::Pool;
use crate::requests::Requests;
use crate::schedule::{Outgoing, Schedule};
use crate::stop::Stop;

/// Sets prompts of the warm-up apart from all of the run.
const WARMUP_SALT: u64 = u64::from_be_bytes(*b"warmitup");
/// Lengths of a warm-up request, tokens.
const WARMUP_INPUT: u32 = 128;
const WARMUP_OUTPUT: u32 = 8;

/// A run that could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The workload is broken.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The server does not say which model it serves.
    #[error("the models of {address} cannot be read: {why}")]
    Models {
        /// The server.
        address: SocketAddr,
        /// What went wrong.
        why: String,
    },
    /// A fault of the workload: all is answered, and requests are left that nothing sets off.
    #[error("{unsent} requests are left and nothing can set them off any more; this is a bug")]
    Stuck {
        /// Requests never sent.
        unsent: u64,
    },
    /// The system refuses what an event loop needs.
    #[error("the event loop cannot run: {0}")]
    System(#[from] io::Error),
}

/// What a run gives.
#[derive(Debug)]
pub struct LoadOutcome {
    /// The report, and the rows if they were wanted.
    pub outcome: Outcome,
    /// Requests that failed or were rejected, by kind, with the first message of each.
    pub failures: BTreeMap<FailureKind, (u64, String)>,
    /// Requests completed.
    pub completed: u64,
}

/// Sends `workload` and measures; `progress` is told now and then how many requests have ended.
pub fn load(
    config: &LoadConfig,
    workload: &mut dyn Workload,
    stop: &Stop,
    progress: &mut dyn FnMut(u64),
) -> Result<LoadOutcome, LoadError> {
    let mut pool = Pool::new(config.target.address, config.connections)?;
    if config.warmup_requests > 0 {
        let mut warmup = warmup(config.warmup_requests)?;
        let config = LoadConfig {
            admission: Admission::Concurrency(WARMUP_CONCURRENCY),
            end: None,
            sla: Sla::default(),
            records: false,
            ..config.clone()
        };
        Run::new(&config, &mut warmup, &mut pool, WARMUP_SALT).drive(stop, &mut |_| ())?;
        pool.restart_clock();
    }
    let mut run = Run::new(config, workload, &mut pool, 0);
    run.drive(stop, progress)?;
    Ok(run.outcome())
}

fn warmup(requests: u32) -> Result<Synthetic, WorkloadError> {
    Ok(Synthetic::new(SyntheticOptions {
        input_tokens: WARMUP_INPUT,
        output_tokens: WARMUP_OUTPUT,
        request_count: requests,
        ..SyntheticOptions::default()
    })?)
}

/// A run in the making.
struct Run<'r> {
    clock: Clock,
    pool: &'r mut Pool,
    schedule: Schedule<'r>,
    measurement: Measurement,
    failures: BTreeMap<FailureKind, (u64, String)>,
    end: Option<Nanos>,
    timeout: Nanos,
    answering: Answering,
    wrong_inputs: u64,
    wrong_outputs: u64,
    buffer: Vec<u8>,
}

impl<'r> Run<'r> {
    fn new(config: &LoadConfig, workload: &'r mut dyn Workload, pool: &'r mut Pool, salt: u64) -> Self {
        Self {
            clock: Clock::start(),
            pool,
            schedule: Schedule::new(workload, config.admission, Requests::new(config, salt)),
            measurement: Measurement::new(config.sla, config.records),
            failures: BTreeMap::new(),
            end: config.end,
            timeout: Nanos(u64::try_from(config.timeout.as_nanos()).unwrap_or(u64::MAX)),
            answering: config.answering,
            wrong_inputs: 0,
            wrong_outputs: 0,
            buffer: vec![0; READ_BUFFER],
        }
    }

    /// Runs until everything is answered, or the run is ended.
    fn drive(&mut self, stop: &Stop, progress: &mut dyn FnMut(u64)) -> Result<(), LoadError> {
        // The first request is written before the clock starts.
        self.schedule.next_time()?;
        self.clock = Clock::start();
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        let heartbeat = Nanos(HEARTBEAT.as_nanos() as u64).min(Nanos(self.timeout.0 / 4));
        let mut next_look = heartbeat;
        loop {
            let now = self.clock.now();
            if self.end.is_some_and(|end| now >= end) {
                break;
            }
            if now >= next_look {
                next_look = now + heartbeat;
                progress(self.measurement.ended());
                if stop.is_set() {
                    break;
                }
                self.fail_overdue(now);
            }
            let wake = self.send_due(now)?;
            if self.schedule.is_over() {
                return match self.schedule.left() {
                    0 => Ok(()),
                    unsent => Err(LoadError::Stuck { unsent }),
                };
            }
            let wake = wake.into_iter().chain(self.end).fold(next_look, Nanos::min);
            self.wait(&mut events, wake)?;
            for event in &events {
                let closed = event.is_read_closed() || event.is_error();
                self.handle(event.token(), event.is_writable(), event.is_readable() || closed, closed);
            }
        }
        self.cancel_rest();
        Ok(())
    }

    /// Waits for events, until `wake` at most.
    fn wait(&mut self, events: &mut Events, wake: Nanos) -> Result<(), LoadError> {
        let now = self.clock.now();
        let timeout = if wake <= now {
            Some(Duration::ZERO)
        } else {
            self.pool.timer.arm(now, wake)?;
            None
        };
        match self.pool.poll.poll(events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Sends what is due, some requests at most; tells when there is more to send.
    fn send_due(&mut self, mut now: Nanos) -> Result<Option<Nanos>, LoadError> {
        for _ in 0..SENDS_PER_TURN {
            if !self.pool.has_room() {
                // A request that ends makes room and wakes the loop.
                return Ok(None);
            }
            let Some(Outgoing { turn, due, request }) = self.schedule.take(now)? else { break };
            now = self.clock.now();
            self.measurement.sent(now.since(due));
            let flight = Flight { turn, sent: now, answer: Answer::new() };
            match self.pool.send(flight, request, now) {
                Ok(buffer) => self.give_back(buffer),
                Err(unsent) => self.failed(&unsent.flight, &unsent.failure),
            }
        }
        Ok(self.schedule.next_time()?)
    }

    fn give_back(&mut self, buffer: Option<Vec<u8>>) {
        if let Some(buffer) = buffer {
            self.schedule.give_back(buffer);
        }
    }

    fn handle(&mut self, token: Token, writable: bool, readable: bool, closed: bool) {
        let Some(connection) = self.pool.get_mut(token) else { return };
        if writable {
            match connection.writable() {
                Ok(buffer) => buffer.into_iter().for_each(|buffer| self.schedule.give_back(buffer)),
                Err(failure) => return self.leave(token, Err(failure), Next::Close),
            }
        }
        if !readable {
            return;
        }
        let (clock, measurement) = (self.clock, &mut self.measurement);
        let mut gap = |span| measurement.gap(span, 1);
        let ended = match connection.readable(&mut self.buffer, closed, || clock.now(), &mut gap) {
            Ok(State::Open) => return,
            Ok(State::Complete) => Ok(()),
            Err(failure) => Err(failure),
        };
        let next = if connection.is_reusable() && !closed { Next::Keep } else { Next::Close };
        self.leave(token, ended, next);
    }

    /// A connection is done with its request, if it had one.
    fn leave(&mut self, token: Token, ended: Result<(), Failure>, next: Next) {
        let flight = match next {
            Next::Keep => self.pool.release(token.0, self.clock.now()),
            Next::Close => self.pool.close(token.0),
        };
        match (flight, ended) {
            (Some(flight), Ok(())) => self.completed(&flight),
            (Some(flight), Err(failure)) => self.failed(&flight, &failure),
            // Idle connections that break off concern nobody.
            (None, _) => {}
        }
    }

    fn completed(&mut self, flight: &Flight) {
        let seen = self.measured(flight);
        let Flight { turn, answer, .. } = flight;
        // Tokens that came along with another have no gap to it.
        let together = seen.tokens.saturating_sub(answer.tokens.events);
        if together > 0 {
            self.measurement.gap(Nanos::ZERO, together);
        }
        self.wrong_inputs += u64::from(seen.turn.input_tokens != turn.input_tokens);
        self.wrong_outputs += u64::from(seen.tokens != turn.output_tokens);
        self.measurement.completed(&seen, self.schedule.session_name(turn));
        self.ended(turn, Ending::Completed);
    }

    fn failed(&mut self, flight: &Flight, failure: &Failure) {
        let seen = self.measured(flight);
        let session = self.schedule.session_name(&flight.turn);
        if failure.kind.is_rejection() {
            self.measurement.rejected(&seen, session, failure.to_string());
        } else {
            self.measurement.failed(&seen, session, failure.to_string());
        }
        self.failures.entry(failure.kind).or_insert_with(|| (0, failure.message.clone())).0 += 1;
        self.ended(&flight.turn, Ending::Rejected);
    }

    fn ended(&mut self, turn: &Turn, ending: Ending) {
        self.schedule.ended(turn, self.clock.now(), ending);
    }

    /// What is known of a request. Lengths are those that the server tells, if it does.
    fn measured(&self, flight: &Flight) -> Measured {
        let Flight { turn, sent, answer } = flight;
        let Tokens { events, first, second, last } = answer.tokens;
        let told = answer.usage.completion.filter(|_| events > 0);
        let counted = if self.answering == Answering::Whole && events > 0 { turn.output_tokens } else { events };
        Measured {
            turn: Turn { input_tokens: answer.usage.prompt.unwrap_or(turn.input_tokens), ..*turn },
            sent: *sent,
            first_token: first,
            second_token: if events > 1 { second } else { first },
            last_token: last,
            tokens: told.filter(|&tokens| tokens > 0).unwrap_or(counted),
            cached_tokens: answer.usage.cached,
        }
    }

    fn fail_overdue(&mut self, now: Nanos) {
        let Some(latest) = now.0.checked_sub(self.timeout.0).map(Nanos) else { return };
        for place in self.pool.sent_until(latest) {
            let message = format!("no complete answer within {} s", self.timeout.as_secs());
            self.leave(Token(place), Err(Failure::new(FailureKind::Timeout, message)), Next::Close);
        }
    }

    /// The run is ended early: what is in flight counts as canceled.
    fn cancel_rest(&mut self) {
        for place in self.pool.sent_until(Nanos::MAX) {
            if let Some(flight) = self.pool.close(place) {
                let seen = self.measured(&flight);
                self.measurement.canceled(&seen, self.schedule.session_name(&flight.turn));
            }
        }
    }

    fn outcome(self) -> LoadOutcome {
        let completed = self.measurement.completed_requests();
        let mut outcome = self.measurement.outcome();
        let report = &mut outcome.report;
        let (opened, limit) = self.pool.counts();
        report.put("connections_opened", opened);
        report.put("connections_limit", limit);
        report.put("input_length_mismatches", self.wrong_inputs);
        report.put("output_length_mismatches", self.wrong_outputs);
        for (kind, (count, _)) in &self.failures {
            report.put(format!("errors_{kind}"), *count);
        }
        LoadOutcome { outcome, failures: self.failures, completed }
    }
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Keep,
    Close,
}
