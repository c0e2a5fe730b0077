//! Block hashes as Dynamo 1.6.1 computes them: xxh3 over token bytes.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const SEED: u64 = 1337;

/// What else tells prompts apart, besides tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space<'a> {
    /// Adapter; empty is none.
    pub lora_name: &'a str,
    /// Cache namespace; empty is none.
    pub cache_namespace: &'a str,
    /// Speculation with Eagle: a block's hash covers the next token too.
    pub eagle: bool,
}

impl Space<'_> {
    fn seed(&self) -> u64 {
        let of = |name: &str, seed| if name.is_empty() { 0 } else { xxh3_64_with_seed(name.as_bytes(), seed) };
        SEED.wrapping_add(of(self.lora_name, 0)).wrapping_add(of(self.cache_namespace, 1))
    }
}

/// Tokens hashes of the full blocks of a prompt. `objects` has for each block the hashes of the images in it.
pub fn tokens_hashes(tokens: &[u32], block_size: usize, space: Space<'_>, objects: &[Vec<u64>]) -> Vec<u64> {
    let seed = space.seed();
    let width = block_size + usize::from(space.eagle);
    let mut bytes = Vec::with_capacity(width * 4);
    let starts = (0..).step_by(block_size.max(1)).take_while(|start| start + width <= tokens.len());
    starts
        .enumerate()
        .map(|(block, start)| {
            bytes.clear();
            bytes.extend(tokens[start..start + width].iter().flat_map(|token| token.to_le_bytes()));
            let mut images = objects.get(block).cloned().unwrap_or_default();
            images.sort_unstable();
            bytes.extend(images.iter().flat_map(|image| image.to_le_bytes()));
            xxh3_64_with_seed(&bytes, seed)
        })
        .collect()
}

/// Sequence hashes: each names a block together with all before it.
pub fn sequence_hashes(tokens_hashes: &[u64]) -> Vec<u64> {
    let mut above = None;
    tokens_hashes
        .iter()
        .map(|&hash| {
            let own = above.map_or(hash, |above: u64| {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&above.to_le_bytes());
                bytes[8..].copy_from_slice(&hash.to_le_bytes());
                xxh3_64_with_seed(&bytes, SEED)
            });
            above = Some(own);
            own
        })
        .collect()
}

/// A stable number for a name: of sessions and the like.
pub(crate) fn name(text: &str) -> u64 {
    xxh3_64(text.as_bytes())
}
