//! Finding and reading profiles.
//!
//! A path may name a mocker `.npz`, a profiler folder (`selected_*_interpolation/raw_data.npz`), an older folder
//! (`*_raw_data.json`) or, if nothing is there, the built-in profile. The caller passes the function that reads files,
//! usually `std::fs::read`.

use super::TimingModel;
use super::builtin::{H200, H200_NAME};
use super::interpolated::{Interpolated, TableError, Tables};
use super::npz::{Array, Npz, NpzError};
use super::regression::{FitError, Samples};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a profile cannot be used. Every message names the file or folder.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Nothing is at the path.
    #[error(
        "profile `{path}` does not exist; allowed: a mocker .npz file, a profiler folder with \
         selected_prefill_interpolation/raw_data.npz and selected_decode_interpolation/raw_data.npz, a folder with \
         prefill_raw_data.json and decode_raw_data.json, or the built-in `{H200_NAME}`"
    )]
    Missing {
        /// The path.
        path: PathBuf,
    },
    /// A folder without the expected files.
    #[error(
        "profile folder `{path}` has neither selected_prefill_interpolation/raw_data.npz with \
         selected_decode_interpolation/raw_data.npz nor prefill_raw_data.json with decode_raw_data.json"
    )]
    Unrecognised {
        /// The folder.
        path: PathBuf,
    },
    /// One of two files that belong together is missing.
    #[error("profile file `{missing}` is missing beside `{present}`")]
    Half {
        /// The file that is missing.
        missing: PathBuf,
        /// The one that is there.
        present: PathBuf,
    },
    /// A file cannot be read; the source says why.
    #[error("profile file `{path}` cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file was read and its content is wrong.
    #[error("profile `{path}`: {problem}")]
    Content {
        /// The file, or the folder if both files together are wrong.
        path: PathBuf,
        /// What is wrong.
        problem: ContentError,
    },
}

/// What is wrong with the content of a profile.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ContentError {
    /// The archive or an array in it cannot be read.
    #[error(transparent)]
    Npz(#[from] NpzError),
    /// The JSON text or a list in it cannot be read.
    #[error("{0}")]
    Json(String),
    /// An array has the wrong number of dimensions.
    #[error("array `{array}` has shape {found:?}; allowed: {allowed}")]
    Shape {
        /// Array name.
        array: String,
        /// Its shape.
        found: Vec<usize>,
        /// What would be valid.
        allowed: &'static str,
    },
    /// The tables do not fit together.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The samples cannot be fitted.
    #[error(transparent)]
    Fit(#[from] FitError),
}

/// Reads a file whole.
pub type ReadFile<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// Loads the profile at `path`, reading files with `read`.
pub fn load(path: &Path, read: ReadFile<'_>) -> Result<TimingModel, ProfileError> {
    let content = |problem| ProfileError::Content { path: path.to_path_buf(), problem };
    let error = match read(path) {
        Ok(bytes) => return mocker_npz(&bytes).map(TimingModel::Interpolated).map_err(content),
        Err(error) => error,
    };
    for layout in [Layout::Npz, Layout::Json] {
        if let Some(samples) = samples(path, layout, read)? {
            let fit = samples.fit().map_err(|problem| content(problem.into()))?;
            return fit.tables().map(TimingModel::Interpolated).map_err(|problem| content(problem.into()));
        }
    }
    let path = path.to_path_buf();
    match error.kind() {
        _ if is_absent(&error) && path.file_name().is_some_and(|name| name == H200_NAME) => {
            H200.tables().map(TimingModel::Interpolated).map_err(|problem| content(problem.into()))
        }
        _ if is_absent(&error) => Err(ProfileError::Missing { path }),
        io::ErrorKind::IsADirectory => Err(ProfileError::Unrecognised { path }),
        _ => Err(ProfileError::Read { path, source: error }),
    }
}

/// Reads the tables of a mocker `.npz` file.
pub fn mocker_npz(bytes: &[u8]) -> Result<Interpolated, ContentError> {
    let mut archive = Npz::open(bytes)?;
    let mut get = |name: &str| archive.array(name).map_err(ContentError::from);
    let prefill_isl = vector("prefill_isl", &mut get)?;
    let prefill_ttft_ms = vector("prefill_ttft_ms", &mut get)?;
    let decode_active_kv_tokens = vector("decode_active_kv_tokens", &mut get)?;
    let decode_context_length = vector("decode_context_length", &mut get)?;
    let itl = get("decode_itl")?;
    let expected = [decode_active_kv_tokens.len(), decode_context_length.len()];
    if itl.shape != expected {
        let (found, expected) = (format!("{:?}", itl.shape), format!("{expected:?}"));
        return Err(TableError::Shape { array: "decode_itl", found, expected }.into());
    }
    let decode_itl = itl.values;
    let tables = Tables { prefill_isl, prefill_ttft_ms, decode_active_kv_tokens, decode_context_length, decode_itl };
    Ok(Interpolated::new(tables)?)
}

/// The two kinds of sample folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `selected_prefill_interpolation/raw_data.npz` and `selected_decode_interpolation/raw_data.npz`.
    Npz,
    /// `prefill_raw_data.json` and `decode_raw_data.json`.
    Json,
}

