//! `dynosim up`: a serving graph from its manifest, on this machine.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

mod plan;
mod ports;
mod processes;
mod tasks;
mod then;
mod words;

pub(crate) use self::plan::Part;
pub(crate) use self::words::read_flags;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use dynosim_api::Manifest;
use dynosim_api::manifest::Resource;

use self::plan::{Plan, Settings};
use crate::failure::Failure;
use crate::printer::{Printer, Verbosity};

/// Run the serving graphs of a manifest on this machine
///
/// Reads DynamoGraphDeployment manifests (nvidia.com/v1beta1 and v1alpha1) and runs their frontends and mocker workers
/// as tasks of this process: no cluster, etcd, NATS, Python or GPU. Discovery, namespaces, bootstrap ports, ranks and
/// the stagger of many replicas are wired as the operator does it. Ctrl-C lets running requests end, a second one stops
/// at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Manifest, `-` for standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Run each replica as a process of its own that finds the others through files
    #[arg(long)]
    processes: bool,
    /// Address that frontends listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    http_host: std::net::IpAddr,
    /// Port of the first frontend; further ones count on. 0: any
    #[arg(long, default_value_t = 8000)]
    http_port: u16,
    /// Replicas of a component, instead of the manifest's
    #[arg(long, value_name = "COMPONENT=N", value_parser = replicas)]
    replicas: Vec<(String, u32)>,
    /// Print errors only
    #[arg(short, long)]
    quiet: bool,
    /// Command that runs once everything is ready, with DYNOSIM_URL in its environment; when it has ended, so does all
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "processes")]
    then: Vec<OsString>,
}

fn replicas(text: &str) -> Result<(String, u32), String> {
    let read = || {
        let (name, count) = text.split_once('=')?;
        Some((name.to_owned(), count.parse().ok()?)).filter(|(name, _)| !name.is_empty())
    };
    read().ok_or_else(|| "allowed: COMPONENT=N, N a whole number".to_owned())
}

/// Runs until told to stop.
pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let printer = Printer(if flags.quiet { Verbosity::Quiet } else { Verbosity::Normal });
    let plan = plan(flags)?;
    for note in &plan.notes {
        printer.note(note);
    }
    if flags.processes { processes::run(&plan, printer) } else { tasks::run(plan, &flags.then, printer) }
}

fn plan(flags: &Flags) -> Result<Plan, Failure> {
    let settings = Settings {
        http_host: flags.http_host.to_string(),
        http_port: flags.http_port,
        replicas: flags.replicas.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    plan_files(&flags.files, &settings)
}

/// The parts of the one graph in a manifest, for whom no network matters.
pub(crate) fn planned(file: &Path) -> Result<Plan, Failure> {
    let settings = Settings { http_host: "127.0.0.1".to_owned(), http_port: 0, replicas: BTreeMap::new() };
    plan_files(&[file.to_owned()], &settings)
}

fn plan_files(files: &[PathBuf], settings: &Settings) -> Result<Plan, Failure> {
    let mut graphs = Vec::new();
    let mut notes = Vec::new();
    for file in files {
        let manifest = read(file)?;
        graphs.extend(manifest.graphs.iter().map(Resource::graph));
        notes.extend(manifest.others.iter().map(|other| format!("{other}: left out, only a cluster has use for it")));
    }
    if graphs.is_empty() {
        return Err(Failure::input("the manifest has no DynamoGraphDeployment"));
    }
    let mut plan = plan::plan(&graphs, settings)?;
    notes.append(&mut plan.notes);
    plan.notes = notes;
    Ok(plan)
}

fn read(file: &Path) -> Result<Manifest, Failure> {
    let name = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin().lock())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => Failure::input(format_args!("{name}: not UTF-8")),
        _ => Failure::io(format_args!("{name}: {error}")),
    })?;
    Manifest::read(&text).map_err(|error| Failure::input(format_args!("{name}: {error}")))
}
