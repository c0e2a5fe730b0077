//! The fields of a Mooncake row: names, types, ranges and how they fit together.

use std::borrow::Cow;

use dynosim_engine::Nanos;

use super::scalar::Scalar;
use crate::error::RowError;
use crate::row::{Excess, MAX_TIME_MS, Row, RowRules, check_total, checked_length};

/// What a field means; several have two names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Timestamp,
    Delay,
    Input,
    Output,
    HashIds,
    OutputIds,
    Session,
    Request,
    Priority,
    StrictPriority,
    PolicyClass,
}

const FIELDS: usize = 11;

/// Looks a key up: its meaning and its name as a constant, for messages.
pub(super) fn field_of(key: &str) -> Option<(Field, &'static str)> {
    Some(match key {
        "timestamp" => (Field::Timestamp, "timestamp"),
        "created_time" => (Field::Timestamp, "created_time"),
        "delay" => (Field::Delay, "delay"),
        "delay_ms" => (Field::Delay, "delay_ms"),
        "input_length" => (Field::Input, "input_length"),
        "input_tokens" => (Field::Input, "input_tokens"),
        "output_length" => (Field::Output, "output_length"),
        "output_tokens" => (Field::Output, "output_tokens"),
        "hash_ids" => (Field::HashIds, "hash_ids"),
        "output_token_ids" => (Field::OutputIds, "output_token_ids"),
        "session_id" => (Field::Session, "session_id"),
        "request_id" => (Field::Request, "request_id"),
        "priority" => (Field::Priority, "priority"),
        "strict_priority" => (Field::StrictPriority, "strict_priority"),
        "policy_class" => (Field::PolicyClass, "policy_class"),
        _ => return None,
    })
}

/// What has been read of a row so far.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    /// The name each field was given under.
    given: [Option<&'static str>; FIELDS],
    /// Everything but the lengths, which are checked at the end.
    row: Row<'a>,
    input: Option<u32>,
    output: Option<u32>,
    output_ids: usize,
}

impl<'a> Fields<'a> {
    /// Notes that a field is there.
    pub(super) fn mark(&mut self, field: Field, name: &'static str) -> Result<(), RowError> {
        match self.given[field as usize].replace(name) {
            Some(other) => Err(RowError::Twice { field: name, other }),
            None => Ok(()),
        }
    }

    /// Notes how many output token ids there are.
    pub(super) fn set_output_ids(&mut self, count: usize) {
        self.output_ids = count;
    }

    /// Stores a value that is no list.
    pub(super) fn set(&mut self, field: Field, name: &'static str, value: Scalar<'a>) -> Result<(), RowError> {
        if value == Scalar::Null {
            return Ok(());
        }
        self.mark(field, name)?;
        match field {
            Field::Timestamp => self.row.timestamp = Some(time(name, &value)?),
            Field::Delay => self.row.delay = Some(time(name, &value)?),
            Field::Input => self.input = Some(length(name, &value)?),
            Field::Output => self.output = Some(length(name, &value)?),
            Field::Session => self.row.session_id = Some(text(name, value)?),
            Field::Request => self.row.request_id = Some(text(name, value)?),
            Field::PolicyClass => self.row.policy_class = Some(text(name, value)?),
            Field::Priority => self.row.priority = signed(name, &value)?,
            Field::StrictPriority => self.row.strict_priority = unsigned(name, &value)?,
            Field::HashIds | Field::OutputIds => debug_assert!(false, "lists are read by their own seed"),
        }
        Ok(())
    }

