//! Exact distributions over many samples.

use dynosim_engine::Nanos;

/// Samples per allocation of [`Weighted`]; growing one vector instead would copy and double the peak.
const CHUNK: usize = 1 << 16;
/// High bits of a 32-bit sample that name its bucket when order statistics are looked up.
const BUCKET_BITS: u32 = 16;

/// A distribution, in the unit of its samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// Number of samples.
    pub(crate) count: u64,
    /// Arithmetic mean.
    pub(crate) mean: f64,
    /// Smallest sample.
    pub(crate) min: f64,
    /// Largest sample.
    pub(crate) max: f64,
    /// The sample at rank `round((n - 1) · p / 100)`, for p = 50, 75, 90, 95, 99.
    pub(crate) percentiles: [f64; PERCENTILES.len()],
    /// Population standard deviation.
    pub(crate) std: f64,
}

/// The percentiles of a [`Summary`].
pub(crate) const PERCENTILES: [u32; 5] = [50, 75, 90, 95, 99];

/// Rank of a percentile among `count` sorted samples (Dynamo's rule).
fn rank(count: u64, percentile: u32) -> u64 {
    ((count - 1) as f64 * f64::from(percentile) / 100.0).round() as u64
}

/// One sample per request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Nanos) {
        self.0.push(sample.0);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// In milliseconds. Sorts the samples.
    pub(crate) fn summary_ms(&mut self) -> Summary {
        self.0.sort_unstable();
        let sorted = &self.0;
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else { return Summary::default() };
        let count = sorted.len() as u64;
        let ms = |ns: u64| Nanos(ns).as_ms();
        let mean = sorted.iter().map(|&ns| ns as f64).sum::<f64>() / count as f64;
        let variance = sorted.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>() / count as f64;
        Summary {
            count,
            mean: mean / 1e6,
            min: ms(min),
            max: ms(max),
            percentiles: PERCENTILES.map(|p| ms(sorted[rank(count, p) as usize])),
            std: variance.sqrt() / 1e6,
        }
    }
}

/// Time between tokens: each value once, with the number of requests that saw it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weighted {
    /// (nanoseconds, weight); values above 32 bits are in `long`.
    chunks: Vec<Vec<(u32, u32)>>,
    long: Vec<(u64, u32)>,
}

