//! How long KV takes from a prefill engine to a decode engine.

use crate::time::Nanos;

/// Which tokens travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransferMode {
    /// All of the prompt.
    #[default]
    FullPrompt,
    /// The part of the prompt whose KV the decode engine does not have.
    DestinationMissing,
}

/// A link between prefill and decode engines. Speed-ups do not apply to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KvTransfer {
    /// KV bytes per token; without it transfers take no time.
    pub bytes_per_token: Option<u64>,
    /// 10⁹ bytes per second; without it, or at 0, transfers take no time.
    pub bandwidth_gb_s: Option<f64>,
    /// Which tokens travel.
    pub mode: TransferMode,
}

impl KvTransfer {
    /// The delay of one prompt: `tokens · bytes / (bandwidth · 10⁹)` seconds (`dynamo-mocker` 1.6.1).
    ///
    /// `destination_tokens` are the prompt tokens that the decode engine already has.
    pub fn delay(&self, prompt_tokens: u32, destination_tokens: u32) -> Nanos {
        let (Some(bytes), Some(bandwidth)) = (self.bytes_per_token, self.bandwidth_gb_s) else {
            return Nanos::ZERO;
        };
        if bandwidth <= 0.0 {
            return Nanos::ZERO;
        }
        let tokens = match self.mode {
            TransferMode::FullPrompt => prompt_tokens,
            TransferMode::DestinationMissing => prompt_tokens.saturating_sub(destination_tokens),
        };
        Nanos::from_ms(f64::from(tokens) * bytes as f64 / (bandwidth * 1e9) * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_bytes_over_decimal_bandwidth() {
        let mut link =
            KvTransfer { bytes_per_token: Some(131_072), bandwidth_gb_s: Some(64.0), mode: TransferMode::FullPrompt };
        // 5000 · 131072 B / 64 GB/s = 10.24 ms.
        assert_eq!(link.delay(5000, 4000), Nanos(10_240_000));
        link.mode = TransferMode::DestinationMissing;
        assert_eq!(link.delay(5000, 4000), Nanos(2_048_000));
        assert_eq!(link.delay(5000, 6000), Nanos::ZERO);
    }

    #[test]
    fn without_size_or_bandwidth_there_is_no_delay() {
        let link = KvTransfer { bytes_per_token: Some(10), bandwidth_gb_s: Some(1.0), ..KvTransfer::default() };
        for none in [
            KvTransfer::default(),
            KvTransfer { bytes_per_token: None, ..link },
            KvTransfer { bandwidth_gb_s: None, ..link },
            KvTransfer { bandwidth_gb_s: Some(0.0), ..link },
        ] {
            assert_eq!(none.delay(5000, 0), Nanos::ZERO);
        }
    }
}
