//! Ports for parts that a cluster would give pods of their own to.

use std::net::{Ipv4Addr, TcpListener};

/// Where the search begins: below the range from which systems take ports of outgoing connections.
const FIRST: u16 = 21_000;
/// Where it ends.
const LAST: u16 = 31_999;

/// Hands out ports that nobody listens on.
#[derive(Debug)]
pub(crate) struct Ports {
    next: u16,
}

impl Ports {
    /// Begins at a place that differs from process to process, so that two graphs do not fight for ports.
    pub(crate) fn new() -> Self {
        Self { next: FIRST + (std::process::id() as u16 % 500) * 20 }
    }

    /// The first of `count` free ports in a row; none if there are none.
    pub(crate) fn take(&mut self, count: u16) -> Option<u16> {
        let span = LAST - FIRST;
        for _ in 0..span {
            let first = self.next;
            if first + count > LAST {
                self.next = FIRST;
                continue;
            }
            let free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_err();
            match (first..first + count).find(free) {
                None => {
                    self.next = first + count;
                    return Some(first);
                }
                Some(taken) => self.next = taken + 1,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_passed_over() {
        let mut ports = Ports::new();
        let first = ports.take(1).expect("a free port");
        let mut again = Ports { next: first };
        let _listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, first + 1)).expect("free a moment ago");
        let found = again.take(4).expect("free ports");
        assert!(found > first + 1 || found + 4 <= first, "{found} and the 3 after it do not hold {}", first + 1);
    }
}
