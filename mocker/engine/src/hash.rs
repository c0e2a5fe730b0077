//! Block identity.
//!
//! A block hash names a full block of tokens together with everything before it (a chain hash, vLLM's and Dynamo's
//! "sequence hash"): two requests share a block exactly if its hash is equal. The engine never computes hashes of
//! tokens; who submits a request does, with any function of this property.

/// Mixes one value into a chain: the finaliser of splitmix64 over both.
///
/// Equal inputs give equal outputs on every platform; it is no cryptographic hash.
pub fn mix(parent: u64, value: u64) -> u64 {
    finish(parent.rotate_left(23) ^ finish(value.wrapping_add(0x9E37_79B9_7F4A_7C15)))
}

fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The block hashes of one request, in order.
///
/// `known` holds the hashes of the leading full blocks: at least those that lie wholly in the prompt, and more if the
/// output is planned. Later blocks get hashes of their own from `salt`, which therefore must differ between requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockHashes {
    /// Hashes of the leading full blocks.
    pub known: Vec<u64>,
    /// Seeds the hashes of all further blocks.
    pub salt: u64,
}

impl BlockHashes {
    /// The hash of full block `index`.
    #[inline]
    pub fn get(&self, index: usize) -> u64 {
        match self.known.get(index) {
            Some(&hash) => hash,
            None => mix(self.salt, index as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_after_the_known_ones_differ_between_requests_and_positions() {
        let a = BlockHashes { known: vec![7], salt: 1 };
        let b = BlockHashes { known: vec![7], salt: 2 };
        assert_eq!(a.get(0), b.get(0));
        assert_ne!(a.get(1), b.get(1));
        assert_ne!(a.get(1), a.get(2));
    }

    #[test]
    fn the_mixing_function_is_pinned() {
        assert_eq!(mix(0, 0), mix(0, 0));
        assert_ne!(mix(1, 2), mix(2, 1));
    }
}
