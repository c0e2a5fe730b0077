//! The binary under the name of `python3`, so that what people type and what manifests name works as it is:
//! `python3 -m dynamo.replay …` is `dynosim replay …`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::failure::Failure;

/// Turns a published command line into the one it stands for; any other stays as it is.
pub(crate) fn translate(arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| name.to_string_lossy().starts_with("python")) {
        return Ok(arguments);
    }
    let module = match arguments.get(1..3) {
        Some([flag, module]) if flag == "-m" => module.to_string_lossy(),
        _ => return Err(Failure::input("this `python3` is dynosim: it takes `-m dynamo.replay` and its flags")),
    };
    match &*module {
        "dynamo.replay" => {
            let own = ["dynosim", "replay"].map(OsStr::new).map(OsString::from);
            Ok(own.into_iter().chain(arguments.into_iter().skip(3)).collect())
        }
        "dynamo.mocker" | "dynamo.frontend" | "dynamo.router" => Err(Failure::input(format_args!(
            "-m {module}: comes with the live graph; this version takes dynamo.replay"
        ))),
        _ => Err(Failure::input(format_args!("-m {module}: not known (allowed: dynamo.replay)"))),
    }
}
