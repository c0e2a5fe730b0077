//! What a container runs: the program and flags behind its command and arguments.

use std::path::Path;

use crate::{Component, ComponentType};

/// A program of the serving graph that this project is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `dynamo.frontend`.
    Frontend,
    /// `dynamo.mocker`.
    Mocker,
}

impl Program {
    /// The sub-command of `dynosim`.
    pub fn command(self) -> &'static str {
        match self {
            Self::Frontend => "frontend",
            Self::Mocker => "mocker",
        }
    }

    /// The published module.
    pub fn module(self) -> &'static str {
        match self {
            Self::Frontend => "dynamo.frontend",
            Self::Mocker => "dynamo.mocker",
        }
    }
}

/// What a container's words stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// A program of ours with its flags.
    Ours(Program, Vec<String>),
    /// Another Python module with its flags.
    Module(String, Vec<String>),
    /// A shell script that is more than one command.
    Script(String),
    /// Something else, in words.
    Words(Vec<String>),
}

impl Invocation {
    /// Reads the words of a command and its arguments.
    pub fn of_words(words: &[String]) -> Self {
        let Some((first, rest)) = words.split_first() else { return Self::Words(Vec::new()) };
        let name = Path::new(first).file_name().unwrap_or_default().to_string_lossy();
        match &*name {
            "sh" | "bash" | "ash" | "dash" => of_shell(words, rest),
            "exec" => Self::of_words(rest),
            "dynosim" => match rest.split_first() {
                Some((command, flags)) if command == "mocker" => Self::Ours(Program::Mocker, flags.to_vec()),
                Some((command, flags)) if command == "frontend" => Self::Ours(Program::Frontend, flags.to_vec()),
                _ => Self::Words(words.to_vec()),
            },
            python if python.starts_with("python") => of_python(words, rest),
            _ => Self::Words(words.to_vec()),
        }
    }

    /// Reads a component's main container, in which `expand` replaces `$(NAME)`. Without a command, frontends and workers
    /// run the program of their type.
    pub fn of_component(component: &Component, expand: impl Fn(&str) -> String) -> Self {
        let words: Vec<_> = component.command.iter().chain(&component.args).map(|word| expand(word)).collect();
        match default_program(&component.component_type) {
            Some(program) if component.command.is_empty() => Self::Ours(program, words),
            _ => Self::of_words(&words),
        }
    }

    /// Is a part of a serving graph, so that it needs to know where the others are.
    pub fn is_dynamo(&self) -> bool {
        match self {
            Self::Ours(..) => true,
            Self::Module(module, _) => module.starts_with("dynamo."),
            Self::Script(script) => script.contains("-m dynamo."),
            Self::Words(_) => false,
        }
    }

    /// In words, for messages.
    pub fn describe(&self) -> String {
        match self {
            Self::Ours(program, _) => program.module().to_owned(),
            Self::Module(module, _) => module.clone(),
            Self::Script(script) => format!("a shell script (`{}`)", shorten(script)),
            Self::Words(words) if words.is_empty() => "nothing".to_owned(),
            Self::Words(words) => format!("`{}`", shorten(&words.join(" "))),
        }
    }
}

/// What the main container of a type runs if it names no command.
pub fn default_program(component_type: &ComponentType) -> Option<Program> {
    match component_type {
        ComponentType::Frontend => Some(Program::Frontend),
        kind if kind.is_worker() => Some(Program::Mocker),
        _ => None,
    }
}

/// `-m module flags…`, perhaps after flags of the interpreter.
fn of_python(words: &[String], rest: &[String]) -> Invocation {
    let foreign = || Invocation::Words(words.to_vec());
    let Some(at) = rest.iter().position(|word| word == "-m") else { return foreign() };
    if !rest[..at].iter().all(|word| word.starts_with('-')) {
        return foreign();
    }
    let flags = rest.get(at + 2..).unwrap_or_default().to_vec();
    match rest.get(at + 1).map(String::as_str) {
        Some("dynamo.mocker") => Invocation::Ours(Program::Mocker, flags),
        Some("dynamo.frontend") => Invocation::Ours(Program::Frontend, flags),
        Some(module) => Invocation::Module(module.to_owned(), flags),
        None => foreign(),
    }
}

/// `-c 'one command'`: a shell for one command is no more than its words.
fn of_shell(words: &[String], rest: &[String]) -> Invocation {
    let foreign = || Invocation::Words(words.to_vec());
    let Some(at) = rest.iter().position(|word| word.starts_with('-') && word.ends_with('c')) else {
        return foreign();
    };
    let Some(script) = rest.get(at + 1) else { return foreign() };
    // Joined lines are still one command; anything else that a shell would act on is not.
    let script = script.replace("\\\n", " ");
    if script.trim().contains(['\n', ';', '|', '&', '<', '>', '`', '$', '*']) {
        return Invocation::Script(script.trim().to_owned());
    }
    match shlex::split(script.trim()) {
        Some(words) => Invocation::of_words(&words),
        None => foreign(),
    }
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut short: String = text.chars().take(SHOWN).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(kind: ComponentType, command: &[&str], args: &[&str]) -> String {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let component = Component {
            name: "a".to_owned(),
            component_type: kind,
            replicas: None,
            global_namespace: false,
            command: list(command),
            args: list(args),
            env: Vec::new(),
            path: "spec".to_owned(),
        };
        match Invocation::of_component(&component, str::to_owned) {
            Invocation::Ours(program, flags) => format!("{} {}", program.command(), flags.join(" ")),
            other => format!("foreign: {}", other.describe()),
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
    fn parts_of_a_serving_graph_are_told_from_other_programs() {
        let of = |text: &str| Invocation::of_words(&shlex::split(text).expect("words"));
        for text in
            ["python3 -m dynamo.router --endpoint a.b.c", "dynosim frontend", "sh -c 'sleep 1; python3 -m dynamo.x'"]
        {
            assert!(of(text).is_dynamo(), "{text}");
        }
        for text in ["nginx", "python3 -m http.server", "sh -c 'echo dynamo.'", ""] {
            assert!(!of(text).is_dynamo(), "{text}");
        }
    }
}
