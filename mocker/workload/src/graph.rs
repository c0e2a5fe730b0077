//! Requests that wait for others: who waits for whom.
//!
//! A node is a request, an edge a wait. Nodes that are connected by waits, or that were put into one group, form a
//! play: it has a start of its own, and the times of its nodes count from there.

use dynosim_engine::Nanos;

use crate::decode::Scale;

/// What a request waits for another one to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// To be sent.
    Dispatch,
    /// To end.
    Completion,
}

/// One request waits for another one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) of: u32,
    pub(crate) on: u32,
    pub(crate) trigger: Trigger,
    pub(crate) delay: Nanos,
}

/// The other end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) node: u32,
    pub(crate) trigger: Trigger,
    pub(crate) delay: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// Not to be sent before, counted from the start of its play.
    pub(crate) time: Nanos,
    /// Waits that are not over.
    pub(crate) waits: u32,
    pub(crate) play: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Play {
    /// Its start, counted from the start of the run.
    pub(crate) start: Nanos,
    /// Requests that have not ended.
    pub(crate) left: u32,
    /// Where its roots begin.
    roots: usize,
}

/// A graph without a cycle.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// In the order of their starts.
    pub(crate) plays: Vec<Play>,
    /// Nodes that wait for nothing, play after play.
    roots: Vec<u32>,
    /// Where the waiters of each node begin.
    first_waiter: Vec<usize>,
    waiters: Vec<Waiter>,
}

impl Graph {
    /// The nodes of a play that wait for nothing.
    pub(crate) fn roots(&self, play: usize) -> &[u32] {
        let end = self.plays.get(play + 1).map_or(self.roots.len(), |next| next.roots);
        &self.roots[self.plays[play].roots..end]
    }

    /// Where the waiters of a node are.
    pub(crate) fn waiters(&self, node: u32) -> std::ops::Range<usize> {
        self.first_waiter[node as usize]..self.first_waiter[node as usize + 1]
    }

    pub(crate) fn waiter(&self, at: usize) -> Waiter {
        self.waiters[at]
    }
}

/// Nodes that wait for each other, each for the one after it and the last for the first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cycle(pub(crate) Vec<u32>);

/// Collects a graph.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    /// Of each node: not to be sent before, counted from the epoch of the trace.
    times: Vec<Nanos>,
    waits: Vec<Wait>,
    /// Of each node: another node of its play; itself if it speaks for the play.
    speakers: Vec<u32>,
}

impl GraphBuilder {
    /// Adds the next node; its number counts from 0.
    pub(crate) fn node(&mut self, time: Nanos) -> u32 {
        let number = self.times.len() as u32;
        self.times.push(time);
        self.speakers.push(number);
        number
    }

    /// Adds a wait between nodes that are there.
    pub(crate) fn wait(&mut self, wait: Wait) {
        self.group(wait.of, wait.on);
        self.waits.push(wait);
    }

    /// Puts two nodes into one play.
    pub(crate) fn group(&mut self, a: u32, b: u32) {
        let (a, b) = (self.speaker(a), self.speaker(b));
        // The earlier node speaks, so that the order of plays is that of the trace.
        self.speakers[a.max(b) as usize] = a.min(b);
    }

    fn speaker(&mut self, mut node: u32) -> u32 {
        while self.speakers[node as usize] != node {
            let next = self.speakers[node as usize];
            self.speakers[node as usize] = self.speakers[next as usize];
            node = next;
        }
        node
    }

    /// Ends the graph. The earliest root is the start of the run.
    pub(crate) fn finish(mut self, scale: Scale) -> Result<Graph, Cycle> {
        let count = self.times.len();
        let mut waits = vec![0u32; count];
        self.waits.iter().for_each(|wait| waits[wait.of as usize] += 1);
        let (first_waiter, waiters) = self.waiters();
        check_acyclic(&waits, &first_waiter, &waiters, &self.waits)?;
        let roots = (0..count as u32).filter(|&node| waits[node as usize] == 0);
        let mut roots: Vec<u32> = roots.collect();
        let start = roots.iter().map(|&root| self.times[root as usize]).min().unwrap_or_default();
        let times: Vec<Nanos> = self.times.iter().map(|time| scale.apply(time.since(start))).collect();
        let mut plays = self.plays(&roots, &times);
        let mut places = vec![u32::MAX; count];
        for (place, &(_, speaker)) in plays.iter().enumerate() {
            places[speaker as usize] = place as u32;
        }
        let nodes: Vec<Node> = (0..count)
            .map(|node| {
                let play = places[self.speaker(node as u32) as usize];
                let time = times[node].since(plays[play as usize].0);
                Node { time, waits: waits[node], play }
            })
            .collect();
        roots.sort_by_key(|&root| nodes[root as usize].play);
        let mut found: Vec<Play> =
            plays.drain(..).map(|(start, _)| Play { start, left: 0, roots: roots.len() }).collect();
        for node in &nodes {
            found[node.play as usize].left += 1;
        }
        for (place, &root) in roots.iter().enumerate().rev() {
            found[nodes[root as usize].play as usize].roots = place;
        }
        Ok(Graph { nodes, plays: found, roots, first_waiter, waiters })
    }