    /// Checks what concerns several fields.
    pub(super) fn into_row(self, rules: RowRules, hash_ids: &[u64]) -> Result<Row<'a>, RowError> {
        let name = |field: Field, main: &'static str| self.given[field as usize].unwrap_or(main);
        let Some(output_tokens) = self.output else {
            return Err(RowError::Missing { field: "output_length", allowed: "1 or more" });
        };
        if self.given[Field::HashIds as usize].is_none() {
            return Err(RowError::Missing { field: "hash_ids", allowed: "a list of integers, 0 or more" });
        }
        if self.given[Field::OutputIds as usize].is_some() && self.output_ids != output_tokens as usize {
            let value = format!("{} ids", self.output_ids);
            return Err(RowError::range("output_token_ids", &value, format!("{output_tokens}, the output length")));
        }
        let (input_tokens, clamped) = prompt(self.input, name(Field::Input, "input_length"), rules, hash_ids)?;
        check_total(name(Field::Output, "output_length"), input_tokens, output_tokens)?;
        Ok(Row { input_tokens, output_tokens, clamped, ..self.row })
    }
}

/// The prompt's length, and whether it had to be cut to what the hash ids cover.
fn prompt(input: Option<u32>, field: &'static str, rules: RowRules, hash_ids: &[u64]) -> Result<(u32, bool), RowError> {
    let capacity = hash_ids.len() as u64 * u64::from(rules.trace_block_size);
    if capacity == 0 {
        return Err(RowError::range("hash_ids", &"an empty list", "one id or more"));
    }
    match input {
        None => Ok((checked_length(field, capacity)?, false)),
        Some(length) if u64::from(length) <= capacity => Ok((length, false)),
        Some(_) if rules.excess == Excess::Clamp => Ok((capacity as u32, true)),
        Some(length) => {
            let allowed = format!("1 to {capacity}, {} hash ids of {} tokens", hash_ids.len(), rules.trace_block_size);
            Err(RowError::range(field, &length, allowed))
        }
    }
}

/// Milliseconds. Whole ones are exact; fractions are as exact as an f64 is.
pub(crate) fn time(field: &'static str, value: &Scalar<'_>) -> Result<Nanos, RowError> {
    let allowed = || format!("0 to {MAX_TIME_MS} ms");
    match *value {
        Scalar::Unsigned(ms) if ms <= MAX_TIME_MS as u64 => Ok(Nanos(ms * 1_000_000)),
        Scalar::Float(ms) if (0.0..=MAX_TIME_MS).contains(&ms) => Ok(Nanos::from_ms(ms)),
        Scalar::Unsigned(_) | Scalar::Negative(_) | Scalar::Float(_) => Err(RowError::range(field, &value, allowed())),
        _ => Err(RowError::WrongType { field, value: value.to_string(), allowed: "a number of ms, 0 or more" }),
    }
}

pub(crate) fn length(field: &'static str, value: &Scalar<'_>) -> Result<u32, RowError> {
    match *value {
        Scalar::Unsigned(length) => checked_length(field, length),
        Scalar::Negative(_) => Err(RowError::range(field, &value, "1 or more")),
        _ => Err(RowError::WrongType { field, value: value.to_string(), allowed: "an integer, 1 or more" }),
    }
}

fn signed(field: &'static str, value: &Scalar<'_>) -> Result<i32, RowError> {
    let found = match *value {
        Scalar::Unsigned(number) => i32::try_from(number).ok(),
        Scalar::Negative(number) => i32::try_from(number).ok(),
        _ => return Err(RowError::WrongType { field, value: value.to_string(), allowed: "an integer" }),
    };
    found.ok_or_else(|| RowError::range(field, &value, format!("{} to {}", i32::MIN, i32::MAX)))
}

fn unsigned(field: &'static str, value: &Scalar<'_>) -> Result<u32, RowError> {
    let found = match *value {
        Scalar::Unsigned(number) => u32::try_from(number).ok(),
        Scalar::Negative(_) => None,
        _ => return Err(RowError::WrongType { field, value: value.to_string(), allowed: "an integer, 0 or more" }),
    };
    found.ok_or_else(|| RowError::range(field, &value, format!("0 to {}", u32::MAX)))
}

fn text<'a>(field: &'static str, value: Scalar<'a>) -> Result<Cow<'a, str>, RowError> {
    match value {
        Scalar::Text(text) => Ok(text),
        other => Err(RowError::WrongType { field, value: other.to_string(), allowed: "a string" }),
    }
}
