//! From hash ids to the hashes of engine blocks.
//!
//! A trace names blocks of `trace_block_size` tokens; the engine hashes blocks of its own size. A hash id stands for
//! that many copies of one token, and the last one is cut where the prompt ends. The tokens are never laid out: the
//! content of an engine block is its sequence of runs (id, count), with equal neighbours merged, and a block's hash
//! is `mix(hash of the block before it, content)`. Two hashes are equal exactly if the tokens up to the end of both
//! blocks are (but for a collision of 64-bit hashes).

use dynosim_engine::hash::mix;

use crate::prompt::ROOT;

/// The two block sizes of a replay, in tokens; both 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Tokens that one hash id of the trace stands for.
    pub trace: u32,
    /// Tokens in a block of the engine.
    pub engine: u32,
}

/// Appends the chain hashes of all full engine blocks of a prompt to `hashes`.
///
/// The prompt is `input_tokens` long, which `hash_ids` must cover.
pub fn rechunk(hash_ids: &[u64], input_tokens: u32, sizes: BlockSizes, hashes: &mut Vec<u64>) {
    debug_assert!(u64::from(input_tokens) <= hash_ids.len() as u64 * u64::from(sizes.trace));
    let blocks = (input_tokens / sizes.engine) as usize;
    hashes.reserve(blocks);
    if sizes.trace.is_multiple_of(sizes.engine) {
        split(hash_ids, blocks, sizes, hashes);
    } else {
        join(hash_ids, blocks, sizes, hashes);
    }
}

/// Every engine block lies within one hash id.
fn split(hash_ids: &[u64], blocks: usize, sizes: BlockSizes, hashes: &mut Vec<u64>) {
    let per_id = (sizes.trace / sizes.engine) as usize;
    let mut chain = ROOT;
    let mut left = blocks;
    for &id in hash_ids {
        let content = append_run(0, id, u64::from(sizes.engine));
        let count = per_id.min(left);
        hashes.extend((0..count).map(|_| {
            chain = mix(chain, content);
            chain
        }));
        left -= count;
        if left == 0 {
            break;
        }
    }
}

/// An engine block may hold tokens of several hash ids.
fn join(hash_ids: &[u64], blocks: usize, sizes: BlockSizes, hashes: &mut Vec<u64>) {
    let (trace, engine) = (u64::from(sizes.trace), u64::from(sizes.engine));
    let mut chain = ROOT;
    let mut ids = hash_ids.iter().copied();
    let (mut id, mut unused) = (0, 0);
    for _ in 0..blocks {
        let mut content = 0;
        let (mut run, mut length) = (id, 0);
        let mut missing = engine;
        while missing > 0 {
            if unused == 0 {
                let Some(next) = ids.next() else { return };
                (id, unused) = (next, trace);
            }
            if id != run && length > 0 {
                content = append_run(content, run, length);
                length = 0;
            }
            run = id;
            let taken = unused.min(missing);
            length += taken;
            unused -= taken;
            missing -= taken;
        }
        chain = mix(chain, append_run(content, run, length));
        hashes.push(chain);
    }
}

/// A prompt that grows run by run, and the hashes of its engine blocks with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growing {
    block: u64,
    chain: u64,
    /// The runs of the block that is not full, without the last one.
    content: u64,
    /// The last run and its length within that block.
    run: u64,
    length: u64,
    /// Tokens in that block.
    filled: u64,
}

impl Growing {
    pub(crate) fn new(block_size: u32) -> Self {
        Self { block: u64::from(block_size), chain: ROOT, content: 0, run: 0, length: 0, filled: 0 }
    }

    /// Appends so many equal tokens, and the hashes of the blocks that become full.
    pub(crate) fn push(&mut self, id: u64, mut count: u64, hashes: &mut Vec<u64>) {
        while count > 0 {
            if id != self.run && self.length > 0 {
                self.content = append_run(self.content, self.run, self.length);
                self.length = 0;
            }
            let taken = count.min(self.block - self.filled);
            (self.run, self.length) = (id, self.length + taken);
            self.filled += taken;
            count -= taken;
            if self.filled == self.block {
                self.chain = self.rest_hash();
                hashes.push(self.chain);
                (self.content, self.length, self.filled) = (0, 0, 0);
            }
        }
    }

    /// Appends a prompt of a trace.
    pub(crate) fn push_ids(&mut self, ids: &[u64], trace_block_size: u32, mut tokens: u64, hashes: &mut Vec<u64>) {
        for &id in ids {
            let count = tokens.min(u64::from(trace_block_size));
            self.push(id, count, hashes);
            tokens -= count;
        }
    }

    /// A hash of all tokens so far, if the last block is not full.
    pub(crate) fn rest(&self) -> Option<u64> {
        (self.filled > 0).then(|| mix(self.rest_hash(), self.filled))
    }