    /// The waits, sorted by what is waited for.
    fn waiters(&self) -> (Vec<usize>, Vec<Waiter>) {
        let mut first = vec![0usize; self.times.len() + 1];
        self.waits.iter().for_each(|wait| first[wait.on as usize + 1] += 1);
        (1..first.len()).for_each(|node| first[node] += first[node - 1]);
        let mut next = first.clone();
        let mut waiters = vec![Waiter { node: 0, trigger: Trigger::Completion, delay: Nanos::ZERO }; self.waits.len()];
        for &Wait { of, on, trigger, delay } in &self.waits {
            waiters[next[on as usize]] = Waiter { node: of, trigger, delay };
            next[on as usize] += 1;
        }
        (first, waiters)
    }

    /// Start and speaker of each play, in the order of their starts.
    fn plays(&mut self, roots: &[u32], times: &[Nanos]) -> Vec<(Nanos, u32)> {
        let mut starts: Vec<(u32, Nanos)> =
            roots.iter().map(|&root| (self.speaker(root), times[root as usize])).collect();
        starts.sort_unstable();
        // The earliest of each play's roots comes first. Every play has a root because it has no cycle.
        starts.dedup_by_key(|(speaker, _)| *speaker);
        let mut plays: Vec<_> = starts.into_iter().map(|(speaker, start)| (start, speaker)).collect();
        plays.sort_unstable();
        plays
    }
}

/// Takes nodes away that wait for nothing until none is left, or only those that wait for each other.
fn check_acyclic(waits: &[u32], first: &[usize], waiters: &[Waiter], all: &[Wait]) -> Result<(), Cycle> {
    let mut waits = waits.to_vec();
    let mut free: Vec<u32> = (0..waits.len() as u32).filter(|&node| waits[node as usize] == 0).collect();
    let mut taken = 0;
    while let Some(node) = free.pop() {
        taken += 1;
        for waiter in &waiters[first[node as usize]..first[node as usize + 1]] {
            waits[waiter.node as usize] -= 1;
            if waits[waiter.node as usize] == 0 {
                free.push(waiter.node);
            }
        }
    }
    if taken == waits.len() { Ok(()) } else { Err(find_cycle(&waits, all)) }
}

/// A cycle among the nodes that still wait: each of them waits for another such one.
fn find_cycle(waits: &[u32], all: &[Wait]) -> Cycle {
    let stuck = |node: u32| waits[node as usize] > 0;
    let mut on = vec![u32::MAX; waits.len()];
    for wait in all.iter().rev().filter(|wait| stuck(wait.of) && stuck(wait.on)) {
        on[wait.of as usize] = wait.on;
    }
    let mut visited = vec![false; waits.len()];
    let mut node = (0..waits.len() as u32).find(|&node| stuck(node)).unwrap_or_default();
    while !std::mem::replace(&mut visited[node as usize], true) {
        node = on[node as usize];
    }
    let mut cycle = vec![node];
    let mut next = on[node as usize];
    while next != node {
        cycle.push(next);
        next = on[next as usize];
    }
    // It begins with the row that comes first, for the message.
    let least = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(place, _)| place);
    cycle.rotate_left(least);
    Cycle(cycle)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PLAIN: Scale = Scale { speedup: 1.0 };

    fn build(count: u32, waits: &[(u32, u32)]) -> Result<Graph, Cycle> {
        let mut builder = GraphBuilder::default();
        for node in 0..count {
            builder.node(Nanos(100 + u64::from(node)));
        }
        for &(of, on) in waits {
            builder.wait(Wait { of, on, trigger: Trigger::Completion, delay: Nanos::ZERO });
        }
        builder.finish(PLAIN)
    }

    #[test]
    fn plays_are_what_is_connected_and_times_count_from_their_starts() {
        let graph = build(6, &[(3, 1), (5, 3), (4, 0)]).unwrap();
        let plays: Vec<u32> = graph.nodes.iter().map(|node| node.play).collect();
        assert_eq!(plays, [0, 1, 2, 1, 0, 1]);
        let starts: Vec<_> = graph.plays.iter().map(|play| (play.start.0, play.left)).collect();
        assert_eq!(starts, [(0, 2), (1, 3), (2, 1)]);
        assert_eq!((graph.roots(0), graph.roots(1), graph.roots(2)), (&[0][..], &[1][..], &[2][..]));
        assert_eq!(graph.nodes[5].time, Nanos(4));
    }

    #[test]
    fn a_cycle_is_told_from_its_first_node_on() {
        assert_eq!(build(5, &[(4, 2), (2, 3), (3, 4), (1, 4)]).unwrap_err(), Cycle(vec![2, 3, 4]));
        assert_eq!(build(1, &[(0, 0)]).unwrap_err(), Cycle(vec![0]));
    }

    proptest! {
        #[test]
        fn a_graph_is_refused_exactly_if_it_has_a_cycle(waits in prop::collection::vec((0u32..8, 0u32..8), 0..12)) {
            // Reachability by brute force.
            let mut reach = [[false; 8]; 8];
            for &(of, on) in &waits {
                reach[of as usize][on as usize] = true;
            }
            for via in 0..8 {
                for from in 0..8 {
                    for to in 0..8 {
                        reach[from][to] |= reach[from][via] && reach[via][to];
                    }
                }
            }
            let cyclic = (0..8).any(|node| reach[node][node]);
            match build(8, &waits) {
                Ok(_) => prop_assert!(!cyclic),
                Err(Cycle(nodes)) => {
                    prop_assert!(cyclic);
                    for (place, &node) in nodes.iter().enumerate() {
                        let next = nodes[(place + 1) % nodes.len()];
                        prop_assert!(waits.contains(&(node, next)), "{:?} in {:?}", nodes, waits);
                    }
                }
            }
        }
    }
}
