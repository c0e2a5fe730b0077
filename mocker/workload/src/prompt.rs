//! Hashes of prompts that come without hash ids.

use dynosim_engine::hash::mix;

/// Parent of the first block of every prompt.
pub(crate) const ROOT: u64 = 0;

/// Keeps prompts of one kind apart from those of others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Shared by a prefix group.
    Shared = 0x5348_4152_4544,
    /// Of one request alone.
    Unique = 0x554E_4951_5545,
}

/// Appends `blocks` chain hashes after `parent`; equal kinds, owners and parents give equal hashes.
pub(crate) fn append_chain(parent: u64, kind: Kind, owner: u64, blocks: u32, hashes: &mut Vec<u64>) -> u64 {
    let mut chain = mix(parent, mix(kind as u64, owner));
    hashes.reserve(blocks as usize);
    for index in 0..blocks {
        chain = mix(chain, u64::from(index));
        hashes.push(chain);
    }
    chain
}
