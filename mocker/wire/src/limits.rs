//! Limits on everything that a peer can make large or long.

use std::time::Duration;

/// Largest message of the request plane in bytes (`DYN_TCP_MAX_MESSAGE_SIZE`, 32 MiB as published).
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;
/// Largest frame header of the response plane in bytes.
pub const MAX_HEADER_BYTES: usize = 1024 * 1024;
/// Largest frame of the bootstrap handshake in bytes.
pub const MAX_BOOTSTRAP_FRAME_BYTES: usize = 64 * 1024;
/// Connections that a request-plane server holds at once.
pub const MAX_CONNECTIONS: usize = 4096;
/// Responses that are awaited or streamed at once by one process.
pub const MAX_RESPONSE_STREAMS: usize = 65_536;
/// Largest ZMQ frame that is accepted in bytes.
pub const MAX_ZMQ_FRAME_BYTES: usize = 16 * 1024 * 1024;
/// Messages queued for one subscriber before the oldest are dropped.
pub const MAX_QUEUED_EVENTS: usize = 10_000;
/// Subscribers that one publisher serves at once.
pub const MAX_SUBSCRIBERS: usize = 256;
/// Batches that a replay endpoint remembers.
pub const REPLAY_BATCHES: usize = 10_000;
/// Largest discovery record in bytes.
pub const MAX_RECORD_BYTES: usize = 1024 * 1024;
/// Changes that wait for a watcher of discovery; then its task waits.
pub const MAX_QUEUED_CHANGES: usize = 256;
/// Largest answer or message of etcd in bytes: a page of [`ETCD_PAGE`] values of etcd's own limit (1.5 MiB), as base64.
pub const MAX_ETCD_ANSWER_BYTES: usize = 128 * 1024 * 1024;
/// Keys that are read from etcd at once.
pub const ETCD_PAGE: usize = 64;
/// Requests to the task that writes to etcd which may wait for it.
pub const MAX_QUEUED_WRITES: usize = 64;
/// Requests of a connection that were read but not acknowledged are held back once that many bytes wait to be sent.
pub const MAX_OUTBOX_BYTES: usize = 8 * 1024 * 1024;
/// Largest answer to one request frame in bytes: an acknowledgement is empty, a refusal says why.
pub const MAX_ACK_BYTES: usize = 64 * 1024;
/// Largest part in bytes of a frame that is a word of control (`"stop"`, `"kill"`) or the first of an unknown peer.
pub const MAX_CONTROL_BYTES: usize = 4096;
/// Connections that have called back but not yet said which request they answer.
pub const MAX_PENDING_HELLOS: usize = 4096;
/// Connections that wait in the kernel to be accepted.
pub const LISTEN_BACKLOG: u32 = 4096;
/// Connections of one process to one worker.
pub const CONNECTIONS_PER_WORKER: usize = 2;
/// Messages that NATS may keep for one subscription before it drops.
pub const MAX_NATS_PENDING: usize = 8192;

/// A peer that falls silent inside a frame for that long is cut off; between frames it may be silent for ever.
pub const FRAME_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A connection must stand after that long.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A worker must acknowledge a request after that long.
pub const ACK_TIMEOUT: Duration = Duration::from_secs(10);
/// A worker must begin to answer after that long.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A worker that lost the connection that a request came over may still call back for that long.
pub const CALL_BACK_GRACE: Duration = Duration::from_secs(1);
/// Who calls back must say at once which request it answers.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the other side is waited for to close a response that is complete.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
