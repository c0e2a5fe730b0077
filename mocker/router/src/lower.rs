//! Blocks in host memory and on disk: a chain of block hashes per rank that goes on where the device's blocks end.

use rustc_hash::FxHashMap;

use crate::event::EventError;

/// A block's parent and the hash of its tokens.
type Link = (Option<u64>, u64);

/// One tier of one rank.
#[derive(Debug, Default)]
pub(crate) struct Lower {
    /// Block hash by what comes before it and what is in it.
    next: FxHashMap<Link, u64>,
    links: FxHashMap<u64, Link>,
}

impl Lower {
    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Blocks were stored. The parent need not be known here: it may lie on a tier above.
    pub(crate) fn stored(&mut self, parent: Option<u64>, tokens: &[u64], blocks: &[u64]) -> Result<(), EventError> {
        if tokens.len() != blocks.len() || parent.is_some_and(|parent| blocks.contains(&parent)) {
            return Err(EventError::InvalidSequence);
        }
        let mut above = parent;
        for (&hash, &block) in tokens.iter().zip(blocks) {
            self.forget(block);
            self.next.insert((above, hash), block);
            self.links.insert(block, (above, hash));
            above = Some(block);
        }
        Ok(())
    }

    /// Blocks were removed.
    pub(crate) fn removed(&mut self, blocks: &[u64]) -> Result<(), EventError> {
        let mut all = true;
        for &block in blocks {
            all &= self.forget(block);
        }
        if all { Ok(()) } else { Err(EventError::BlockNotFound) }
    }

    fn forget(&mut self, block: u64) -> bool {
        let Some(link) = self.links.remove(&block) else { return false };
        if self.next.get(&link) == Some(&block) {
            self.next.remove(&link);
        }
        true
    }

    /// All blocks are gone.
    pub(crate) fn cleared(&mut self) {
        self.next.clear();
        self.links.clear();
    }

    /// How many blocks are held after `parent`; moves it to the last of them.
    pub(crate) fn find(&self, parent: &mut Option<u64>, tokens: &[u64]) -> u32 {
        let mut found = 0;
        for &hash in tokens {
            let Some(&block) = self.next.get(&(*parent, hash)) else { break };
            *parent = Some(block);
            found += 1;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_ends_the_chain_and_heals() {
        let mut host = Lower::default();
        host.stored(Some(9), &[1, 2, 3], &[11, 12, 13]).unwrap();
        let found = |host: &Lower, parent| host.find(&mut { parent }, &[1, 2, 3]);
        assert_eq!((found(&host, Some(9)), found(&host, None)), (3, 0));
        assert_eq!(host.removed(&[12, 5]), Err(EventError::BlockNotFound));
        assert_eq!(found(&host, Some(9)), 1);
        host.stored(Some(11), &[2], &[12]).unwrap();
        assert_eq!(found(&host, Some(9)), 3);
    }
}
