//! The published trace formats.

use std::fmt;
use std::str::FromStr;

use crate::error::OptionError;

/// A trace format, named as on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceFormat {
    /// One request per line; a follow-up turn repeats the whole context.
    #[default]
    Mooncake,
    /// Mooncake rows whose follow-up turns hold only the new input.
    MooncakeDelta,
    /// Mooncake rows with dependencies between requests.
    AgenticMooncake,
    /// One agent session per line, lengths only.
    AppliedComputeAgentic,
    /// Request traces written by Dynamo.
    Dynamo,
    /// CSV of the Azure LLM inference traces of 2023: time, prompt and output length.
    Azure,
}

impl TraceFormat {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Mooncake,
        Self::MooncakeDelta,
        Self::AgenticMooncake,
        Self::AppliedComputeAgentic,
        Self::Dynamo,
        Self::Azure,
    ];

    /// The published name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::MooncakeDelta => "mooncake-delta",
            Self::AgenticMooncake => "agentic_mooncake",
            Self::AppliedComputeAgentic => "applied_compute_agentic",
            Self::Dynamo => "dynamo",
            Self::Azure => "azure",
        }
    }

    /// Whether rows have hash ids that stand for a number of tokens that the file does not tell.
    pub fn has_hash_ids(self) -> bool {
        !matches!(self, Self::Azure)
    }

    /// Whether requests may wait for requests of other sessions.
    pub fn is_graph(self) -> bool {
        matches!(self, Self::AgenticMooncake | Self::Dynamo)
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = OptionError;

    /// Takes the published name; `-` and `_` are the same.
    fn from_str(text: &str) -> Result<Self, OptionError> {
        let plain = text.replace('-', "_");
        let found = Self::ALL.into_iter().find(|format| format.name().replace('-', "_") == plain);
        found.ok_or_else(|| OptionError {
            name: "trace_format",
            value: format!("`{text}`"),
            allowed: "mooncake, mooncake-delta, agentic_mooncake, applied_compute_agentic, dynamo, azure",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for format in TraceFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert_eq!("agentic-mooncake".parse(), Ok(TraceFormat::AgenticMooncake));
        let error = "weka".parse::<TraceFormat>().unwrap_err().to_string();
        assert!(error.starts_with("trace_format: `weka` is out of range (allowed: mooncake, "), "{error}");
    }
}
