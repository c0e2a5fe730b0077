//! Small hash ids for blocks that are known by their hashes.

use rustc_hash::FxHashMap;

/// Numbers hashes from 0 in the order in which they come up.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    numbers: FxHashMap<u64, u64>,
    /// Of each number: the hash of the longest text that it stands for.
    longest: Vec<u64>,
}

impl Numbers {
    pub(super) fn of(&mut self, hash: u64) -> u64 {
        let next = self.longest.len() as u64;
        let number = *self.numbers.entry(hash).or_insert(next);
        if number == next {
            self.longest.push(hash);
        }
        number
    }

    /// Puts numbers in the place of hashes.
    pub(super) fn replace(&mut self, hashes: &mut [u64]) {
        for hash in hashes {
            *hash = self.of(*hash);
        }
    }

    /// The number of a block that goes on from the end of a prompt with `start`, a hash and its number: the same one,
    /// unless the block has one already or another text went on from there.
    pub(super) fn going_on(&mut self, hash: u64, start: Option<(u64, u64)>) -> u64 {
        if let (Some((before, number)), None) = (start, self.numbers.get(&hash))
            && self.longest[number as usize] == before
        {
            self.longest[number as usize] = hash;
            self.numbers.insert(hash, number);
            return number;
        }
        self.of(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_number_as_it_fills_up_but_for_one_text_only() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.of(70), numbers.of(80)), (0, 1));
        assert_eq!(numbers.going_on(81, Some((80, 1))), 1);
        assert_eq!(numbers.going_on(82, Some((81, 1))), 1);
        assert_eq!(numbers.going_on(83, Some((80, 1))), 2);
        assert_eq!(numbers.going_on(82, Some((80, 1))), 1);
        assert_eq!(numbers.going_on(84, None), 3);
    }
}
