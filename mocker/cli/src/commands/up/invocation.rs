//! What a component runs: the program and flags behind a container's command and arguments.

use std::path::Path;

use dynosim_api::{Component, ComponentType};

/// A program of the serving graph that this binary is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `dynamo.frontend`.
    Frontend,
    /// `dynamo.mocker`.
    Mocker,
}

impl Program {
    /// The sub-command of this binary.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Mocker => "mocker",
        }
    }
}

/// What a container's words stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// A program of ours with its flags.
    Ours(Program, Vec<String>),
    /// Something else, in words.
    Foreign(String),
}

/// Reads a component's command and arguments, in which `$(NAME)` was replaced.
pub(crate) fn read(component: &Component, expand: impl Fn(&str) -> String) -> Invocation {
    let words: Vec<_> = component.command.iter().chain(&component.args).map(|word| expand(word)).collect();
    if component.command.is_empty() {
        match &component.component_type {
            ComponentType::Frontend => return Invocation::Ours(Program::Frontend, words),
            kind if kind.is_worker() => return Invocation::Ours(Program::Mocker, words),
            _ => {}
        }
    }
    read_words(&words)
}

fn read_words(words: &[String]) -> Invocation {
    let Some((first, rest)) = words.split_first() else { return Invocation::Foreign("nothing".to_owned()) };
    let name = Path::new(first).file_name().unwrap_or_default().to_string_lossy();
    match &*name {
        "sh" | "bash" | "ash" | "dash" => read_script(words, rest),
        "exec" => read_words(rest),
        "dynosim" => match rest.split_first() {
            Some((command, flags)) if command == "mocker" => Invocation::Ours(Program::Mocker, flags.to_vec()),
            Some((command, flags)) if command == "frontend" => Invocation::Ours(Program::Frontend, flags.to_vec()),
            _ => foreign(words),
        },
        python if python.starts_with("python") => read_module(words, rest),
        _ => foreign(words),
    }
}

/// `-m module flags…`, perhaps after flags of the interpreter.
fn read_module(words: &[String], rest: &[String]) -> Invocation {
    let Some(at) = rest.iter().position(|word| word == "-m") else { return foreign(words) };
    if !rest[..at].iter().all(|word| word.starts_with('-')) {
        return foreign(words);
    }
    let flags = rest.get(at + 2..).unwrap_or_default().to_vec();
    match rest.get(at + 1).map(String::as_str) {
        Some("dynamo.mocker") => Invocation::Ours(Program::Mocker, flags),
        Some("dynamo.frontend") => Invocation::Ours(Program::Frontend, flags),
        Some(module) => Invocation::Foreign(module.to_owned()),
        None => foreign(words),
    }
}

/// `-c 'one command'`: a shell for one command is no more than its words.
fn read_script(words: &[String], rest: &[String]) -> Invocation {
    let Some(at) = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c')) else {
        return foreign(words);
    };
    let Some(script) = rest.get(at + 1) else { return foreign(words) };
    // Joined lines are still one command; anything else that a shell would act on is not.
    let script = script.replace("\\\n", " ");
    if script.trim().contains(['\n', ';', '|', '&', '<', '>', '`', '$', '*']) {
        return Invocation::Foreign(format!("a shell script (`{}`)", shorten(script.trim())));
    }
    match shlex::split(script.trim()) {
        Some(words) => read_words(&words),
        None => foreign(words),
    }
}

fn foreign(words: &[String]) -> Invocation {
    Invocation::Foreign(format!("`{}`", shorten(&words.join(" "))))
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The value of a flag, written `--flag value` or `--flag=value`; the last one counts.
pub(crate) fn value_of<'a>(flags: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (index, word) in flags.iter().enumerate() {
        if word == name {
            found = flags.get(index + 1).map(String::as_str);
        } else if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            found = Some(value);
        }
    }
    found
}

