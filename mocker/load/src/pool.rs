//! Connections: kept alive, bounded, reused last in, first out.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dynosim_engine::Nanos;
use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use slab::Slab;

use crate::connection::{Connection, Flight};
use crate::failure::Failure;
use crate::limits::{DESCRIPTORS_KEPT, IDLE_MAX};
use crate::timer::Timer;

/// The timer's events.
const TIMER: Token = Token(usize::MAX - 1);

/// All connections to one server, with what waits for their events.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) poll: Poll,
    pub(crate) timer: Timer,
    address: SocketAddr,
    connections: Slab<Connection>,
    limit: usize,
    /// Places and numbers of connections without a flight; some may be gone.
    idle: Vec<(usize, u64)>,
    /// Those that are not.
    idle_count: usize,
    opened: u64,
}

/// A request that could not be handed to a connection.
#[derive(Debug)]
pub(crate) struct Unsent {
    pub(crate) flight: Flight,
    pub(crate) failure: Failure,
}

impl Pool {
    /// An empty pool for at most `limit` connections; fewer if the system allows no more files.
    pub(crate) fn new(address: SocketAddr, limit: u32) -> io::Result<Self> {
        let poll = Poll::new()?;
        let timer = Timer::new(poll.registry(), TIMER)?;
        let limit = usize::try_from(u64::from(limit).min(descriptors(limit.into()))).unwrap_or(usize::MAX);
        let (connections, idle) = (Slab::new(), Vec::new());
        Ok(Self { poll, timer, address, connections, limit, idle, idle_count: 0, opened: 0 })
    }

    /// Another request can be sent now.
    pub(crate) fn has_room(&self) -> bool {
        self.idle_count > 0 || self.connections.len() < self.limit
    }

    /// Connections made, and most that may be open at once.
    pub(crate) fn counts(&self) -> (u64, usize) {
        (self.opened, self.limit)
    }

    /// The run's clock has started anew: idle times do not carry over.
    pub(crate) fn restart_clock(&mut self) {
        self.timer.forget();
        for (_, connection) in &mut self.connections {
            connection.idle_since = Nanos::ZERO;
        }
    }

    /// Sends on an idle connection, or on a new one; gives the request's buffer back if all of it is written.
    pub(crate) fn send(
        &mut self,
        flight: Flight,
        request: Vec<u8>,
        now: Nanos,
    ) -> Result<Option<Vec<u8>>, Box<Unsent>> {
        let place = match self.take_idle(now) {
            Some(place) => place,
            None => match self.open() {
                Ok(place) => place,
                Err(error) => return Err(Box::new(Unsent { flight, failure: Failure::connecting(&error) })),
            },
        };
        Ok(self.connections[place].send(flight, request))
    }

    fn take_idle(&mut self, now: Nanos) -> Option<usize> {
        while let Some((place, number)) = self.idle.pop() {
            let Some(connection) = self.connections.get(place).filter(|found| found.number == number) else { continue };
            self.idle_count -= 1;
            if Duration::from_nanos(now.since(connection.idle_since).0) <= IDLE_MAX {
                return Some(place);
            }
            self.remove(place);
        }
        None
    }

    fn open(&mut self) -> io::Result<usize> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let entry = self.connections.vacant_entry();
        let place = entry.key();
        self.poll.registry().register(&mut stream, Token(place), Interest::READABLE | Interest::WRITABLE)?;
        self.opened += 1;
        entry.insert(Connection::new(stream, self.opened));
        Ok(place)
    }

    /// The connection of an event, unless the event is old.
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        self.connections.get_mut(token.0)
    }

    /// A request has ended well and its connection can carry another.
    pub(crate) fn release(&mut self, place: usize, now: Nanos) -> Option<Flight> {
        let connection = self.connections.get_mut(place)?;
        connection.idle_since = now;
        self.idle.push((place, connection.number));
        self.idle_count += 1;
        connection.flight.take()
    }

    /// Closes a connection; gives the flight that was on it.
    pub(crate) fn close(&mut self, place: usize) -> Option<Flight> {
        let flight = self.connections.get_mut(place)?.flight.take();
        if flight.is_none() {
            self.idle_count -= 1;
        }
        self.remove(place);
        flight
    }

    fn remove(&mut self, place: usize) {
        let mut connection = self.connections.remove(place);
        // Closing the socket takes it out of the poll anyway.
        let _ = self.poll.registry().deregister(&mut connection.stream);
    }

    /// Places of connections whose request was sent at `latest` or before.
    pub(crate) fn sent_until(&self, latest: Nanos) -> Vec<usize> {
        let late = |connection: &Connection| connection.flight.as_ref().is_some_and(|flight| flight.sent <= latest);
        self.connections.iter().filter(|(_, connection)| late(connection)).map(|(place, _)| place).collect()
    }
}

/// How many connections may be open as far as the system's limit of files goes, raised as far as it can be.
fn descriptors(wanted: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(mut soft) = current else { return u64::MAX };
    let needed = (wanted + DESCRIPTORS_KEPT).min(maximum.unwrap_or(u64::MAX));
    if soft < needed && setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum }).is_ok() {
        soft = needed;
    }
    soft.saturating_sub(DESCRIPTORS_KEPT).max(1)
}
