//! Limits of everything that a server, or a workload, could make grow.

use std::time::Duration;

/// Most bytes of a response's status line and header fields.
pub const HEAD_MAX: usize = 32 << 10;
/// Most header fields of a response.
pub const HEADERS_MAX: usize = 96;
/// Most bytes of one line of an event stream, and of one chunk's size line.
pub const LINE_MAX: usize = 1 << 20;
/// Most bytes of a response that is no event stream.
pub const WHOLE_MAX: usize = 16 << 20;
/// Bytes of an error response that are kept for its message.
pub const ERROR_BODY_KEPT: usize = 4 << 10;
/// Most characters of a message in a report.
pub const MESSAGE_MAX: usize = 300;
/// Bytes of the one buffer that all connections are read into.
pub const READ_BUFFER: usize = 64 << 10;
/// Socket events taken from the system at once: few enough that a request that is due waits only shortly.
pub const EVENTS_PER_POLL: usize = 256;
/// Requests sent before sockets are looked at again: a burst of arrivals must not put off the time stamps of answers.
pub const SENDS_PER_TURN: usize = 16;
/// Connections open at once if no other limit is given.
pub const CONNECTIONS_DEFAULT: u32 = 65_536;
/// Most connections that can be asked for.
pub const CONNECTIONS_MAX: u32 = 1 << 20;
/// File descriptors kept for everything but connections.
pub const DESCRIPTORS_KEPT: u64 = 64;
/// A connection that was idle for longer is not used again: servers close idle ones, some after 5 s, and a request
/// that meets the close would be lost.
pub const IDLE_MAX: Duration = Duration::from_secs(4);
/// How often the loop looks at time-outs, the stop flag and progress at least.
pub const HEARTBEAT: Duration = Duration::from_millis(100);
/// Most warm-up requests in flight.
pub const WARMUP_CONCURRENCY: u32 = 16;
/// How long the list of models may take.
pub const MODELS_TIMEOUT: Duration = Duration::from_secs(10);
/// Request buffers kept for reuse, and the largest that is.
pub const SPARE_BUFFERS: usize = 16;
/// The largest request buffer that is kept for reuse, bytes.
pub const SPARE_BUFFER_MAX: usize = 1 << 20;
