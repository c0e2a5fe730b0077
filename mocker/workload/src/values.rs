//! JSON values beside the fields of a Mooncake row: taken as they come, then judged.

use std::fmt;

use dynosim_engine::Nanos;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::error::RowError;
use crate::mooncake::{Scalar, length, not_an_object, not_json, time};

const IDS_ALLOWED: &str = "a list of integers, 0 or more";

/// The values of some keys of a JSON object; others are skipped, absent ones are null.
pub(crate) fn members<const N: usize>(line: &[u8], keys: [&'static str; N]) -> Result<[Value; N], RowError> {
    let text = std::str::from_utf8(line).map_err(|e| RowError::Encoding { column: e.valid_up_to() + 1 })?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(not_an_object(text));
    }
    let mut picker = Picker { keys, values: [const { Value::Null }; N], twice: None };
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = json.deserialize_map(&mut picker).and_then(|()| json.end());
    match (picker.twice, parsed) {
        (Some(key), _) => Err(RowError::Twice { field: key, other: key }),
        (None, Err(error)) => Err(not_json(text, None, &error)),
        (None, Ok(())) => Ok(picker.values),
    }
}

struct Picker<const N: usize> {
    keys: [&'static str; N],
    values: [Value; N],
    twice: Option<&'static str>,
}

impl<'de, const N: usize> Visitor<'de> for &mut Picker<N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let Some(place) = self.keys.iter().position(|known| *known == key) else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if !self.values[place].is_null() {
                self.twice = Some(self.keys[place]);
                return Err(A::Error::custom(""));
            }
            self.values[place] = map.next_value()?;
        }
        Ok(())
    }
}

fn wrong(field: &'static str, value: &Value, allowed: &'static str) -> RowError {
    RowError::WrongType { field, value: Scalar::from(value).to_string(), allowed }
}

/// A text, if there is one.
pub(crate) fn text<'v>(field: &'static str, value: &'v Value) -> Result<Option<&'v str>, RowError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(wrong(field, other, "a string")),
    }
}

/// A text that must be there.
pub(crate) fn required_text<'v>(field: &'static str, value: &'v Value) -> Result<&'v str, RowError> {
    text(field, value)?.ok_or(RowError::Missing { field, allowed: "a string" })
}

/// A list of texts; none if it is absent.
pub(crate) fn texts<'v>(field: &'static str, value: &'v Value) -> Result<Vec<&'v str>, RowError> {
    const ALLOWED: &str = "a list of strings";
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            list.iter().map(|element| element.as_str().ok_or_else(|| wrong(field, element, ALLOWED))).collect()
        }
        other => Err(wrong(field, other, ALLOWED)),
    }
}

/// A number of milliseconds, if there is one.
pub(crate) fn ms(field: &'static str, value: &Value) -> Result<Option<Nanos>, RowError> {
    if value.is_null() { Ok(None) } else { time(field, &Scalar::from(value)).map(Some) }
}

/// A number of milliseconds that must be there.
pub(crate) fn required_ms(field: &'static str, value: &Value) -> Result<Nanos, RowError> {
    ms(field, value)?.ok_or(RowError::Missing { field, allowed: "a number of ms, 0 or more" })
}

/// Fails unless it is true, false or absent.
pub(crate) fn flag(field: &'static str, value: &Value) -> Result<bool, RowError> {
    match value {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        other => Err(wrong(field, other, "true or false")),
    }
}

/// A number of tokens, 1 or more, that must be there.
pub(crate) fn tokens(field: &'static str, value: &Value) -> Result<u32, RowError> {
    match value {
        Value::Null => Err(RowError::Missing { field, allowed: "an integer, 1 or more" }),
        value => length(field, &Scalar::from(value)),
    }
}

/// A list that must be there.
pub(crate) fn list<'v>(field: &'static str, value: &'v Value, allowed: &'static str) -> Result<&'v [Value], RowError> {
    match value {
        Value::Array(list) => Ok(list),
        Value::Null => Err(RowError::Missing { field, allowed }),
        other => Err(wrong(field, other, allowed)),
    }
}

/// Appends ids of a list that must be there.
pub(crate) fn ids(field: &'static str, value: &Value, out: &mut Vec<u64>) -> Result<(), RowError> {
    for element in list(field, value, IDS_ALLOWED)? {
        out.push(match Scalar::from(element) {
            Scalar::Unsigned(id) => id,
            Scalar::Negative(id) => return Err(RowError::range(field, &id, IDS_ALLOWED)),
            _ => return Err(wrong(field, element, IDS_ALLOWED)),
        });
    }
    Ok(())
}

/// An object, if there is one.
pub(crate) fn object<'v>(field: &'static str, value: &'v Value) -> Result<Option<&'v Value>, RowError> {
    match value {
        Value::Null => Ok(None),
        Value::Object(_) => Ok(Some(value)),
        other => Err(wrong(field, other, "an object")),
    }
}

/// What an object has under a key; null if nothing.
pub(crate) fn get<'v>(object: &'v Value, key: &str) -> &'v Value {
    object.get(key).unwrap_or(&Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_picked_and_others_skipped() {
        let line = br#" {"a":1,"x":[{"a":2}],"b":null,"b":"t"} "#;
        assert_eq!(members(line, ["b", "a", "c"]).unwrap(), [Value::from("t"), Value::from(1), Value::Null]);
        let error = members(br#"{"a":1,"a":2}"#, ["a"]).unwrap_err().to_string();
        assert_eq!(error, "a: given twice, the other time as `a` (allowed: once)");
        assert_eq!(members(b"[]", ["a"]).unwrap_err().to_string(), "a list is no row (allowed: a JSON object)");
    }
}
