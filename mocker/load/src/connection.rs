//! One connection and the request on it.

use std::io::{self, Read, Write};

use dynosim_engine::Nanos;
use dynosim_workload::Turn;
use mio::net::TcpStream;

use crate::answer::{Answer, State};
use crate::failure::Failure;

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) turn: Turn,
    pub(crate) sent: Nanos,
    pub(crate) answer: Answer,
}

/// A connection; idle if it has no flight.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Tells connections apart that have had the same place.
    pub(crate) number: u64,
    connected: bool,
    /// The request, until all of it is written.
    outgoing: Vec<u8>,
    written: usize,
    pub(crate) flight: Option<Flight>,
    pub(crate) idle_since: Nanos,
}

/// Whether the socket has more to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    Closed,
}

impl Connection {
    /// A connection that is being made.
    pub(crate) fn new(stream: TcpStream, number: u64) -> Self {
        let (connected, outgoing, written) = (false, Vec::new(), 0);
        Self { stream, number, connected, outgoing, written, flight: None, idle_since: Nanos::ZERO }
    }

    /// Takes a request and sends what can be sent now; gives its buffer back once it is empty.
    pub(crate) fn send(&mut self, flight: Flight, request: Vec<u8>) -> Option<Vec<u8>> {
        self.flight = Some(flight);
        self.outgoing = request;
        self.written = 0;
        if self.connected { self.write() } else { None }
    }

    /// The socket can be written: it is connected, or has failed to.
    pub(crate) fn writable(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if self.connected && self.outgoing.is_empty() {
            return Ok(None);
        }
        if !self.connected {
            if let Some(error) = self.stream.take_error().unwrap_or_else(Some) {
                return Err(Failure::connecting(&error));
            }
            match self.stream.peer_addr() {
                Ok(_) => self.connected = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
                Err(error) => return Err(Failure::connecting(&error)),
            }
        }
        Ok(self.write())
    }

    fn write(&mut self) -> Option<Vec<u8>> {
        while self.written < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server may have answered and closed before it read all: its answer says more than this error.
                Err(_) => break,
            }
        }
        self.written = 0;
        let empty = std::mem::take(&mut self.outgoing);
        (empty.capacity() > 0).then_some(empty)
    }

    /// Reads what has come, stamped with `clock`; none while the answer is not complete. `closed`: the system says
    /// that the server will send no more.
    pub(crate) fn readable(
        &mut self,
        buffer: &mut [u8],
        closed: bool,
        clock: impl Fn() -> Nanos,
        gap: &mut impl FnMut(Nanos),
    ) -> Result<State, Failure> {
        loop {
            let (count, taken) = match self.stream.read(buffer) {
                Ok(0) => (0, Some(Taken::Closed)),
                // A read that does not fill the buffer has emptied the socket: the next bytes come with an event.
                Ok(count) => (count, (count < buffer.len() && !closed).then_some(Taken::All)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => (0, Some(Taken::All)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if !self.connected => return Err(Failure::connecting(&error)),
                Err(error) => return Err(Failure::broken(error.to_string())),
            };
            let Some(flight) = &mut self.flight else {
                // An idle connection on which anything happens is of no use any more.
                return Ok(if count == 0 && taken == Some(Taken::All) { State::Open } else { State::Complete });
            };
            let at = clock();
            let state = match taken {
                Some(Taken::Closed) => flight.answer.closed(at, gap)?,
                _ if count > 0 => flight.answer.feed(&buffer[..count], at, gap)?,
                _ => State::Open,
            };
            if state == State::Complete || taken.is_some() {
                return Ok(state);
            }
        }
    }

    /// The answer is over and another request can follow. While part of the request is unsent, it cannot: whoever
    /// answers before that does not read the rest.
    pub(crate) fn is_reusable(&self) -> bool {
        self.outgoing.is_empty() && self.flight.as_ref().is_some_and(|flight| flight.answer.reusable)
    }
}