impl Layout {
    /// Prefill and decode file, relative to the folder.
    fn files(self) -> [&'static str; 2] {
        match self {
            Self::Npz => ["selected_prefill_interpolation/raw_data.npz", "selected_decode_interpolation/raw_data.npz"],
            Self::Json => ["prefill_raw_data.json", "decode_raw_data.json"],
        }
    }
}

/// Reads the samples of a folder; nothing if it has no files of this layout.
pub fn samples(folder: &Path, layout: Layout, read: ReadFile<'_>) -> Result<Option<Samples>, ProfileError> {
    let [prefill_path, decode_path] = layout.files().map(|file| folder.join(file));
    let (prefill, decode) = match (optional(&prefill_path, read)?, optional(&decode_path, read)?) {
        (Some(prefill), Some(decode)) => (prefill, decode),
        (None, None) => return Ok(None),
        (None, Some(_)) => return Err(ProfileError::Half { missing: prefill_path, present: decode_path }),
        (Some(_), None) => return Err(ProfileError::Half { missing: decode_path, present: prefill_path }),
    };
    let mut samples = Samples::default();
    with_arrays(layout, &prefill, |get| {
        samples.prefill_isl = vector("prefill_isl", get)?;
        samples.prefill_ttft = vector("prefill_ttft", get)?;
        Ok(())
    })
    .map_err(|problem| ProfileError::Content { path: prefill_path, problem })?;
    with_arrays(layout, &decode, |get| {
        samples.x_kv_usage = vector("x_kv_usage", get)?;
        samples.y_context_length = vector("y_context_length", get)?;
        samples.z_itl = vector("z_itl", get)?;
        samples.max_kv_tokens = scalar("max_kv_tokens", get)?;
        Ok(())
    })
    .map_err(|problem| ProfileError::Content { path: decode_path, problem })?;
    Ok(Some(samples))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn optional(path: &Path, read: ReadFile<'_>) -> Result<Option<Vec<u8>>, ProfileError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(source) => Err(ProfileError::Read { path: path.to_path_buf(), source }),
    }
}

/// Finds an array by name.
type GetArray<'a> = dyn FnMut(&str) -> Result<Array, ContentError> + 'a;

/// Opens a file of samples and hands out its arrays.
fn with_arrays(
    layout: Layout,
    bytes: &[u8],
    use_arrays: impl FnOnce(&mut GetArray<'_>) -> Result<(), ContentError>,
) -> Result<(), ContentError> {
    match layout {
        Layout::Npz => {
            let mut archive = Npz::open(bytes)?;
            use_arrays(&mut |name| Ok(archive.array(name)?))
        }
        Layout::Json => {
            let value: serde_json::Value =
                serde_json::from_slice(bytes).map_err(|error| ContentError::Json(format!("not JSON: {error}")))?;
            use_arrays(&mut |name| json_array(&value, name))
        }
    }
}

fn json_array(object: &serde_json::Value, name: &str) -> Result<Array, ContentError> {
    let refuse = |what: &str| ContentError::Json(format!("`{name}` is {what}; allowed: a number or a list of numbers"));
    match object.get(name).ok_or_else(|| refuse("missing"))? {
        serde_json::Value::Array(items) => {
            let values: Option<Vec<f64>> = items.iter().map(serde_json::Value::as_f64).collect();
            let values = values.ok_or_else(|| refuse("a list with something else than numbers"))?;
            Ok(Array { shape: vec![values.len()], values })
        }
        value => {
            let number = value.as_f64().ok_or_else(|| refuse("no number"))?;
            Ok(Array { shape: vec![], values: vec![number] })
        }
    }
}

fn vector(name: &str, get: &mut GetArray<'_>) -> Result<Vec<f64>, ContentError> {
    let Array { shape, values } = get(name)?;
    if shape.len() == 1 {
        return Ok(values);
    }
    Err(ContentError::Shape { array: name.to_string(), found: shape, allowed: "one dimension" })
}

fn scalar(name: &str, get: &mut GetArray<'_>) -> Result<f64, ContentError> {
    let Array { shape, values } = get(name)?;
    match values[..] {
        [value] => Ok(value),
        _ => Err(ContentError::Shape { array: name.to_string(), found: shape, allowed: "one number" }),
    }
}

#[cfg(test)]
mod tests;
