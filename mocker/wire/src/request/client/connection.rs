//! A connection to a worker that carries many requests at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::limits::{ACK_TIMEOUT, CALL_BACK_GRACE, CONNECT_TIMEOUT, MAX_OUTBOX_BYTES};
use crate::request::frame;
use crate::response::{Hub, Lost};

/// Numbers of connections; 0 stands for NATS.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// Requests are written by who sends them as long as the socket takes them at once; what it does not take is written by
/// the connection's own task, which also reads the acknowledgements.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Its number in this process.
    pub(crate) number: u64,
    writer: OwnedWriteHalf,
    state: Mutex<State>,
    /// There is something to write.
    filled: Notify,
    /// There is room for more, or none ever again.
    drained: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// What the socket did not take at once.
    outbox: Vec<u8>,
    /// Requests that are not acknowledged, oldest first.
    unacknowledged: VecDeque<Unacknowledged>,
    broken: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    subject: Uuid,
    deadline: Instant,
}

impl Connection {
    /// Dials `address` (`host:port`).
    pub(crate) async fn dial(address: &str, hub: Hub) -> Result<Arc<Self>, String> {
        let dialled = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
        let late = |_| format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
        let socket = dialled.map_err(late)?.map_err(|error| error.to_string())?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let (reader, writer) = socket.into_split();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let (filled, drained) = (Notify::new(), Notify::new());
        let connection = Arc::new(Self { number, writer, state: Mutex::default(), filled, drained });
        tokio::spawn(Arc::clone(&connection).run(reader, hub));
        Ok(connection)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state().broken.is_some()
    }

    /// Sends a request; the error says why the connection is of no use any more.
    pub(crate) async fn send(&self, subject: Uuid, request: &[u8]) -> Result<(), String> {
        loop {
            let drained = self.drained.notified();
            if let Some(sent) = self.try_send(subject, request) {
                return sent;
            }
            drained.await;
        }
    }

    /// None if too much waits already.
    fn try_send(&self, subject: Uuid, request: &[u8]) -> Option<Result<(), String>> {
        let mut state = self.state();
        if let Some(reason) = &state.broken {
            return Some(Err(reason.clone()));
        }
        if state.outbox.len() > MAX_OUTBOX_BYTES {
            return None;
        }
        state.unacknowledged.push_back(Unacknowledged { subject, deadline: Instant::now() + ACK_TIMEOUT });
        // An error shows again in the connection's task.
        let taken = if state.outbox.is_empty() { self.writer.try_write(request).unwrap_or(0) } else { 0 };
        state.outbox.extend_from_slice(&request[taken..]);
        if taken < request.len() {
            self.filled.notify_one();
        }
        Some(Ok(()))
    }

    async fn run(self: Arc<Self>, mut reader: OwnedReadHalf, hub: Hub) {
        let reason = tokio::select! {
            reason = self.read_answers(&mut reader, &hub) => reason,
            reason = self.write_outbox() => reason,
            reason = self.watch_deadlines() => reason,
            () = hub.closed() => "closed by this side".to_owned(),
        };
        tracing::debug!("request connection {} lost: {reason}", self.number);
        let lost = Lost::Unreachable(format!("connection lost: {reason}"));
        let unacknowledged = {
            let mut state = self.state();
            state.broken = Some(reason);
            state.outbox = Vec::new();
            std::mem::take(&mut state.unacknowledged)
        };
        self.drained.notify_waiters();
        for Unacknowledged { subject, .. } in unacknowledged {
            hub.fail(&subject, lost.clone());
        }
        // A worker that goes in good order closes this first and still answers what it has taken.
        tokio::time::sleep(CALL_BACK_GRACE).await;
        hub.fail_all_via(self.number, &lost);
    }

    async fn read_answers(&self, reader: &mut OwnedReadHalf, hub: &Hub) -> String {
        let mut unread = Vec::new();
        loop {
            match reader.read_buf(&mut unread).await {
                Ok(0) => return "closed by the worker".to_owned(),
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
            let mut used = 0;
            loop {
                match frame::decode_answer(&unread[used..]) {
                    Ok(Some((answer, length))) => {
                        if let Err(reason) = self.answered(answer, hub) {
                            return reason;
                        }
                        used += length;
                    }
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                }
            }
            unread.drain(..used);
        }
    }

    /// The oldest request is acknowledged or refused.
    fn answered(&self, answer: &[u8], hub: &Hub) -> Result<(), String> {
        let oldest = self.state().unacknowledged.pop_front();
        let Unacknowledged { subject, .. } = oldest.ok_or("an answer without a request")?;
        if !answer.is_empty() {
            hub.fail(&subject, Lost::Refused(String::from_utf8_lossy(answer).into_owned()));
        }
        Ok(())
    }

    async fn write_outbox(&self) -> String {
        loop {
            self.filled.notified().await;
            while !self.state().outbox.is_empty() {
                if let Err(error) = self.writer.writable().await {
                    return error.to_string();
                }
                if let Err(error) = self.write_some() {
                    return error.to_string();
                }
            }
        }
    }

    fn write_some(&self) -> std::io::Result<()> {
        let mut state = self.state();
        match self.writer.try_write(&state.outbox) {
            Ok(taken) => {
                state.outbox.drain(..taken);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        if state.outbox.len() <= MAX_OUTBOX_BYTES {
            self.drained.notify_waiters();
        }
        Ok(())
    }

    async fn watch_deadlines(&self) -> String {
        loop {
            tokio::time::sleep(ACK_TIMEOUT / 4).await;
            let oldest = self.state().unacknowledged.front().map(|oldest| oldest.deadline);
            if oldest.is_some_and(|deadline| deadline < Instant::now()) {
                return format!("no acknowledgement within {} s", ACK_TIMEOUT.as_secs());
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
