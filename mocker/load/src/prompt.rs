//! Tokens of a prompt from the hashes of its blocks.
//!
//! A hash of a workload names a block and everything before it. Each token of a block is a function of that hash and
//! of the token's place in the block, so two prompts are equal exactly as far as the workload says. With blocks of one
//! token, as traces are opened here, that holds for any block size of the server. What follows the last full block is
//! of the request alone.

use dynosim_engine::hash::mix;

/// Names the stream of tokens behind the last full block.
const TAIL: u64 = u64::from_be_bytes(*b"tailtokn");
/// Letters of prompts that are text: none is escaped in JSON, and no server trims any.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A prompt before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    /// Hashes of the full blocks.
    pub(crate) hashes: &'a [u64],
    /// Tokens of a block; 1 or more.
    pub(crate) block_size: u32,
    /// Length in tokens.
    pub(crate) length: u32,
    /// The request in the order of the input.
    pub(crate) row: u64,
    /// Sets prompts of one purpose apart from those of another.
    pub(crate) salt: u64,
}

impl Prompt<'_> {
    /// Calls `each` with a well-mixed value for each token.
    #[inline]
    fn for_each(&self, mut each: impl FnMut(u64)) {
        let mut left = self.length;
        for &hash in self.hashes {
            let hash = hash ^ self.salt;
            let count = self.block_size.min(left);
            if count == 1 {
                each(hash);
            } else {
                (0..count).for_each(|place| each(mix(hash, u64::from(place))));
            }
            left -= count;
        }
        let own = mix(TAIL ^ self.salt, self.row);
        (0..left).for_each(|place| each(mix(own, u64::from(place))));
    }

    /// Appends letters, one per token.
    pub(crate) fn write_text(&self, out: &mut Vec<u8>) {
        self.for_each(|value| out.push(LETTERS[(value >> 58) as usize]));
    }

    /// Appends token ids below `vocabulary`, with commas between them.
    pub(crate) fn write_ids(&self, vocabulary: u32, out: &mut Vec<u8>) {
        let start = out.len();
        self.for_each(|value| {
            let id = ((value >> 32) * u64::from(vocabulary)) >> 32;
            push_decimal(id as u32, out);
            out.push(b',');
        });
        if out.len() > start {
            out.pop();
        }
    }
}

/// Appends a number in decimal.
fn push_decimal(mut number: u32, out: &mut Vec<u8>) {
    let mut digits = [0u8; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(prompt: &Prompt<'_>, vocabulary: u32) -> Vec<u32> {
        let mut out = Vec::new();
        prompt.write_ids(vocabulary, &mut out);
        String::from_utf8(out).unwrap().split(',').map(|id| id.parse().unwrap()).collect()
    }

    fn prompt(hashes: &[u64], block_size: u32, length: u32) -> Prompt<'_> {
        Prompt { hashes, block_size, length, row: 5, salt: 0 }
    }

    #[test]
    fn text_has_one_plain_letter_per_token() {
        let mut out = Vec::new();
        prompt(&[1, 2], 4, 11).write_text(&mut out);
        assert_eq!(out.len(), 11);
        assert!(out.iter().all(|letter| LETTERS.contains(letter)));
        assert_eq!(serde_json::to_string(std::str::from_utf8(&out).unwrap()).unwrap().len(), 13);
    }

    #[test]
    fn what_follows_the_last_block_is_of_the_request_alone() {
        let one = prompt(&[7], 8, 20);
        let other = Prompt { row: 6, ..one };
        assert_eq!(ids(&one, 1000)[..8], ids(&other, 1000)[..8]);
        assert_ne!(ids(&one, 1000)[8..], ids(&other, 1000)[8..]);
        assert_ne!(ids(&one, 1000), ids(&Prompt { salt: 1, ..one }, 1000));
    }

    proptest! {
        #[test]
        fn tokens_are_equal_exactly_as_far_as_hashes_are(
            a in proptest::collection::vec(0u64..3, 1..8), b in proptest::collection::vec(0u64..3, 1..8), size in 8u32..20
        ) {
            // Chains, as hashes of a workload are.
            let chain = |ids: &[u64]| {
                ids.iter().scan(9, |hash, &id| { *hash = mix(*hash, id); Some(*hash) }).collect::<Vec<_>>()
            };
            let (x, y) = (chain(&a), chain(&b));
            let tokens = |hashes: &[u64]| ids(&prompt(hashes, size, hashes.len() as u32 * size), 30_000);
            let (s, t) = (tokens(&x), tokens(&y));
            prop_assert!(s.iter().all(|&id| id < 30_000) && s.len() == x.len() * size as usize);
            let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
            for (block, (s, t)) in s.chunks(size as usize).zip(t.chunks(size as usize)).enumerate() {
                prop_assert_eq!(s == t, block < common);
            }
        }
    }
}
