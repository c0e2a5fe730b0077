//! The help of every command, kept as `docs/cli.md`.

use std::fmt::Write as _;
use std::path::Path;

use crate::golden;
use crate::place::Place;

/// `--help` of a command and of all below it.
fn describe(place: &Place, command: &[&str], page: &mut String) {
    let ran = place.run(&[command, &["--help"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
    let name = [&["dynosim"], command].concat().join(" ");
    // No blanks at the ends of lines, which editors take away.
    let help: Vec<_> = ran.stdout.trim_end().lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n")).expect("a string takes it");
    let listed = help.iter().skip_while(|line| **line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed.filter(|line| !line.starts_with("   ")) {
        let below = line.split_whitespace().next().expect("a name");
        if below != "help" {
            describe(place, &[command, &[below]].concat(), page);
        }
    }
}

#[test]
fn docs_cli_md_holds_the_help_of_every_command() {
    let mut page =
        "# Command line\n\nMade from `--help` of every command by `UPDATE_GOLDEN=1 cargo test -p dynosim help`; \
                    do not edit.\n"
            .to_owned();
    describe(&Place::new(), &[], &mut page);
    assert_eq!(page.matches("\n## ").count(), 10, "{page}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    golden::assert_equal(&file, &page);
}

#[test]
fn without_a_command_the_help_is_shown_and_the_exit_code_is_2() {
    let place = Place::new();
    let (plain, help) = (place.run(&[]), place.run(&["-h"]));
    assert_eq!((plain.code, plain.stdout.as_str()), (Some(2), ""));
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert_eq!(plain.stderr, help.stdout);
}
