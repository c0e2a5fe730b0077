//! One JSON value with the name it was given under, and typed ways to read it.

use super::ArgsError;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The longest part of a wrong value that a message repeats, in characters.
const SHOWN_MAX: usize = 60;
/// The longest duration of a timing model: eleven days. The clock ends after 584 years.
const DURATION_MAX_MS: f64 = 1e9;

/// A value and its dotted name.
#[derive(Clone, Debug)]
pub(super) struct Input<'a> {
    pub(super) path: String,
    pub(super) value: &'a Value,
}

impl<'a> Input<'a> {
    /// `prefix` is empty or ends with a dot.
    pub(super) fn new(prefix: &str, key: &str, value: &'a Value) -> Self {
        Self { path: format!("{prefix}{key}"), value }
    }

    pub(super) fn invalid(&self, allowed: impl Into<String>) -> ArgsError {
        ArgsError::Invalid { field: self.path.clone(), found: show(self.value), allowed: allowed.into() }
    }

    /// Null is nothing.
    pub(super) fn optional<T>(&self, read: impl FnOnce(&Self) -> Result<T, ArgsError>) -> Result<Option<T>, ArgsError> {
        if self.value.is_null() { Ok(None) } else { read(self).map(Some) }
    }

    pub(super) fn bool(&self) -> Result<bool, ArgsError> {
        self.value.as_bool().ok_or_else(|| self.invalid("true or false"))
    }

    fn whole(&self, min: u64, max: u64) -> Result<u64, ArgsError> {
        match self.value.as_u64() {
            Some(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.invalid(format!("a whole number from {min} to {max}"))),
        }
    }

    pub(super) fn u16(&self, min: u16) -> Result<u16, ArgsError> {
        self.whole(min.into(), u16::MAX.into()).map(|number| number as u16)
    }

    pub(super) fn u32(&self, min: u32) -> Result<u32, ArgsError> {
        self.u32_in(min, u32::MAX)
    }

    pub(super) fn u32_in(&self, min: u32, max: u32) -> Result<u32, ArgsError> {
        self.whole(min.into(), max.into()).map(|number| number as u32)
    }

    pub(super) fn u64(&self, min: u64) -> Result<u64, ArgsError> {
        self.whole(min, u64::MAX)
    }

    /// A number of at least 0. JSON has no infinities.
    pub(super) fn not_negative(&self) -> Result<f64, ArgsError> {
        match self.value.as_f64() {
            Some(number) if number >= 0.0 => Ok(number),
            _ => Err(self.invalid("a number of at least 0")),
        }
    }

    /// Milliseconds of simulated time. More would soon lead to the end of the clock, where it stands still.
    pub(super) fn duration_ms(&self) -> Result<f64, ArgsError> {
        match self.value.as_f64() {
            Some(number) if (0.0..=DURATION_MAX_MS).contains(&number) => Ok(number),
            _ => Err(self.invalid(format!("a number from 0 to {DURATION_MAX_MS}"))),
        }
    }

    /// A number from 0 to 1.
    pub(super) fn share(&self) -> Result<f64, ArgsError> {
        match self.value.as_f64() {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
            _ => Err(self.invalid("a number from 0 to 1")),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, ArgsError> {
        match self.value.as_str() {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(self.invalid("a text that is not empty")),
        }
    }

    pub(super) fn file(&self) -> Result<PathBuf, ArgsError> {
        match self.value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.into()),
            _ => Err(self.invalid("a path")),
        }
    }

    /// One of some words, in any case.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ArgsError> {
        let text = self.value.as_str().unwrap_or_default();
        match choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
            Some(&(_, choice)) => Ok(choice),
            None => Err(self.invalid(list(choices.iter().map(|&(name, _)| format!("{name:?}"))))),
        }
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, ArgsError> {
        self.value.as_object().ok_or_else(|| self.invalid("an object"))
    }

    /// A value inside an object that must be there.
    pub(super) fn member(&self, key: &str) -> Result<Input<'a>, ArgsError> {
        let prefix = format!("{}.", self.path);
        match self.object()?.get(key) {
            Some(value) => Ok(Input::new(&prefix, key, value)),
            None => Err(ArgsError::Invalid {
                field: format!("{prefix}{key}"),
                found: "missing".to_string(),
                allowed: format!("a value, since `{}` is given", self.path),
            }),
        }
    }

    /// Refuses all keys of an object but these.
    pub(super) fn only(&self, keys: &[&'static str]) -> Result<(), ArgsError> {
        match self.object()?.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(unknown(&format!("{}.", self.path), key, keys.iter().copied())),
            None => Ok(()),
        }
    }
}

/// Compact JSON, cut if long.
pub(super) fn show(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// An error for a key that is none of `names`, with the most similar one if any is near.
pub(super) fn unknown(prefix: &str, key: &str, names: impl Iterator<Item = &'static str> + Clone) -> ArgsError {
    let near = names
        .clone()
        .map(|name| (distance(key, name), name))
        .filter(|&(distance, name)| distance <= 2 && distance < name.len())
        .min();
    let hint = match near {
        Some((_, name)) => format!("did you mean `{prefix}{name}`?"),
        None => format!("allowed: {}", list(names.map(str::to_string))),
    };
    let shown = if key.chars().count() > SHOWN_MAX {
        key.chars().take(SHOWN_MAX).chain(['…']).collect()
    } else {
        key.to_string()
    };
    ArgsError::Unknown { field: format!("{prefix}{shown}"), hint }
}

/// Levenshtein distance; anything much longer than an argument's name is just far.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > SHOWN_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[row.len() - 1]
}
