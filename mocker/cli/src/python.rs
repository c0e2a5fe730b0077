//! The binary under the name of `python3`, so that what people type and what manifests name works as it is:
//! `python3 -m dynamo.replay …` is `dynosim replay …`, and likewise `dynamo.mocker` and `dynamo.frontend`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::failure::Failure;

/// Turns a published command line into the one it stands for; any other stays as it is.
pub(crate) fn translate(arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let name = arguments.first().and_then(|program| Path::new(program).file_name());
    if !name.is_some_and(|name| name.to_string_lossy().starts_with("python")) {
        return Ok(arguments);
    }
    // Images start it with flags of the interpreter (`python3 -u -m …`), which change nothing here.
    let flags = arguments.iter().skip(1).take_while(|word| *word == "-u" || *word == "-O" || *word == "-B").count();
    let module = match arguments.get(1 + flags..3 + flags) {
        Some([flag, module]) if flag == "-m" => module.to_string_lossy(),
        _ => {
            return Err(Failure::input(
                "this `python3` is dynosim: it takes `-m dynamo.mocker`, `-m dynamo.frontend` or `-m dynamo.replay`, and \
                 their flags",
            ));
        }
    };
    let command = match &*module {
        "dynamo.replay" => "replay",
        "dynamo.mocker" => "mocker",
        "dynamo.frontend" => "frontend",
        "dynamo.router" => {
            return Err(Failure::input(format_args!(
                "-m {module}: a router of its own comes later, the frontend routes by KV caches; this version takes dynamo.mocker, dynamo.frontend and dynamo.replay"
            )));
        }
        _ => {
            return Err(Failure::input(format_args!(
                "-m {module}: not known (allowed: dynamo.mocker, dynamo.frontend, dynamo.replay)"
            )));
        }
    };
    let own = ["dynosim", command].map(OsStr::new).map(OsString::from);
    Ok(own.into_iter().chain(arguments.into_iter().skip(3 + flags)).collect())
}