/// Replaces the value of a flag wherever it stands; false if it does not.
pub(crate) fn replace_value(flags: &mut [String], name: &str, value: &str) -> bool {
    let mut replaced = false;
    for index in 0..flags.len() {
        if flags[index] == name && index + 1 < flags.len() {
            value.clone_into(&mut flags[index + 1]);
            replaced = true;
        } else if flags[index].strip_prefix(name).is_some_and(|rest| rest.starts_with('=')) {
            flags[index] = format!("{name}={value}");
            replaced = true;
        }
    }
    replaced
}

/// Takes a flag with its value out, wherever it stands.
pub(crate) fn remove(flags: &mut Vec<String>, name: &str) {
    while let Some(at) = flags.iter().position(|word| word == name) {
        flags.drain(at..(at + 2).min(flags.len()));
    }
    flags.retain(|word| !word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(kind: ComponentType, command: &[&str], args: &[&str]) -> Component {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Component {
            name: "a".to_owned(),
            component_type: kind,
            replicas: None,
            global_namespace: false,
            command: list(command),
            args: list(args),
            env: Vec::new(),
            path: "spec".to_owned(),
        }
    }

    fn read_as(kind: ComponentType, command: &[&str], args: &[&str]) -> String {
        match read(&component(kind, command, args), str::to_owned) {
            Invocation::Ours(program, flags) => format!("{} {}", program.command(), flags.join(" ")),
            Invocation::Foreign(what) => format!("foreign: {what}"),
        }
    }

    #[test]
    fn published_ways_to_start_a_component_are_understood() {
        use ComponentType::{Decode, Frontend, Other, Planner};
        let other = || Other(String::new());
        let rows: [(ComponentType, &[&str], &[&str], &str); 11] = [
            (Frontend, &[], &[], "frontend "),
            (Decode, &[], &["--model-path", "m"], "mocker --model-path m"),
            (Decode, &["python3", "-m", "dynamo.mocker"], &["--x=1"], "mocker --x=1"),
            (other(), &["/usr/bin/python3.11", "-u", "-m", "dynamo.frontend"], &["-a"], "frontend -a"),
            (
                Decode,
                &["/bin/sh", "-c"],
                &["python3 -m dynamo.mocker \\\n --model-path 'a b'"],
                "mocker --model-path a b",
            ),
            (Decode, &["bash", "-lc"], &["exec python3 -m dynamo.mocker"], "mocker "),
            (Decode, &["dynosim", "mocker", "--x"], &[], "mocker --x"),
            (
                Decode,
                &["sh", "-c"],
                &["sleep 1; python3 -m dynamo.mocker"],
                "foreign: a shell script (`sleep 1; python3 -m dynamo.mocker`)",
            ),
            (Planner, &["python3", "-m", "dynamo.planner"], &[], "foreign: dynamo.planner"),
            (
                Decode,
                &["python3", "serve.py", "-m", "dynamo.mocker"],
                &[],
                "foreign: `python3 serve.py -m dynamo.mocker`",
            ),
            (other(), &[], &[], "foreign: nothing"),
        ];
        for (kind, command, args, expected) in rows {
            assert_eq!(read_as(kind, command, args), expected, "{command:?} {args:?}");
        }
    }

    #[test]
    fn flags_are_found_replaced_and_removed_in_both_spellings() {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut flags = list("--a 1 --bc 2 --b=3 --b 4");
        assert_eq!(value_of(&flags, "--b"), Some("4"));
        assert_eq!(value_of(&flags, "--bc"), Some("2"));
        assert_eq!(value_of(&flags, "--c"), None);
        assert!(replace_value(&mut flags, "--b", "5"));
        assert!(!replace_value(&mut flags, "--c", "5"));
        assert_eq!(flags.join(" "), "--a 1 --bc 2 --b=5 --b 5");
        remove(&mut flags, "--b");
        assert_eq!(flags.join(" "), "--a 1 --bc 2");
    }
}
