//! JSON values as they come, before anybody has judged them.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::RowError;

/// Longest value quoted in a message, in characters.
const QUOTE_MAX: usize = 40;

/// A JSON value; what lists and objects hold is skipped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(Cow<'a, str>),
    List,
    Object,
}

impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Negative(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) if text.chars().nth(QUOTE_MAX).is_none() => write!(f, "`{text}`"),
            Self::Text(text) => write!(f, "`{}…`", text.chars().take(QUOTE_MAX).collect::<String>()),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

impl<'a> From<&'a Value> for Scalar<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::String(text) => Self::Text(Cow::Borrowed(text)),
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => Self::Unsigned(value),
                (None, Some(value)) => Self::Negative(value),
                (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
        }
    }
}

/// Reads any value.
#[derive(Clone, Copy)]
pub(crate) struct ScalarSeed;

impl<'de> DeserializeSeed<'de> for ScalarSeed {
    type Value = Scalar<'de>;
    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Scalar<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ScalarSeed {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Bool(value))
    }
    #[inline]
    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Unsigned(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(u64::try_from(value).map_or(Scalar::Negative(value), Scalar::Unsigned))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Float(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(value.to_owned())))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(value)))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::List)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}

/// Reads a list of integers up to `max` into `sink` and counts them; null gives none.
pub(crate) struct ListSeed<'f, S> {
    pub(crate) field: &'static str,
    pub(crate) allowed: &'static str,
    pub(crate) max: u64,
    pub(crate) sink: S,
    /// Where an error about a value goes; the parser then stops with a message that nobody reads.
    pub(crate) fault: &'f mut Option<RowError>,
}

impl<S> ListSeed<'_, S> {
    fn wrong<T, E: Error>(self, value: &Scalar<'_>) -> Result<T, E> {
        let Self { field, allowed, .. } = self;
        *self.fault = Some(match value {
            Scalar::Unsigned(_) | Scalar::Negative(_) => RowError::range(field, &value, allowed),
            _ => RowError::WrongType { field, value: value.to_string(), allowed },
        });
        Err(E::custom(""))
    }
}

impl<'de, S: FnMut(u64)> DeserializeSeed<'de> for ListSeed<'_, S> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: FnMut(u64)> Visitor<'de> for ListSeed<'_, S> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.allowed)
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        self.wrong(&Scalar::Bool(value))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        let Self { field, allowed, .. } = self;
        *self.fault = Some(RowError::WrongType { field, value: value.to_string(), allowed });
        Err(E::custom(""))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        self.wrong(&Scalar::Float(value as f64))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        self.wrong(&Scalar::Float(value))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
        self.wrong(&Scalar::Text(Cow::Borrowed(value)))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.wrong(&Scalar::Object)
    }
    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut count = 0;
        while let Some(element) = list.next_element_seed(ScalarSeed)? {
            match element {
                Scalar::Unsigned(value) if value <= self.max => (self.sink)(value),
                other => return self.wrong(&other),
            }
            count += 1;
        }
        Ok(Some(count))
    }
}
