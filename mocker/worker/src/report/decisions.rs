//! The decision log: all that steers an engine from outside and every step that it makes, a line of JSON each, so that a
//! live run can be compared with an offline one.
//!
//! ```text
//!   {"at":12,"arrived":0,"rank":null,"prompt":"by_role","prompt_tokens":300,"output_tokens":4,"priority":0,
//!    "ignore_eos":false,"blocks":[…],"salt":7}
//!   {"start":12,"ends":[20],"rank":0,"prefill":[1,0,300],"decode":[0,0],"admitted":[[0,0]],"preempted":[],
//!    "reserved":[],"emitted":[[0,1]],"finished":[]}
//!   {"at":25,"aborted":0}
//!   {"at":31,"activated":1}      decode role: its KV has arrived
//!   {"at":40,"released":2}       prefill role: its KV was taken over
//! ```
//!
//! `prompt` is `here` if this engine computes it whatever its role. A rank that neither computed nor reserved anything in
//! a step has no line.
//!
//! Times are nanoseconds since the worker's start; requests go by their numbers in the order of their making.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use dynosim_engine::{Nanos, Pass, RequestId, Step};
use serde::Serialize;

use crate::flight::{Flights, Serial};
use crate::pace::{Prompt, Submission};

#[derive(Serialize)]
#[allow(clippy::struct_field_names, reason = "the names are those in the log")]
struct Arrived<'a> {
    at: u64,
    arrived: u64,
    rank: Option<u32>,
    prompt: &'static str,
    prompt_tokens: u32,
    output_tokens: u32,
    priority: i32,
    ignore_eos: bool,
    blocks: &'a [u64],
    salt: u64,
}

/// What happened to a request that was there; one of the three.
#[derive(Default, Serialize)]
struct Told {
    at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    aborted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activated: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    released: Option<u64>,
}

/// What one rank did in a step.
#[derive(Serialize)]
struct Stepped {
    start: u64,
    ends: Vec<u64>,
    rank: u32,
    prefill: (u32, u64, u64),
    decode: (u32, u64),
    admitted: Vec<(u64, u32)>,
    preempted: Vec<u64>,
    reserved: Vec<u64>,
    emitted: Vec<(u64, u32)>,
    finished: Vec<u64>,
}

/// Writes the log of one engine.
#[derive(Debug)]
pub struct DecisionLog {
    file: BufWriter<File>,
    failed: bool,
}

impl DecisionLog {
    /// Writes to a new file.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        Ok(Self { file: BufWriter::new(File::create(path)?), failed: false })
    }

    fn line(&mut self, line: &impl Serialize) {
        let written = serde_json::to_writer(&mut self.file, line).map_err(std::io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        self.check(written);
    }

    fn check(&mut self, written: std::io::Result<()>) {
        if let Err(error) = written
            && !std::mem::replace(&mut self.failed, true)
        {
            tracing::error!(%error, "the decision log is incomplete");
        }
    }

    pub(crate) fn arrived(&mut self, at: Nanos, submission: &Submission) {
        let request = &submission.request;
        self.line(&Arrived {
            at: at.0,
            arrived: submission.serial.0,
            rank: submission.rank,
            prompt: match submission.prompt {
                Prompt::ByRole => "by_role",
                Prompt::Here => "here",
            },
            prompt_tokens: request.prompt_tokens,
            output_tokens: request.max_output_tokens,
            priority: request.priority,
            ignore_eos: request.ignore_eos,
            blocks: &request.hashes.known,
            salt: request.hashes.salt,
        });
    }

    pub(crate) fn aborted(&mut self, at: Nanos, serial: Serial) {
        self.line(&Told { at: at.0, aborted: Some(serial.0), ..Told::default() });
    }

    pub(crate) fn activated(&mut self, at: Nanos, serial: Serial) {
        self.line(&Told { at: at.0, activated: Some(serial.0), ..Told::default() });
    }

    pub(crate) fn released(&mut self, at: Nanos, serial: Serial) {
        self.line(&Told { at: at.0, released: Some(serial.0), ..Told::default() });
    }

    pub(crate) fn stepped(&mut self, step: &Step, flights: &Flights) {
        for (rank, pass) in (0..).zip(&step.ranks) {
            if !pass.is_idle() || !pass.reserved.is_empty() {
                let line = describe(step, rank, pass, flights);
                self.line(&line);
            }
        }
    }

    pub(crate) fn flush(&mut self) {
        let flushed = self.file.flush();
        self.check(flushed);
    }
}

fn describe(step: &Step, rank: u32, pass: &Pass, flights: &Flights) -> Stepped {
    // Who was aborted in the middle of the step has no number any more.
    let serial = |request: RequestId| flights.get(rank, request).map(|flight| flight.serial.0);
    let serials = |requests: &[RequestId]| requests.iter().filter_map(|&request| serial(request)).collect();
    let with = |request, number: u32| Some((serial(request)?, number));
    Stepped {
        start: step.start.0,
        ends: step.ends.iter().map(|end| end.0).collect(),
        rank,
        prefill: (pass.prefill.requests, pass.prefill.prefix_tokens, pass.prefill.new_tokens),
        decode: (pass.decode.requests, pass.decode.kv_tokens),
        admitted: pass.admitted.iter().filter_map(|item| with(item.request, item.cached_tokens)).collect(),
        preempted: serials(&pass.preempted),
        reserved: serials(&pass.reserved),
        emitted: pass.emitted.iter().filter_map(|item| with(item.request, item.tokens)).collect(),
        finished: serials(&pass.finished),
    }
}
