//! The profile that needs no files.
//!
//! The coefficients were fitted (by [`super::regression`]) to the profiler results
//! `components/src/dynamo/planner/tests/data/profiling_results/H200_TP1P_TP1D` of github.com/ai-dynamo/dynamo, licence
//! Apache-2.0, as of commit 2a6da14c8: 17 prefill and 41 decode samples of one H200 GPU at tensor parallelism 1. The
//! samples themselves are not part of dynosim. A test repeats the fit where the files are at hand.

use super::regression::Fit;

/// The name that stands for the built-in profile where no such file or folder exists.
pub const H200_NAME: &str = "H200_TP1P_TP1D";

/// One H200 GPU for prefill, one for decode.
pub const H200: Fit = Fit {
    prefill_slope: 0.022_118_130_615_323_81,
    prefill_intercept: -1.605_217_394_865_718_2,
    min_isl: 100.0,
    max_isl: 16_372.0,
    decode_batch: 0.020_327_275_573_131_746,
    decode_kv: 2.934_045_471_325_199e-5,
    decode_constant: 6.090_435_271_812_512,
    max_kv_tokens: 945_029.0,
    max_context: 13_585.0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::profile::{Layout, samples};
    use std::io::Write as _;
    use std::path::Path;

    #[test]
    fn coefficients_equal_a_new_fit_of_the_published_samples() {
        let Some(shared) = std::env::var_os("DYNOSIM_SHARED") else {
            // Straight to the stream: the test harness keeps what macros print to itself.
            let line = "SKIPPED: DYNOSIM_SHARED is not set, so the built-in profile is not compared with its samples\n";
            let _ = std::io::stderr().write_all(line.as_bytes());
            return;
        };
        let folder = Path::new(&shared).join("traces/profiles").join(H200_NAME);
        let mut read = |path: &Path| std::fs::read(path);
        let fit = samples(&folder, Layout::Npz, &mut read).unwrap().unwrap().fit().unwrap();
        let pairs = [
            (fit.prefill_slope, H200.prefill_slope),
            (fit.prefill_intercept, H200.prefill_intercept),
            (fit.min_isl, H200.min_isl),
            (fit.max_isl, H200.max_isl),
            (fit.decode_batch, H200.decode_batch),
            (fit.decode_kv, H200.decode_kv),
            (fit.decode_constant, H200.decode_constant),
            (fit.max_kv_tokens, H200.max_kv_tokens),
            (fit.max_context, H200.max_context),
        ];
        for (found, built_in) in pairs {
            assert!((found - built_in).abs() <= 1e-9 * built_in.abs(), "{found} {built_in}");
        }
    }

    #[test]
    fn the_profile_builds_its_tables() {
        let tables = H200.tables().unwrap();
        assert!((tables.prefill_ms(5000) - 108.985_435).abs() < 1e-4);
        assert!((tables.decode_ms(0, 13_585) - 6.110_762_5).abs() < 1e-6);
    }
}
