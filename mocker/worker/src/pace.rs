//! In which order commands and passes meet. Pure: who calls says how far time has come.
//!
//! ```text
//!   commands, stamped ──┐
//!                       ├──► by virtual time: ends of steps, then commands, then an idle engine starts ──► told
//!   ends of steps ──────┘                                                                                  to tasks
//! ```
//!
//! Invariant: what is decided depends on the stamps alone. A caller that comes late, or rarely, gets the same steps at
//! the same nanoseconds as one that comes at every nanosecond, and both the same as an offline run with these arrivals.

use std::collections::VecDeque;
use std::sync::Arc;

use dynosim_engine::{Engine, Horizon, Nanos, Pass, Request, Role, Step, Ticket};

use crate::flight::{Content, Flight, Flights, Serial};
use crate::progress::{End, Progress, Reporter};

/// Steps made before tokens are handed out, however many are overdue: bounds a wake-up when passes take no time.
pub const STEPS_PER_WAKE: u32 = 1024;

/// Who computes the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// Whoever does in this engine's role.
    ByRole,
    /// This engine, whatever its role.
    Here,
}

/// A request on its way to the engine.
#[derive(Debug)]
pub struct Submission {
    /// Its number.
    pub serial: Serial,
    /// Rank, or the next one in turn.
    pub rank: Option<u32>,
    /// Who computes the prompt.
    pub prompt: Prompt,
    /// What the engine sees of it.
    pub request: Request,
    /// What its blocks hold.
    pub content: Content,
    pub(crate) reporter: Reporter,
}

impl Submission {
    /// A request whose progress is told to `progress`.
    pub fn new(serial: Serial, request: Request, content: Content, progress: &Arc<Progress>) -> Self {
        let reporter = Reporter::new(progress);
        Self { serial, rank: None, prompt: Prompt::ByRole, request, content, reporter }
    }
}

/// Something asked of the engine.
#[derive(Debug)]
pub enum Command {
    /// Take a request.
    Submit(Box<Submission>),
    /// End a request wherever it is; nothing if it has ended.
    Abort(Serial),
    /// Decode role: the KV of a request has arrived.
    Activate(Serial),
    /// Prefill role: the KV of a request was taken over.
    Release(Serial),
}

/// A command with the time at which it arrived.
#[derive(Debug)]
pub struct Stamped {
    /// When.
    pub at: Nanos,
    /// What.
    pub command: Command,
}

/// Watches what happens, in order.
pub trait Observe {
    /// A request is about to be taken.
    fn arrived(&mut self, _at: Nanos, _submission: &Submission) {}
    /// A request was ended early, by its client.
    fn aborted(&mut self, _at: Nanos, _rank: u32, _serial: Serial) {}
    /// Decode role: the KV of a request has arrived.
    fn activated(&mut self, _at: Nanos, _serial: Serial) {}
    /// Prefill role: the KV of a request was taken over.
    fn released(&mut self, _at: Nanos, _serial: Serial) {}
    /// A request got tokens; `flight` is as it was before.
    fn emitted(&mut self, _at: Nanos, _rank: u32, _flight: &Flight, _tokens: u32) {}
    /// A request has ended.
    fn finished(&mut self, _at: Nanos, _rank: u32, _flight: &Flight, _end: End) {}
    /// A step is over. Its requests are still there, as they were before it.
    fn stepped(&mut self, _engine: &Engine, _step: &Step, _flights: &Flights) {}
}

/// Whether more is due already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before [`Pace::busy_until`].
    Later,
    /// [`STEPS_PER_WAKE`] were made and further ones are overdue.
    Now,
}

/// An engine with its requests, in virtual time.
#[derive(Debug)]
pub struct Pace {
    engine: Engine,
    flights: Flights,
    now: Nanos,
    /// Something has changed since an idle engine was last asked to start.
    changed: bool,
    /// Whose tasks have not been told of their newest tokens.
    untold: Vec<Ticket>,
    /// What the step that just ended did; kept for its buffers.
    step: Step,
}

