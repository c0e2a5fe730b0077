//! Report files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use dynosim_replay::Outcome;

use super::flags::Flags;
use crate::failure::Failure;

/// Fails if the files surely cannot be written, so that nobody waits for a run in vain.
pub(crate) fn check(flags: &Flags) -> Result<(), Failure> {
    let (report, rows) = (flags.report_json.as_deref(), flags.report_jsonl.as_deref());
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

/// Writes the report, and the rows per request if wanted; tells where the report is.
pub(crate) fn write(flags: &Flags, outcome: &Outcome, wall_time_ms: f64) -> Result<PathBuf, Failure> {
    let path = report_path(flags.report_json.as_deref());
    let mut text = serde_json::to_string_pretty(&outcome.report.to_json(wall_time_ms)).map_err(Failure::bug)?;
    text.push('\n');
    std::fs::write(&path, text).map_err(|error| failed(&path, &error))?;
    if let (Some(path), Some(records)) = (&flags.report_jsonl, &outcome.records) {
        let mut file = BufWriter::new(File::create(path).map_err(|error| failed(path, &error))?);
        for record in records {
            serde_json::to_writer(&mut file, record).map_err(|error| failed(path, &error.into()))?;
            file.write_all(b"\n").map_err(|error| failed(path, &error))?;
        }
        file.flush().map_err(|error| failed(path, &error))?;
    }
    Ok(path)
}

fn report_path(given: Option<&Path>) -> PathBuf {
    match given {
        Some(path) if !path.is_dir() => path.to_owned(),
        Some(folder) => folder.join(dated_name()),
        None => dated_name(),
    }
}

fn dated_name() -> PathBuf {
    PathBuf::from(jiff::Zoned::now().strftime("dynamo_replay_report_%Y%m%d_%H%M%S.json").to_string())
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::io(format_args!("{}: {error}", path.display()))
}
