//! One JSON object whose fields are taken one by one; what is left is unknown.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::error::ApiError;

/// Most fields of one object.
const MAX_FIELDS: usize = 128;

/// A JSON string, borrowed if it has no escapes.
#[derive(Debug)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_string<E>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_str(Take)
    }
}

/// Fields of an object that nobody has asked for yet, as they are written.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Take;
        impl<'de> Visitor<'de> for Take {
            type Value = Fields<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                while let Some(Text(name)) = map.next_key()? {
                    if fields.iter().any(|(other, _)| *other == name) {
                        return Err(A::Error::custom(format_args!("the field `{name}` is there twice")));
                    }
                    if fields.len() == MAX_FIELDS {
                        return Err(A::Error::custom(format_args!("more than {MAX_FIELDS} fields")));
                    }
                    fields.push((name, map.next_value()?));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Take)
    }
}

impl<'a> Fields<'a> {
    /// Reads a whole body.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body)
            .map_err(|e| ApiError::invalid(format!("body: not UTF-8 after byte {}", e.valid_up_to())))?;
        serde_json::from_str(text).map_err(|e| ApiError::invalid(format!("body: not a JSON object: {e}")))
    }

    /// Reads a value that must be an object.
    pub(crate) fn of(name: &str, raw: &'a RawValue) -> Result<Self, ApiError> {
        match raw.get().as_bytes().first() {
            Some(b'{') => serde_json::from_str(raw.get()).map_err(|e| ApiError::field(name, e.to_string())),
            _ => Err(ApiError::value(name, raw.get(), "an object")),
        }
    }

    /// Takes a field; `null` is as good as not there.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let index = self.0.iter().position(|(field, _)| field == name)?;
        let (_, raw) = self.0.swap_remove(index);
        (raw.get() != "null").then_some(raw)
    }

    /// Takes a truth value.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        self.take(name).map_or(Ok(None), |raw| match raw.get() {
            "true" => Ok(Some(true)),
            "false" => Ok(Some(false)),
            other => Err(ApiError::value(name, other, "true or false")),
        })
    }

    /// Takes a whole number within `range`.
    pub(crate) fn integer<T>(&mut self, name: &str, range: RangeInclusive<T>) -> Result<Option<T>, ApiError>
    where
        T: std::str::FromStr + PartialOrd + fmt::Display,
    {
        self.take(name).map_or(Ok(None), |raw| integer(name, raw, &range).map(Some))
    }

    /// Takes a number within `range`.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<f32>) -> Result<Option<f32>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let number = raw.get().parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let allowed = format!("a number from {} to {}", range.start(), range.end());
            ApiError::value(name, raw.get(), &allowed)
        })
    }

    /// Takes a text.
    pub(crate) fn text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, ApiError> {
        self.take(name).map_or(Ok(None), |raw| text(name, raw).map(Some))
    }

    /// Takes an object.
    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Fields<'a>>, ApiError> {
        self.take(name).map_or(Ok(None), |raw| Fields::of(name, raw).map(Some))
    }

    /// Takes a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, ApiError> {
        self.take(name).map_or(Ok(None), |raw| list(name, raw).map(Some))
    }

    /// Takes one of a few words.
    pub(crate) fn word(&mut self, name: &str, allowed: &[&'static str]) -> Result<Option<&'static str>, ApiError> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        let word = text(name, raw).ok().and_then(|text| allowed.iter().copied().find(|word| *word == text));
        word.map(Some).ok_or_else(|| ApiError::value(name, raw.get(), &allowed.join(", ")))
    }

    /// Refuses a field that exists elsewhere but not here, saying why.
    pub(crate) fn refuse(&mut self, name: &str, why: &str) -> Result<(), ApiError> {
        match self.take(name) {
            Some(_) => Err(ApiError::field(name, format!("not supported: {why}"))),
            None => Ok(()),
        }
    }

    /// Fields that nobody took are errors, unless they are null.
    pub(crate) fn end_without_values(mut self) -> Result<(), ApiError> {
        self.0.retain(|(_, raw)| raw.get() != "null");
        self.end()
    }

    /// Fields that nobody took are errors.
    pub(crate) fn end(self) -> Result<(), ApiError> {
        match self.0.into_iter().next() {
            Some((name, _)) => Err(ApiError::field(name, "unknown or unsupported field")),
            None => Ok(()),
        }
    }
}

/// A whole number within `range`.
pub(crate) fn integer<T>(name: &str, raw: &RawValue, range: &RangeInclusive<T>) -> Result<T, ApiError>
where
    T: std::str::FromStr + PartialOrd + fmt::Display,
{
    raw.get().parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        ApiError::value(name, raw.get(), &allowed)
    })
}

/// A text.
pub(crate) fn text<'a>(name: &str, raw: &'a RawValue) -> Result<Cow<'a, str>, ApiError> {
    if !raw.get().starts_with('"') {
        return Err(ApiError::value(name, raw.get(), "a string"));
    }
    let Text(text) = serde_json::from_str(raw.get()).map_err(|e| ApiError::field(name, e.to_string()))?;
    Ok(text)
}

/// A list.
pub(crate) fn list<'a>(name: &str, raw: &'a RawValue) -> Result<Vec<&'a RawValue>, ApiError> {
    if !raw.get().starts_with('[') {
        return Err(ApiError::value(name, raw.get(), "a list"));
    }
    serde_json::from_str(raw.get()).map_err(|e| ApiError::field(name, e.to_string()))
}

/// A list of whole numbers that fit into 32 bits, such as token ids.
pub(crate) fn tokens(name: &str, raw: &RawValue) -> Result<Vec<u32>, ApiError> {
    serde_json::from_str(raw.get())
        .map_err(|_| ApiError::value(name, raw.get(), "a list of token ids, whole numbers from 0 to 4294967295"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_taken_once_and_the_rest_is_unknown() {
        let mut fields = Fields::of_body(br#"{"a": 1, "b": null, "c": "x\n", "d": 2}"#).unwrap();
        assert_eq!(fields.integer("a", 0..=5u32).unwrap(), Some(1));
        assert_eq!(fields.integer("a", 0..=5u32).unwrap(), None);
        assert_eq!(fields.boolean("b").unwrap(), None);
        assert_eq!(fields.text("c").unwrap().as_deref(), Some("x\n"));
        assert_eq!(fields.end().unwrap_err().param.as_deref(), Some("d"));
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        let mut fields = Fields::of_body(br#"{"a": "plain"}"#).unwrap();
        assert!(matches!(fields.text("a").unwrap(), Some(Cow::Borrowed("plain"))));
    }

    #[test]
    fn numbers_that_are_not_whole_or_out_of_range_are_refused() {
        for value in ["1.5", "-1", "1e2", "\"1\"", "[1]", "99999999999999999999999999", "6", "true", "{}"] {
            let body = format!("{{\"a\": {value}}}");
            let mut fields = Fields::of_body(body.as_bytes()).unwrap();
            let error = fields.integer("a", 0..=5u32).unwrap_err();
            assert!(error.to_string().contains(value) && error.to_string().contains("0 to 5"), "{error}");
        }
        let mut fields = Fields::of_body(br#"{"a": 1e400}"#).unwrap();
        assert!(fields.number("a", 0.0..=f32::MAX).is_err(), "infinite");
    }
}
