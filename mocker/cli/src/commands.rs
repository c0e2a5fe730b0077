//! One file per command.

pub(crate) mod frontend;
pub(crate) mod load;
pub(crate) mod mocker;
pub(crate) mod replay;
mod run;
pub(crate) mod trace;
pub(crate) mod up;
