//! Why a request went where it went, in words.

use std::fmt::Write;

use dynosim_router::{Explanation, Reason};

use crate::pools::Stage;

/// A table of all workers' costs, and a line about the one that won.
pub(crate) fn text(stage: Stage, explanation: &Explanation) -> String {
    let mut text = String::new();
    let title = match stage {
        Stage::Whole => "",
        Stage::Prefill => "prefill pool\n",
        Stage::Decode => "decode pool\n",
    };
    text.push_str(title);
    text.push_str(
        "  worker  rank          cost  cached blocks  tokens to compute  active prefill tokens  requests  blocks\n",
    );
    let Explanation { decision, candidates } = explanation;
    for candidate in candidates {
        let mark = if candidate.target == decision.target { '*' } else { ' ' };
        let cached = candidate.matched.device + candidate.matched.host + candidate.matched.disk;
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "{mark} {:6}  {:4}  {:12.3}  {cached:13}  {:17}  {:21}  {:8}  {:6}",
            candidate.target.worker,
            candidate.target.rank,
            candidate.cost,
            candidate.effective_prefill_tokens,
            candidate.active_prefill_tokens,
            candidate.active_requests,
            candidate.decode_blocks,
        );
    }
    let why = match decision.reason {
        Reason::OnlyCandidate => "the only one",
        Reason::LowestCost => "the lowest cost",
        Reason::Tie => "by lot among those of the lowest cost",
        Reason::Temperature => "by lot, the cheaper the likelier (router_temperature)",
        Reason::Session => "the request's session is there",
    };
    let _ = writeln!(text, "worker {} rank {}: {why}", decision.target.worker, decision.target.rank);
    text
}
