//! Named random streams.
//!
//! A draw never depends on how many draws were made for another purpose: each purpose has its own stream, made from
//! the seed and the purpose's name. The streams are pinned by tests; changing them changes published numbers.

use dynosim_engine::hash::mix;
use rand::SeedableRng;
use rand_pcg::Pcg64;

/// The generator used throughout.
pub(crate) type Stream = Pcg64;

/// The stream of a purpose.
pub(crate) fn stream(seed: u64, purpose: &str) -> Stream {
    Pcg64::seed_from_u64(mix(seed, name_key(purpose)))
}

/// One draw of a purpose that can be repeated without those before it: uniform in `0..bound`, which is 1 or more.
pub(crate) fn draw_below(seed: u64, purpose: &str, index: u64, bound: u32) -> u32 {
    let word = mix(mix(seed, name_key(purpose)), index);
    ((u128::from(word) * u128::from(bound)) >> 64) as u32
}

fn name_key(purpose: &str) -> u64 {
    purpose.bytes().fold(0, |key, byte| mix(key, u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn streams_are_pinned() {
        let mut arrivals = stream(42, "arrivals");
        assert_eq!(
            [arrivals.next_u64(), arrivals.next_u64()],
            [16_288_165_440_784_743_706, 17_673_319_811_720_388_498]
        );
        assert_ne!(stream(42, "lengths").next_u64(), stream(42, "arrivals").next_u64());
        assert_ne!(stream(41, "arrivals").next_u64(), stream(42, "arrivals").next_u64());
        let draws: Vec<u32> = (0..8).map(|index| draw_below(42, "group", index, 8)).collect();
        assert_eq!(draws, [2, 1, 4, 4, 6, 5, 6, 0]);
    }

    #[test]
    fn draws_are_even() {
        let mut counts = [0u32; 5];
        for index in 0..50_000 {
            counts[draw_below(1, "x", index, 5) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 400), "{counts:?}");
    }
}
