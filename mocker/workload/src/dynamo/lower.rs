//! Who waited for whom, from the times of requests.
//!
//! The requests of an agent follow each other. An agent starts after the last request of its parent that had ended when
//! the agent's first one came; the parent's next request waits for the agent's last one if it came after its end. A
//! request is sent as long after the end of what it waited for as it was in the trace.
//!
//! Requests are numbered by (start, end, id). All waits go from later numbers to earlier ones, so there is no cycle.

use dynosim_engine::Nanos;

use crate::agentic::row::Relation;

/// A request as far as it matters here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) agent: u32,
}

/// One chain of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain {
    pub(crate) parent: Option<u32>,
    /// In order.
    pub(crate) requests: Vec<u32>,
    /// Spans of its tools.
    pub(crate) tools: Vec<(Nanos, Nanos)>,
}

/// A request waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) of: u32,
    pub(crate) on: u32,
    pub(crate) relation: Relation,
}

/// The pause before a request, after all that it waits for has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pause {
    /// In which tools ran.
    pub(crate) tools: Nanos,
    /// The rest.
    pub(crate) other: Nanos,
}

/// What the times tell.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    /// Sorted by the request that waits.
    pub(crate) links: Vec<Link>,
    pub(crate) pauses: Vec<Pause>,
}

/// Finds the waits between requests that are in order.
pub(crate) fn lower(spans: &[Span], chains: &mut [Chain]) -> Lowered {
    let mut links = Vec::new();
    for chain in &*chains {
        for pair in chain.requests.windows(2) {
            links.push(Link { of: pair[1], on: pair[0], relation: Relation::Sequence });
        }
        let parent = chain.parent.and_then(|parent| chains.get(parent as usize));
        if let (Some(parent), [first, ..], [.., last]) = (parent, &chain.requests[..], &chain.requests[..]) {
            link_to_parent(spans, &parent.requests, (*first, *last), &mut links);
        }
    }
    links.sort_unstable_by_key(|link| (link.of, link.on));
    links.dedup_by_key(|link| (link.of, link.on));
    for chain in &mut *chains {
        unite(&mut chain.tools);
    }
    let mut pauses = vec![Pause::default(); spans.len()];
    for group in links.chunk_by(|a, b| a.of == b.of) {
        let of = group[0].of as usize;
        let span = spans[of];
        let from = group.iter().map(|link| spans[link.on as usize].end).max().unwrap_or_default();
        let whole = span.start.since(from);
        let tools = covered(&chains[span.agent as usize].tools, from, span.start);
        pauses[of] = Pause { tools, other: whole.since(tools) };
    }
    Lowered { links, pauses }
}

/// Where an agent, from its first to its last request, left its parent's chain and came back.
fn link_to_parent(spans: &[Span], parent: &[u32], (first, last): (u32, u32), links: &mut Vec<Link>) {
    let before = parent.partition_point(|&request| request < first);
    let start = spans[first as usize].start;
    let spawn = parent[..before].iter().rev().find(|&&request| spans[request as usize].end <= start);
    if let Some(&on) = spawn {
        links.push(Link { of: first, on, relation: Relation::Spawn });
    }
    if let Some(&of) = parent.get(before)
        && of > last
        && spans[of as usize].start >= spans[last as usize].end
    {
        links.push(Link { of, on: last, relation: Relation::Join });
    }
}

/// Makes overlapping spans one, in order.
fn unite(spans: &mut Vec<(Nanos, Nanos)>) {
    spans.sort_unstable();
    spans.dedup_by(|next, before| {
        let together = next.0 <= before.1;
        if together {
            before.1 = before.1.max(next.1);
        }
        together
    });
}

/// How much of the time between two instants spans without overlap cover.
fn covered(spans: &[(Nanos, Nanos)], from: Nanos, to: Nanos) -> Nanos {
    let first = spans.partition_point(|span| span.1 <= from);
    let inside = spans[first..].iter().take_while(|span| span.0 < to);
    inside.fold(Nanos::ZERO, |sum, span| sum + span.1.min(to).since(span.0.max(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(times: &[(u64, u64, u32)]) -> Vec<Span> {
        times.iter().map(|&(start, end, agent)| Span { start: Nanos(start), end: Nanos(end), agent }).collect()
    }

    fn chain(parent: Option<u32>, requests: &[u32], tools: &[(u64, u64)]) -> Chain {
        let tools = tools.iter().map(|&(start, end)| (Nanos(start), Nanos(end))).collect();
        Chain { parent, requests: requests.to_vec(), tools }
    }

    #[test]
    fn an_agent_leaves_its_parents_chain_and_comes_back() {
        // Root 0 → 4 with agents 1 (request 1, 3) and 2 (request 2), both between.
        let spans = spans(&[(0, 10, 0), (12, 20, 1), (12, 30, 2), (22, 40, 1), (50, 60, 0)]);
        let mut chains =
            [chain(None, &[0, 4], &[(10, 20), (15, 45)]), chain(Some(0), &[1, 3], &[]), chain(Some(0), &[2], &[])];
        let found = lower(&spans, &mut chains);
        let link = |of, on, relation| Link { of, on, relation };
        let expected = [
            link(1, 0, Relation::Spawn),
            link(2, 0, Relation::Spawn),
            link(3, 1, Relation::Sequence),
            link(4, 0, Relation::Sequence),
            link(4, 2, Relation::Join),
            link(4, 3, Relation::Join),
        ];
        assert_eq!(found.links, expected);
        assert_eq!(found.pauses[4], Pause { tools: Nanos(5), other: Nanos(5) });
        assert_eq!(found.pauses[1], Pause { tools: Nanos::ZERO, other: Nanos(2) });
    }

    #[test]
    fn the_parent_does_not_wait_for_an_agent_that_runs_on() {
        let spans = spans(&[(0, 10, 0), (11, 90, 1), (20, 30, 0), (95, 99, 0)]);
        let mut chains = [chain(None, &[0, 2, 3], &[]), chain(Some(0), &[1], &[])];
        let joins = lower(&spans, &mut chains).links.into_iter().filter(|link| link.relation == Relation::Join);
        assert_eq!(joins.count(), 0);
    }
}
