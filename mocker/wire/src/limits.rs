//! Limits on everything that a peer can make large.

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
