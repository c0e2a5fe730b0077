//! How far a graph of requests has come: which of them may be sent, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use dynosim_engine::Nanos;

use crate::graph::{Graph, Trigger};

/// The state of a run.
#[derive(Debug)]
pub(crate) struct Progress {
    graph: Graph,
    /// Requests that wait for nothing but their time.
    ready: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Whether a play starts only when one before it has ended.
    lanes: bool,
    /// Plays started.
    started: usize,
}

impl Progress {
    /// Begins a run: plays start at their times, or so many side by side whatever their times.
    pub(crate) fn new(graph: Graph, lanes: Option<u32>) -> Self {
        let mut progress = Self { graph, ready: BinaryHeap::new(), lanes: lanes.is_some(), started: 0 };
        for _ in 0..lanes.map_or(usize::MAX, |lanes| lanes as usize).min(progress.graph.plays.len()) {
            let start = if lanes.is_some() { Nanos::ZERO } else { progress.graph.plays[progress.started].start };
            progress.start_play(start);
        }
        progress
    }

    fn start_play(&mut self, now: Nanos) {
        let play = self.started;
        self.started += 1;
        self.graph.plays[play].start = now;
        for &root in self.graph.roots(play) {
            self.ready.push(Reverse((now + self.graph.nodes[root as usize].time, root)));
        }
    }

    /// When the next request may be sent.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        self.ready.peek().map(|Reverse((time, _))| *time)
    }

    /// The request that may be sent next.
    pub(crate) fn next(&self) -> Option<u32> {
        self.ready.peek().map(|Reverse((_, node))| *node)
    }

    /// The next request is sent, at its time.
    pub(crate) fn dispatch(&mut self) {
        if let Some(Reverse((time, node))) = self.ready.pop() {
            self.end_waits(node, Trigger::Dispatch, time);
        }
    }

    /// A request has ended.
    pub(crate) fn complete(&mut self, node: u32, now: Nanos) {
        self.end_waits(node, Trigger::Completion, now);
        let play = &mut self.graph.plays[self.graph.nodes[node as usize].play as usize];
        play.left -= 1;
        if play.left == 0 && self.lanes && self.started < self.graph.plays.len() {
            self.start_play(now);
        }
    }

    fn end_waits(&mut self, on: u32, trigger: Trigger, now: Nanos) {
        for at in self.graph.waiters(on) {
            let waiter = self.graph.waiter(at);
            if waiter.trigger != trigger {
                continue;
            }
            let node = &mut self.graph.nodes[waiter.node as usize];
            let start = self.graph.plays[node.play as usize].start;
            node.time = node.time.max(now.since(start) + waiter.delay);
            node.waits -= 1;
            if node.waits == 0 {
                self.ready.push(Reverse((start + node.time, waiter.node)));
            }
        }
    }

    /// Whether any request waits for another.
    pub(crate) fn waits(&self) -> bool {
        self.graph.nodes.iter().any(|node| node.waits > 0)
    }

    pub(crate) fn requests(&self) -> u64 {
        self.graph.nodes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Scale;
    use crate::graph::{GraphBuilder, Wait};

    fn progress(times: &[u64], waits: &[(u32, u32, Trigger, u64)], lanes: Option<u32>) -> Progress {
        let mut builder = GraphBuilder::default();
        for &time in times {
            builder.node(Nanos(time));
        }
        for &(of, on, trigger, delay) in waits {
            builder.wait(Wait { of, on, trigger, delay: Nanos(delay) });
        }
        Progress::new(builder.finish(Scale { speedup: 1.0 }).unwrap(), lanes)
    }

    /// Sends the next request: its node and time.
    fn send(progress: &mut Progress) -> Option<(u32, u64)> {
        let sent = progress.next().zip(progress.next_time());
        progress.dispatch();
        sent.map(|(node, time)| (node, time.0))
    }

    #[test]
    fn a_request_waits_for_the_last_of_those_it_waits_for() {
        let waits = [(2, 0, Trigger::Completion, 5), (2, 1, Trigger::Completion, 1)];
        let mut progress = progress(&[10, 20, 0], &waits, None);
        assert_eq!((send(&mut progress), send(&mut progress)), (Some((0, 0)), Some((1, 10))));
        progress.complete(1, Nanos(50));
        assert_eq!(progress.next(), None);
        progress.complete(0, Nanos(40));
        assert_eq!(send(&mut progress), Some((2, 51)));
    }

    #[test]
    fn a_wait_for_the_dispatch_is_over_before_the_end_and_no_request_is_early() {
        let waits = [(1, 0, Trigger::Dispatch, 3), (2, 0, Trigger::Dispatch, 3)];
        let mut progress = progress(&[10, 0, 30], &waits, None);
        assert_eq!(send(&mut progress), Some((0, 0)));
        assert_eq!((send(&mut progress), send(&mut progress)), (Some((1, 3)), Some((2, 20))));
    }

    #[test]
    fn in_lanes_a_play_starts_when_one_has_ended() {
        let mut progress = progress(&[0, 1000, 2000, 2500], &[(3, 2, Trigger::Completion, 7)], Some(2));
        assert_eq!((send(&mut progress), send(&mut progress)), (Some((0, 0)), Some((1, 0))));
        assert_eq!(progress.next(), None);
        progress.complete(1, Nanos(90));
        assert_eq!(send(&mut progress), Some((2, 90)));
        progress.complete(2, Nanos(100));
        // Not before its own place in the play either.
        assert_eq!(send(&mut progress), Some((3, 590)));
    }
}
