//! Report files.
#![allow(clippy::doc_markdown, reason = "doc comments are help texts here")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use dynosim_replay::Outcome;

use crate::failure::Failure;

/// Report files
#[derive(Debug, Args)]
pub(crate) struct OutputFlags {
    /// Report file, or a folder for it [default: a name with the time, in this folder]
    #[arg(long, value_name = "PATH", help_heading = "Output")]
    pub(crate) report_json: Option<PathBuf>,
    /// File for one row per request
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) report_jsonl: Option<PathBuf>,
}

impl OutputFlags {
    /// Fails if the files surely cannot be written, so that nobody waits for a run in vain.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let (report, rows) = (self.report_json.as_deref(), self.report_jsonl.as_deref());
        if report.is_some() && report == rows {
            return Err(Failure::input("--report-json and --report-jsonl name the same file"));
        }
        for path in [report, rows].into_iter().flatten() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            // The dot fails for what is no folder.
            std::fs::metadata(folder.join(".")).map_err(|error| failed(path, &error))?;
        }
        match rows {
            Some(rows) if rows.is_dir() => Err(failed(rows, &std::io::ErrorKind::IsADirectory.into())),
            _ => Ok(()),
        }
    }

    /// Writes the report, and the rows per request if wanted; tells where the report is. Without a path its name is
    /// `name` and the time.
    pub(crate) fn write(&self, name: &str, outcome: &Outcome, wall_time_ms: f64) -> Result<PathBuf, Failure> {
        let path = report_path(self.report_json.as_deref(), name);
        let mut text = serde_json::to_string_pretty(&outcome.report.to_json(wall_time_ms)).map_err(Failure::bug)?;
        text.push('\n');
        std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
        if let (Some(path), Some(records)) = (&self.report_jsonl, &outcome.records) {
            let mut file = BufWriter::new(File::create(path).map_err(|error| failed(path, &error))?);
            for record in records {
                serde_json::to_writer(&mut file, record).map_err(|error| failed(path, &error.into()))?;
                file.write_all(b"\n").map_err(|error| failed(path, &error))?;
            }
            file.flush().map_err(|error| failed(path, &error))?;
        }
        Ok(path)
    }
}

fn report_path(given: Option<&Path>, name: &str) -> PathBuf {
    match given {
        Some(path) if !path.is_dir() => path.to_owned(),
        Some(folder) => folder.join(dated_name(name)),
        None => dated_name(name),
    }
}

fn dated_name(name: &str) -> PathBuf {
    PathBuf::from(format!("{name}_{}.json", jiff::Zoned::now().strftime("%Y%m%d_%H%M%S")))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("{}: {error}", path.display()))
}
