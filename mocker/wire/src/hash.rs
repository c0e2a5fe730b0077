//! Block hashes as Dynamo computes them (`dynamo-tokens` 1.6.1): xxh3-64 with one seed.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Seed of all block hashes.
pub const SEED: u64 = 1337;

/// Hash of the tokens of one full block: over their little-endian 32-bit values.
pub fn local_hash(tokens: &[u32], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    scratch.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
    xxh3_64_with_seed(scratch, SEED)
}

/// Hash of a block and all before it: the first block's is its local hash, a later one's is over parent and local hash.
pub fn sequence_hash(parent: Option<u64>, local: u64) -> u64 {
    let Some(parent) = parent else { return local };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&parent.to_le_bytes());
    bytes[8..].copy_from_slice(&local.to_le_bytes());
    xxh3_64_with_seed(&bytes, SEED)
}

/// Local and sequence hash of every full block of `tokens`, in order.
pub fn block_hashes(tokens: &[u32], block_size: usize) -> Vec<BlockHash> {
    let mut scratch = Vec::with_capacity(block_size * 4);
    let mut parent = None;
    tokens
        .chunks_exact(block_size)
        .map(|block| {
            let local = local_hash(block, &mut scratch);
            let sequence = sequence_hash(parent, local);
            parent = Some(sequence);
            BlockHash { local, sequence }
        })
        .collect()
}

/// The two hashes of a full block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHash {
    /// Over its own tokens (`tokens_hash` on the wire).
    pub local: u64,
    /// Over its tokens and all before them (`block_hash` on the wire).
    pub sequence: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference_library() {
        // python-xxhash: xxh3_64_intdigest(struct.pack("<4I", 0, 1, 2, 3), seed=1337), then over parent and local hash.
        let blocks = block_hashes(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 4);
        assert_eq!(blocks.len(), 2, "the last, partial block has no hash");
        assert_eq!(blocks[0].local, blocks[0].sequence);
        let expected = [(FIRST_LOCAL, FIRST_LOCAL), (SECOND_LOCAL, SECOND_SEQUENCE)];
        assert_eq!(blocks.iter().map(|b| (b.local, b.sequence)).collect::<Vec<_>>(), expected);
    }

    const FIRST_LOCAL: u64 = 0x7ee2_cbed_c694_ab46;
    const SECOND_LOCAL: u64 = 0xa841_6cfd_935b_db13;
    const SECOND_SEQUENCE: u64 = 0x83fb_702f_20e2_ad65;
}