impl Weighted {
    #[inline]
    pub(crate) fn push(&mut self, value: Nanos, weight: u32) {
        let Ok(short) = u32::try_from(value.0) else {
            self.long.push((value.0, weight));
            return;
        };
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push((short, weight)),
            _ => self.chunks.push(vec![(short, weight)]),
        }
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.chunks.append(&mut other.chunks);
        self.long.append(&mut other.long);
    }

    fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let short = self.chunks.iter().flatten().map(|&(value, weight)| (u64::from(value), u64::from(weight)));
        short.chain(self.long.iter().map(|&(value, weight)| (value, u64::from(weight))))
    }

    /// In milliseconds.
    pub(crate) fn summary_ms(&self) -> Summary {
        let count: u64 = self.iter().map(|(_, weight)| weight).sum();
        if count == 0 {
            return Summary::default();
        }
        let mean = self.iter().map(|(value, weight)| value as f64 * weight as f64).sum::<f64>() / count as f64;
        let square = |(value, weight): (u64, u64)| (value as f64 - mean).powi(2) * weight as f64;
        let variance = self.iter().map(square).sum::<f64>() / count as f64;
        let ranks = PERCENTILES.map(|p| rank(count, p));
        let found = self.at_ranks(&[&[0, count - 1], &ranks[..]].concat());
        let ms = |at: usize| Nanos(found[at]).as_ms();
        Summary {
            count,
            mean: mean / 1e6,
            min: ms(0),
            max: ms(1),
            percentiles: std::array::from_fn(|p| ms(p + 2)),
            std: variance.sqrt() / 1e6,
        }
    }

    /// Of 1 s / value: tokens per second that one user sees. Values of 0 (tokens of one burst) are left out.
    pub(crate) fn rate_summary(&self) -> Summary {
        let zeros: u64 = self.iter().filter(|&(value, _)| value == 0).map(|(_, weight)| weight).sum();
        let rates = || self.iter().filter(|&(value, _)| value > 0).map(|(value, weight)| (1e9 / value as f64, weight));
        let count: u64 = rates().map(|(_, weight)| weight).sum();
        if count == 0 {
            return Summary::default();
        }
        let mean = rates().map(|(rate, weight)| rate * weight as f64).sum::<f64>() / count as f64;
        let variance = rates().map(|(rate, weight)| (rate - mean).powi(2) * weight as f64).sum::<f64>() / count as f64;
        // The k-th smallest rate is that of the k-th largest value.
        let mirrored = |rank: u64| zeros + count - 1 - rank;
        let ranks = PERCENTILES.map(|p| mirrored(rank(count, p)));
        let found = self.at_ranks(&[&[mirrored(0), mirrored(count - 1)], &ranks[..]].concat());
        let rate = |at: usize| 1e9 / found[at] as f64;
        Summary {
            count,
            mean,
            min: rate(0),
            max: rate(1),
            percentiles: std::array::from_fn(|p| rate(p + 2)),
            std: variance.sqrt(),
        }
    }

    /// The values at some ranks of the sorted, weighted samples: one count by buckets, then only the buckets that hold
    /// a rank are sorted.
    fn at_ranks(&self, ranks: &[u64]) -> Vec<u64> {
        let bucket_of = |value: u64| (value >> (32 - BUCKET_BITS)) as usize;
        let overflow = 1 << BUCKET_BITS;
        let mut weights = vec![0u64; overflow + 1];
        for (value, weight) in self.iter() {
            weights[bucket_of(value).min(overflow)] += weight;
        }
        let mut before = 0;
        let starts: Vec<u64> = weights.iter().map(|weight| (before, before += weight).0).collect();
        let of_rank: Vec<usize> =
            ranks.iter().map(|&rank| starts.partition_point(|&start| start <= rank) - 1).collect();
        let mut wanted = of_rank.clone();
        wanted.sort_unstable();
        wanted.dedup();
        // Per bucket its place among the wanted ones; most have none.
        let mut places = vec![u8::MAX; overflow + 1];
        for (place, &bucket) in wanted.iter().enumerate() {
            places[bucket] = place as u8;
        }
        let mut members = vec![Vec::new(); wanted.len()];
        for (value, weight) in self.iter() {
            if let Some(members) = members.get_mut(usize::from(places[bucket_of(value).min(overflow)])) {
                members.push((value, weight));
            }
        }
        for members in &mut members {
            members.sort_unstable();
        }
        let at =
            |(&rank, &bucket): (&u64, &usize)| at_rank(&members[usize::from(places[bucket])], rank - starts[bucket]);
        ranks.iter().zip(&of_rank).map(at).collect()
    }
}

fn at_rank(sorted: &[(u64, u64)], rank: u64) -> u64 {
    let mut before = 0;
    for &(value, weight) in sorted {
        before += weight;
        if rank < before {
            return value;
        }
    }
    sorted.last().map_or(0, |&(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weighted_samples_equal_the_same_samples_one_by_one(
            entries in proptest::collection::vec((prop_oneof![1u64..2_000_000, 1u64..20_000_000_000], 1u32..5), 1..300)
        ) {
            let mut weighted = Weighted::default();
            let mut plain = Samples::default();
            for &(value, weight) in &entries {
                weighted.push(Nanos(value), weight);
                (0..weight).for_each(|_| plain.push(Nanos(value)));
            }
            let (a, b) = (weighted.summary_ms(), plain.summary_ms());
            prop_assert_eq!((a.count, a.min, a.max, a.percentiles), (b.count, b.min, b.max, b.percentiles));
            prop_assert!((a.mean - b.mean).abs() <= 1e-9 * b.mean && (a.std - b.std).abs() <= 1e-6 * b.std.max(1.0));

            let rates = weighted.rate_summary();
            let mut sorted: Vec<f64> = plain.0.iter().map(|&value| 1e9 / value as f64).collect();
            sorted.sort_by(f64::total_cmp);
            for (p, value) in PERCENTILES.iter().zip(rates.percentiles) {
                prop_assert_eq!(value.to_bits(), sorted[rank(sorted.len() as u64, *p) as usize].to_bits());
            }
            prop_assert_eq!((rates.min, rates.max), (sorted[0], sorted[sorted.len() - 1]));
        }
    }

    #[test]
    fn no_samples_are_zero_everywhere() {
        assert_eq!(Weighted::default().summary_ms(), Summary::default());
        assert_eq!(Weighted::default().rate_summary(), Summary::default());
        assert_eq!(Samples::default().summary_ms(), Summary::default());
    }
}
