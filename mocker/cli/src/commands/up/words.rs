//! The flags of a part.

use clap::{CommandFactory, FromArgMatches, Parser};

use super::plan::Part;
use crate::failure::Failure;

/// Reads the flags of a command without its name before them.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Bare<F: clap::Args> {
    #[command(flatten)]
    flags: F,
}

/// Reads the flags of a part as its program would.
pub(crate) fn read_flags<F: clap::Args>(part: &Part) -> Result<F, Failure> {
    let matches = Bare::<F>::command().try_get_matches_from(&part.flags);
    let bare = matches.and_then(|matches| Bare::<F>::from_arg_matches(&matches)).map_err(|error| {
        let text = error.to_string();
        let text = text.trim_start_matches("error: ");
        let first = text.split("\n\n").next().unwrap_or(text);
        Failure::input(format_args!("{}: {}", part.label, first.trim_end()))
    })?;
    Ok(bare.flags)
}
