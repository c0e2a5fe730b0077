//! Identity of a request's KV blocks, those of its output included.

use dynosim_wire::hash::{BlockHash, block_hashes, local_hash, sequence_hash};

use crate::tokens::OutputTokens;

/// The two hashes of every full block of prompt and planned output. The output is known before it is made, so a client
/// that sends it back finds its blocks.
pub(crate) fn plan(prompt: &[u32], output: &OutputTokens, block_size: u32) -> Box<[BlockHash]> {
    let size = block_size as usize;
    let mut blocks = block_hashes(prompt, size);
    let whole = blocks.len() * size;
    let all = (prompt.len() + output.planned() as usize) / size;
    if all == blocks.len() {
        return blocks.into_boxed_slice();
    }
    blocks.reserve_exact(all - blocks.len());
    let mut tokens = Vec::with_capacity(size);
    tokens.extend_from_slice(&prompt[whole..]);
    let mut scratch = Vec::with_capacity(size * 4);
    let mut next = 0;
    while blocks.len() < all {
        while tokens.len() < size {
            tokens.push(output.get(next));
            next += 1;
        }
        let local = local_hash(&tokens, &mut scratch);
        let sequence = sequence_hash(blocks.last().map(|block| block.sequence), local);
        blocks.push(BlockHash { local, sequence });
        tokens.clear();
    }
    blocks.into_boxed_slice()
}

/// The tokens of blocks `range` of a request, for events that carry them.
pub(crate) fn tokens_of(
    prompt: &[u32],
    output: &OutputTokens,
    block_size: u32,
    range: std::ops::Range<u32>,
) -> Vec<u32> {
    let token = |position: u32| match prompt.get(position as usize) {
        Some(&token) => token,
        None => output.get(position - prompt.len() as u32),
    };
    (range.start * block_size..range.end * block_size).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Vocabulary;
    use std::sync::Arc;

    #[test]
    fn blocks_of_the_output_are_those_of_a_prompt_that_contains_it() {
        for (prompt_tokens, planned) in [(0, 0), (3, 2), (16, 64), (30, 7), (33, 100), (64, 1), (5, 0)] {
            let prompt: Vec<u32> = (0..prompt_tokens).collect();
            let output =
                OutputTokens::drawn(&Arc::new(Vocabulary::new(None, &[])), None, "a", &[], None, planned);
            let both: Vec<u32> = prompt.iter().copied().chain((0..planned).map(|at| output.get(at))).collect();
            assert_eq!(*plan(&prompt, &output, 16), block_hashes(&both, 16), "{prompt_tokens} and {planned}");
            let blocks = (both.len() / 16) as u32;
            assert_eq!(tokens_of(&prompt, &output, 16, 0..blocks), both[..blocks as usize * 16]);
        }
    }
}
