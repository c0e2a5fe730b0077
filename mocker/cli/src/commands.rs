//! One file per command.

pub(crate) mod replay;
pub(crate) mod trace;
