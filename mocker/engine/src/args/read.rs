//! Walks the objects of either form and fills in the settings.

use super::fields::{Action, DYNAMO, ENGINE, FLAT, Field, NESTED_TOP, WORKER};
use super::input::{Input, show, unknown};
use super::{ArgsError, EngineArgs, TimingSettings, check};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The published shapes of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One object (1.0–1.4).
    Flat,
    /// `engine` and `dynamo` objects (1.6), usually completed by a tool that writes every default.
    Nested,
}

/// Settings as far as they were read, before the checks across fields.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) form: Form,
    pub(super) args: EngineArgs,
    pub(super) block_size: Option<u32>,
    pub(super) page_size: Option<u32>,
    pub(super) is_prefill: bool,
    pub(super) is_decode: bool,
    pub(super) profile: Option<TimingSettings>,
    pub(super) nextn: Option<u32>,
    pub(super) accept_rates: Option<Vec<f64>>,
    /// Dotted name as given, by flat name.
    pub(super) paths: BTreeMap<&'static str, String>,
}

impl Draft {
    fn new(form: Form) -> Self {
        Self {
            form,
            args: EngineArgs::default(),
            block_size: None,
            page_size: None,
            is_prefill: false,
            is_decode: false,
            profile: None,
            nextn: None,
            accept_rates: None,
            paths: BTreeMap::new(),
        }
    }

    pub(super) fn was_given(&self, flat: &str) -> bool {
        self.paths.contains_key(flat)
    }

    /// The name an argument was given under, or its flat name.
    pub(super) fn path(&self, flat: &str) -> String {
        self.paths.get(flat).cloned().unwrap_or_else(|| flat.to_string())
    }
}

pub(super) fn from_value(value: &Value) -> Result<EngineArgs, ArgsError> {
    let Some(object) = value.as_object() else {
        return Err(ArgsError::NotAnObject { found: show(value) });
    };
    let nested = ["engine", "dynamo"].iter().any(|key| object.contains_key(*key));
    let (form, tables): (Form, &[&[Field]]) =
        if nested { (Form::Nested, &[WORKER, NESTED_TOP]) } else { (Form::Flat, &[ENGINE, WORKER, DYNAMO, FLAT]) };
    let mut draft = Draft::new(form);
    apply(&mut draft, object, "", tables)?;
    check::finish(draft)
}

/// Reads each value of an object by the fields of `tables`.
pub(super) fn apply(
    draft: &mut Draft,
    object: &Map<String, Value>,
    prefix: &str,
    tables: &[&[Field]],
) -> Result<(), ArgsError> {
    let fields = tables.iter().flat_map(|table| table.iter());
    for (key, value) in object {
        let Some(field) = fields.clone().find(|field| field.name == key) else {
            let names: Vec<&'static str> = fields.map(|field| field.name).collect();
            return Err(unknown(prefix, key, names.iter().copied()));
        };
        let input = Input::new(prefix, key, value);
        match field.action {
            Action::Set(set) => {
                set(draft, &input)?;
                if field.null_counts || !value.is_null() {
                    record(draft, field.flat, input.path)?;
                }
            }
            Action::Later { off, .. } if off.holds(value) => {}
            Action::Later { off, feature } => {
                let (field, found, allowed) = (input.path, show(value), off.allowed());
                return Err(ArgsError::Unsupported { field, found, feature, allowed });
            }
        }
    }
    Ok(())
}

fn record(draft: &mut Draft, flat: &'static str, path: String) -> Result<(), ArgsError> {
    match draft.paths.insert(flat, path.clone()) {
        Some(other) => Err(ArgsError::Together { field: path, other, reason: "they are two names of one argument" }),
        None => Ok(()),
    }
}