    fn rest_hash(&self) -> u64 {
        mix(self.chain, append_run(self.content, self.run, self.length))
    }
}

fn append_run(content: u64, id: u64, count: u64) -> u64 {
    mix(mix(content, id), count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(ids: &[u64], trace: u32, length: u32) -> Vec<u64> {
        let all = ids.iter().flat_map(|&id| std::iter::repeat_n(id, trace as usize));
        all.take(length as usize).collect()
    }

    fn hashes(ids: &[u64], length: u32, sizes: BlockSizes) -> Vec<u64> {
        let mut found = Vec::new();
        rechunk(ids, length, sizes, &mut found);
        found
    }

    #[test]
    fn hashes_are_pinned() {
        let sizes = BlockSizes { trace: 512, engine: 256 };
        let found = hashes(&[7, 8], 1000, sizes);
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], mix(0, mix(mix(0, 7), 256)));
        assert_eq!(found, hashes(&[7, 8, 9], 1023, sizes));
        assert_eq!(found[2], 16_515_899_076_652_821_977);
    }

    #[test]
    fn one_id_twice_is_one_run() {
        let sizes = BlockSizes { trace: 4, engine: 6 };
        assert_eq!(hashes(&[3, 3, 3], 12, sizes), hashes(&[3, 3, 3, 9], 13, sizes)[..2]);
        assert_eq!(hashes(&[3, 3, 3], 12, sizes)[0], mix(0, mix(mix(0, 3), 6)));
    }

    #[test]
    fn the_rest_of_a_prompt_has_no_hash() {
        assert!(hashes(&[1], 15, BlockSizes { trace: 16, engine: 16 }).is_empty());
        assert_eq!(hashes(&[1], 16, BlockSizes { trace: 16, engine: 16 }).len(), 1);
    }

    /// Hash ids and a length.
    type Prompt = (Vec<u64>, u32);

    fn prompt(trace: u32) -> impl Strategy<Value = Prompt> {
        prop::collection::vec(0u64..3, 1..8).prop_flat_map(move |ids| {
            let most = ids.len() as u32 * trace;
            (Just(ids), 1..=most)
        })
    }

    fn pair() -> impl Strategy<Value = (BlockSizes, Prompt, Prompt)> {
        (1u32..13, 1u32..30)
            .prop_flat_map(|(trace, engine)| (Just(BlockSizes { trace, engine }), prompt(trace), prompt(trace)))
    }

    proptest! {
        #[test]
        fn hashes_are_equal_exactly_if_the_tokens_so_far_are((sizes, a, b) in pair()) {
            let block = sizes.engine as usize;
            let (x, y) = (hashes(&a.0, a.1, sizes), hashes(&b.0, b.1, sizes));
            prop_assert_eq!(x.len(), a.1 as usize / block);
            let (s, t) = (tokens(&a.0, sizes.trace, a.1), tokens(&b.0, sizes.trace, b.1));
            for (i, left) in x.iter().enumerate() {
                for (j, right) in y.iter().enumerate() {
                    let same = s[..(i + 1) * block] == t[..(j + 1) * block];
                    prop_assert_eq!(left == right, same, "block {} against {}", i, j);
                }
            }
        }

        #[test]
        fn a_prompt_that_grows_in_parts_hashes_as_one_that_is_there_at_once(
            (sizes, (ids, length), (more, rest)) in pair()
        ) {
            let mut growing = Growing::new(sizes.engine);
            let mut found = Vec::new();
            growing.push_ids(&ids, sizes.trace, u64::from(length), &mut found);
            prop_assert_eq!(&found, &hashes(&ids, length, sizes));
            growing.push_ids(&more, sizes.trace, u64::from(rest), &mut found);
            let mut whole = tokens(&ids, sizes.trace, length);
            whole.extend(tokens(&more, sizes.trace, rest));
            let expected = hashes(&whole, whole.len() as u32, BlockSizes { trace: 1, engine: sizes.engine });
            prop_assert_eq!(found, expected);
            prop_assert_eq!(growing.rest().is_some(), !whole.len().is_multiple_of(sizes.engine as usize));
        }

        #[test]
        fn equal_tokens_from_traces_of_other_block_sizes_hash_alike(
            ids in prop::collection::vec(0u64..4, 1..6), factor in 1u32..5, trace in 1u32..9, engine in 1u32..20
        ) {
            let fine: Vec<u64> = ids.iter().flat_map(|&id| std::iter::repeat_n(id, factor as usize)).collect();
            let length = ids.len() as u32 * trace * factor;
            let coarse = hashes(&ids, length, BlockSizes { trace: trace * factor, engine });
            prop_assert_eq!(coarse, hashes(&fine, length, BlockSizes { trace, engine }));
        }
    }
}
