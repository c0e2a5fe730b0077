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
fn other_modules_and_scripts_are_refused_in_a_sentence() {
    let later = "comes with the live graph; this version takes dynamo.replay";
    for (args, message) in [
        (&["-m", "dynamo.mocker", "--model-path", "x"][..], format!("-m dynamo.mocker: {later}")),
        (&["-m", "dynamo.frontend"], format!("-m dynamo.frontend: {later}")),
        (&["-m", "dynamo.planner"], "-m dynamo.planner: not known (allowed: dynamo.replay)".to_owned()),
        (&["script.py"], "this `python3` is dynosim: it takes `-m dynamo.replay` and its flags".to_owned()),
        (&[], "this `python3` is dynosim: it takes `-m dynamo.replay` and its flags".to_owned()),
    ] {
        let ran = python(&Place::new(), args);
        assert_eq!((ran.code, ran.stderr), (Some(2), format!("error: {message}\n")), "{args:?}");
    }
}
