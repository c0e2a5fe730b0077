//! The binary under the name of `python3`, as images and manifests of the published mocker call it.

use std::os::unix::process::CommandExt;

use crate::place::{Place, Ran, dynosim};
use crate::refused::SMALL;

fn python(place: &Place, args: &[&str]) -> Ran {
    let mut command = dynosim();
    command.arg0("/usr/bin/python3").args(args);
    place.run_command(command)
}

#[test]
fn the_published_replay_command_is_ours() {
    let place = Place::new();
    let args = [&["-m", "dynamo.replay"], &SMALL[..], &["--report-json", "report.json"]].concat();
    let ran = python(&place, &args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert!(ran.stdout.ends_with("Saved full report to: report.json\n"));
    assert!(place.path("report.json").exists());
}

#[test]
fn the_published_live_commands_are_ours() {
    for (module, command) in [("dynamo.mocker", "mocker"), ("dynamo.frontend", "frontend")] {
        for flags in [&["-m", module, "--help"][..], &["-u", "-m", module, "--help"]] {
            let ran = python(&Place::new(), flags);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            assert!(ran.stdout.contains(&format!("Usage: dynosim {command}")), "{}", ran.stdout);
        }
    }
}

#[test]
fn other_modules_and_scripts_are_refused_in_a_sentence() {
    let known = "dynamo.mocker, dynamo.frontend";
    let usage =
        "this `python3` is dynosim: it takes `-m dynamo.mocker`, `-m dynamo.frontend` or `-m dynamo.replay`, and \
                 their flags"
            .to_owned();
    for (args, message) in [
        (
            &["-m", "dynamo.router", "--endpoint", "x"][..],
            format!(
                "-m dynamo.router: a router of its own comes later, the frontend routes by KV caches; this version takes {known} and dynamo.replay"
            ),
        ),
        (&["-m", "dynamo.planner"], format!("-m dynamo.planner: not known (allowed: {known}, dynamo.replay)")),
        (&["script.py"], usage.clone()),
        (&["-u", "script.py"], usage.clone()),
        (&[], usage),
    ] {
        let ran = python(&Place::new(), args);
        assert_eq!((ran.code, ran.stderr), (Some(2), format!("error: {message}\n")), "{args:?}");
    }
}
