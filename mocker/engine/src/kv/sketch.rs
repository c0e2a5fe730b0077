//! Approximate use counts in fixed memory: a count-min sketch of 4-bit counters with ageing (the `TinyLFU` scheme of
//! Einziger, Friedman, and Manes, 2017).
//!
//! Each hash owns one counter in each of four rows; its estimate is the smallest, so collisions can only raise it.
//! After ten uses per block of capacity all counters are halved, so the past fades. Memory: 4 bytes per block (rounded
//! up to a power of two), one counter per byte for simplicity.

const ROWS: usize = 4;
const COUNTER_MAX: u8 = 15;
const USES_PER_BLOCK: u64 = 10;

/// The counters.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    counters: Vec<u8>,
    mask: usize,
    uses: u64,
    uses_max: u64,
}

impl Sketch {
    pub(super) fn new(blocks: u32) -> Self {
        let width = (blocks.max(16) as usize).next_power_of_two();
        let uses_max = u64::from(blocks.max(16)) * USES_PER_BLOCK;
        Self { counters: vec![0; width * ROWS], mask: width - 1, uses: 0, uses_max }
    }

    /// Counts one use.
    pub(super) fn add(&mut self, hash: u64) {
        for row in 0..ROWS {
            let counter = self.position(hash, row);
            self.counters[counter] = (self.counters[counter] + 1).min(COUNTER_MAX);
        }
        self.uses += 1;
        if self.uses == self.uses_max {
            self.uses /= 2;
            for counter in &mut self.counters {
                *counter /= 2;
            }
        }
    }

    /// At least the true recent count, at most 15.
    pub(super) fn estimate(&self, hash: u64) -> u8 {
        (0..ROWS).map(|row| self.counters[self.position(hash, row)]).min().unwrap_or(0)
    }

    fn position(&self, hash: u64, row: usize) -> usize {
        let column = (hash.rotate_left(16 * row as u32) as usize ^ (hash >> 7) as usize) & self.mask;
        row * (self.mask + 1) + column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn estimates_never_undercount_and_saturate() {
        let mut sketch = Sketch::new(1024);
        for i in 0..200 {
            for _ in 0..i % 7 {
                sketch.add(mix(1, i));
            }
        }
        assert!((0..200).all(|i| u64::from(sketch.estimate(mix(1, i))) >= i % 7));
        (0..40).for_each(|_| sketch.add(5));
        assert_eq!(sketch.estimate(5), COUNTER_MAX);
    }

    #[test]
    fn old_uses_fade() {
        let mut sketch = Sketch::new(16);
        (0..12).for_each(|_| sketch.add(3));
        (0..400).for_each(|i| sketch.add(mix(9, i)));
        assert!(sketch.estimate(3) < 12);
    }
}