impl Pace {
    /// An idle engine at time 0.
    pub fn new(engine: Engine) -> Self {
        let flights = Flights::new(engine.dp_size());
        let step = Step::default();
        Self { engine, flights, now: Nanos::ZERO, changed: false, untold: Vec::new(), step }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// When the step in progress ends; none if there is none.
    pub fn busy_until(&self) -> Option<Nanos> {
        self.engine.busy_until()
    }

    /// Requests that are inside, those included whose KV is held for another engine.
    pub fn requests(&self) -> usize {
        self.flights.len()
    }

    /// Does all that is due up to `until`, of these commands and of the engine's steps. Commands must be in the order of
    /// their stamps, and none may come later with a stamp up to `until`. Tokens are handed out by [`Pace::deliver`].
    pub fn advance(&mut self, until: Nanos, commands: &mut VecDeque<Stamped>, observer: &mut impl Observe) -> Due {
        for _ in 0..STEPS_PER_WAKE {
            let command = commands.front().map(|stamped| stamped.at.max(self.now));
            let Some(next) = self.busy_until().into_iter().chain(command).min() else { return Due::Later };
            if next > until {
                return Due::Later;
            }
            self.now = next;
            if self.busy_until() == Some(next) {
                self.end_step(observer);
            }
            while let Some(stamped) = commands.pop_front_if(|stamped| stamped.at <= next) {
                self.apply(stamped.command, observer);
            }
            if std::mem::take(&mut self.changed) && self.busy_until().is_none() {
                self.engine.start(next, Horizon::Pass);
            }
        }
        Due::Now
    }

    /// Tells the tasks of all requests that have new tokens.
    pub fn deliver(&mut self) {
        for ticket in self.untold.drain(..) {
            if let Some(flight) = self.flights.get_mut(ticket.rank, ticket.request)
                && std::mem::take(&mut flight.untold)
            {
                flight.reporter.advance(flight.tokens, flight.cached_tokens);
            }
        }
    }

    fn apply(&mut self, command: Command, observer: &mut impl Observe) {
        match command {
            Command::Submit(submission) => self.submit(*submission, observer),
            Command::Abort(serial) => self.abort(serial, observer),
            Command::Activate(serial) => {
                if let Some(ticket) = self.flights.ticket(serial) {
                    self.engine.activate(self.now, ticket);
                    observer.activated(self.now, serial);
                }
            }
            Command::Release(serial) => {
                if let Some(ticket) = self.flights.forget(serial) {
                    self.engine.release(self.now, ticket);
                    observer.released(self.now, serial);
                }
            }
        }
        self.changed = true;
    }

    fn submit(&mut self, submission: Submission, observer: &mut impl Observe) {
        let (prompt_tokens, planned) = (submission.request.prompt_tokens, submission.request.max_output_tokens);
        if let Err(rejection) = self.engine.check(prompt_tokens, planned) {
            submission.reporter.end(End::Rejected(rejection));
            return;
        }
        observer.arrived(self.now, &submission);
        let Submission { serial, rank, prompt, request, content, reporter } = submission;
        let ticket = match prompt {
            Prompt::ByRole => self.engine.submit(self.now, rank, request),
            Prompt::Here => self.engine.submit_local(self.now, rank, request),
        };
        let flight = Flight {
            serial,
            arrival: self.now,
            prompt_tokens,
            planned,
            tokens: 0,
            cached_tokens: None,
            last_token: self.now,
            content,
            reporter,
            untold: false,
        };
        self.flights.insert(ticket, flight);
    }

    fn abort(&mut self, serial: Serial, observer: &mut impl Observe) {
        let Some(ticket) = self.flights.forget(serial) else { return };
        // Its last pass may be under way: then it ends with that in the engine's books, but nobody waits for it.
        self.engine.abort(self.now, ticket);
        if let Some(flight) = self.flights.end(ticket, false) {
            self.flights.haunt(ticket, flight.content);
        }
        observer.aborted(self.now, ticket.rank, serial);
    }

    fn end_step(&mut self, observer: &mut impl Observe) {
        let mut step = std::mem::take(&mut self.step);
        self.engine.finish_into(&mut step);
        observer.stepped(&self.engine, &step, &self.flights);
        for (rank, pass) in (0..).zip(&step.ranks) {
            self.take_over(rank, pass, step.end(), observer);
        }
        self.flights.age_ghosts();
        self.step = step;
        self.changed = true;
    }

    fn take_over(&mut self, rank: u32, pass: &Pass, end: Nanos, observer: &mut impl Observe) {
        for admission in pass.admitted.iter().filter(|admission| !admission.resumed) {
            if let Some(flight) = self.flights.get_mut(rank, admission.request) {
                flight.cached_tokens.get_or_insert(admission.cached_tokens);
            }
        }
        for &request in &pass.reserved {
            if let Some(flight) = self.flights.get_mut(rank, request) {
                flight.reporter.reserved(self.engine.reserved_tokens(Ticket { rank, request }));
            }
        }
        for emission in &pass.emitted {
            let Some(flight) = self.flights.get_mut(rank, emission.request) else { continue };
            observer.emitted(end, rank, flight, emission.tokens);
            flight.tokens += emission.tokens;
            flight.last_token = end;
            if !std::mem::replace(&mut flight.untold, true) {
                self.untold.push(Ticket { rank, request: emission.request });
            }
        }
        for &request in &pass.finished {
            self.finish(Ticket { rank, request }, end, observer);
        }
    }

    fn finish(&mut self, ticket: Ticket, end: Nanos, observer: &mut impl Observe) {
        let held = self.engine.role() == Role::Prefill;
        let Some(flight) = self.flights.end(ticket, held) else { return };
        let expected = if held { 1 } else { flight.planned };
        let how = if flight.tokens < expected { End::OutOfMemory } else { End::Complete };
        flight.reporter.advance(flight.tokens, flight.cached_tokens);
        flight.reporter.end(how);
        observer.finished(end, ticket.rank, &flight, how);
        self.flights.haunt(ticket, flight.content);
    }
}
