//! Wakes the event loop at a moment, to some ten microseconds: the time-outs of epoll itself count in milliseconds.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use dynosim_engine::Nanos;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};

/// A timer of the kernel.
#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: OwnedFd,
    armed: Option<Nanos>,
}

impl Timer {
    /// A timer whose events come with `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&descriptor.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { descriptor, armed: None })
    }

    /// Wakes the loop at `at`, which is after `now`. The event is an edge: nothing has to be read.
    pub(crate) fn arm(&mut self, now: Nanos, at: Nanos) -> io::Result<()> {
        if self.armed == Some(at) {
            return Ok(());
        }
        let span = Duration::from_nanos(at.since(now).0.max(1));
        let it_value = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::time::timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval, it_value },
        )?;
        self.armed = Some(at);
        Ok(())
    }

    /// The clock starts anew, or the timer has fired.
    pub(crate) fn forget(&mut self) {
        self.armed = None;
    }
}
