//! Mooncake JSONL: one JSON object per line.
//!
//! Rows as programs write them take a short cut; the others go through a JSON parser. Either way values are first taken as they come and then judged by plain functions,
//! so that every message can name the field, the value and what is allowed. Unknown fields are skipped; null is the
//! same as absent.

mod fields;
mod quick;
mod scalar;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use self::fields::{Field, Fields, field_of};
pub(crate) use self::fields::{length, time};
pub(crate) use self::scalar::Scalar;
use self::scalar::{ListSeed, ScalarSeed};
use crate::error::RowError;
use crate::row::{Row, RowRules};

impl<'a> Row<'a> {
    /// Parses one line of Mooncake JSONL, without its line break.
    ///
    /// `hash_ids` is cleared and filled with the ids of the row.
    pub fn parse(line: &'a [u8], rules: RowRules, hash_ids: &mut Vec<u64>) -> Result<Self, RowError> {
        hash_ids.clear();
        let mut fields = Fields::default();
        match quick::read(line, &mut fields, hash_ids) {
            Some(Ok(())) => fields.into_row(rules, hash_ids),
            Some(Err(error)) => Err(error),
            None => Self::parse_fully(line, rules, hash_ids),
        }
    }

    /// Parses a line as the JSON standard has it.
    fn parse_fully(line: &'a [u8], rules: RowRules, hash_ids: &mut Vec<u64>) -> Result<Self, RowError> {
        hash_ids.clear();
        let text = std::str::from_utf8(line).map_err(|e| RowError::Encoding { column: e.valid_up_to() + 1 })?;
        if !text.trim_ascii_start().starts_with('{') {
            return Err(not_an_object(text));
        }
        let mut reader = RowReader { fields: Fields::default(), hash_ids, name: None, fault: None };
        let mut json = serde_json::Deserializer::from_str(text);
        let parsed = json.deserialize_map(&mut reader).and_then(|()| json.end());
        let RowReader { fields, name, fault, hash_ids } = reader;
        match (fault, parsed) {
            (Some(fault), _) => Err(fault),
            (None, Err(error)) => Err(not_json(text, name, &error)),
            (None, Ok(())) => fields.into_row(rules, hash_ids),
        }
    }
}

/// Says what a line is that does not begin like an object.
pub(crate) fn not_an_object(text: &str) -> RowError {
    let mut json = serde_json::Deserializer::from_str(text);
    match ScalarSeed.deserialize(&mut json).and_then(|value| json.end().map(|()| value)) {
        Ok(value) => RowError::NotAnObject { found: value.to_string() },
        Err(error) => not_json(text, None, &error),
    }
}

/// Puts the parser's error into our words: the column without the line, which is always 1, and the text there.
pub(crate) fn not_json(text: &str, field: Option<&'static str>, error: &serde_json::Error) -> RowError {
    let position = format!(" at line {} column {}", error.line(), error.column());
    let message = error.to_string();
    let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
    let start = error.column().saturating_sub(1);
    let near = text.get(start..).unwrap_or_default().chars().take(12).collect();
    RowError::NotJson { field, column: error.column(), message, near }
}

/// A key of the object: the field it names, if it is one of ours.
struct Key(Option<(Field, &'static str)>);

struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }
    fn visit_str<E>(self, name: &str) -> Result<Key, E> {
        Ok(Key(field_of(name)))
    }
}

/// Collects the fields of one row.
struct RowReader<'de, 'v> {
    fields: Fields<'de>,
    hash_ids: &'v mut Vec<u64>,
    /// The field being read, for messages about the syntax.
    name: Option<&'static str>,
    /// What is wrong with a value; the parser then stops with a message that nobody reads.
    fault: Option<RowError>,
}

impl<'de> Visitor<'de> for &mut RowReader<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key_seed(KeySeed)? {
            match key {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some((field, name)) => {
                    self.name = Some(name);
                    self.read(field, name, &mut map)?;
                    self.name = None;
                }
            }
        }
        Ok(())
    }
}

impl<'de> RowReader<'de, '_> {
    fn read<A: MapAccess<'de>>(&mut self, field: Field, name: &'static str, map: &mut A) -> Result<(), A::Error> {
        let judged = match field {
            Field::HashIds => {
                // A second list is an error, but its ids are read before that is known.
                let Self { hash_ids, fault, .. } = self;
                let sink = |id| hash_ids.push(id);
                let allowed = "a list of integers, 0 or more";
                match map.next_value_seed(ListSeed { field: name, allowed, max: u64::MAX, sink, fault })? {
                    Some(_) => self.fields.mark(field, name),
                    None => Ok(()),
                }
            }
            Field::OutputIds => {
                let allowed = "a list of token ids, 0 to 4294967295";
                let max = u64::from(u32::MAX);
                let fault = &mut self.fault;
                match map.next_value_seed(ListSeed { field: name, allowed, max, sink: |_| (), fault })? {
                    Some(count) => {
                        self.fields.set_output_ids(count);
                        self.fields.mark(field, name)
                    }
                    None => Ok(()),
                }
            }
            _ => {
                let value = map.next_value_seed(ScalarSeed)?;
                self.fields.set(field, name, value)
            }
        };
        judged.map_err(|fault| {
            self.fault = Some(fault);
            A::Error::custom("")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use dynosim_engine::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::row::Excess;

    fn parse<'a>(line: &'a str, ids: &mut Vec<u64>) -> Row<'a> {
        Row::parse(line.as_bytes(), RowRules::default(), ids).unwrap()
    }

    #[test]
    fn a_public_row_is_read() {
        let mut ids = vec![9];
        let row =
            parse(r#"{"timestamp": 27482, "input_length": 1000, "output_length": 52, "hash_ids": [46, 47]}"#, &mut ids);
        assert_eq!(ids, [46, 47]);
        let expected =
            Row { timestamp: Some(Nanos(27_482_000_000)), input_tokens: 1000, output_tokens: 52, ..Row::default() };
        assert_eq!(row, expected);
    }

    #[test]
    fn every_field_has_its_other_name_and_unknown_ones_are_skipped() {
        let mut ids = Vec::new();
        let line = r#" {"created_time":1.5,"input_tokens":5,"output_tokens":2,"hash_ids":[18446744073709551615],
            "delay_ms":0.25,"session_id":"s","request_id":"a\n","priority":-3,"strict_priority":4,"policy_class":"p",
            "output_token_ids":[1,2],"extra":{"a":[1,{"b":null}]}} "#;
        let row = parse(line, &mut ids);
        assert_eq!(ids, [u64::MAX]);
        assert_eq!(row.timestamp, Some(Nanos(1_500_000)));
        assert_eq!(row.delay, Some(Nanos(250_000)));
        assert_eq!((row.input_tokens, row.output_tokens), (5, 2));
        assert!(matches!(row.session_id, Some(Cow::Borrowed("s"))));
        assert_eq!(row.request_id.as_deref(), Some("a\n"));
        assert_eq!((row.priority, row.strict_priority, row.policy_class.as_deref()), (-3, 4, Some("p")));
    }

    #[test]
    fn null_is_absent_and_the_prompt_defaults_to_what_the_ids_cover() {
        let mut ids = Vec::new();
        let row = parse(
            r#"{"timestamp":null,"session_id":null,"input_length":null,"output_length":1,"hash_ids":[1,2],
            "output_token_ids":null}"#,
            &mut ids,
        );
        assert_eq!((row.timestamp, row.session_id, row.input_tokens), (None, None, 1024));
    }

    #[test]
    fn a_prompt_beyond_its_ids_is_cut_only_on_demand() {
        let line = br#"{"input_length":1025,"output_length":1,"hash_ids":[1,2]}"#;
        let rules = RowRules { excess: Excess::Clamp, ..RowRules::default() };
        let row = Row::parse(line, rules, &mut Vec::new()).unwrap();
        assert_eq!((row.input_tokens, row.clamped), (1024, true));
        let error = Row::parse(line, RowRules::default(), &mut Vec::new()).unwrap_err();
        let expected = "input_length: 1025 is out of range (allowed: 1 to 1024, 2 hash ids of 512 tokens)";
        assert_eq!(error.to_string(), expected);
    }

    /// Pieces that make up rows good and bad.
    fn piece() -> impl Strategy<Value = String> {
        const WORDS: &[&str] = &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            " ",
            "\"",
            "\"timestamp\":",
            "\"delay_ms\":",
            "\"input_length\":",
            "\"output_length\":5",
            "\"hash_ids\":[1,2]",
            "\"hash_ids\": [ 1 ,20]",
            "\"session_id\":\"a\"",
            "1.5",
            "0.125",
            "00",
            "1e3",
            "-1",
            "-0",
            "18446744073709551616",
            "null",
            "\\",
            "é",
            "\"x\":1",
            "12345678901234.56789",
            "1.",
        ];
        prop_oneof![prop::sample::select(WORDS).prop_map(str::to_owned), any::<u32>().prop_map(|n| n.to_string())]
    }

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<u64>().prop_map(|n| n.to_string()),
            (0u64..10_000_000_000, 0u32..12).prop_map(|(n, digits)| format!(
                "{n}.{:0width$}",
                n % 1000,
                width = digits as usize
            )),
            any::<f64>().prop_map(|n| n.to_string()),
            Just("0".to_owned()),
            Just("-3".to_owned()),
        ]
    }

    fn both(line: &str) -> [Result<(Row<'_>, Vec<u64>), RowError>; 2] {
        let rules = RowRules::default();
        let (mut quick, mut full) = (Vec::new(), Vec::new());
        [
            Row::parse(line.as_bytes(), rules, &mut quick).map(|row| (row, quick)),
            Row::parse_fully(line.as_bytes(), rules, &mut full).map(|row| (row, full)),
        ]
    }

    proptest! {
        #[test]
        fn the_short_cut_agrees_with_the_parser_on_any_text(pieces in prop::collection::vec(piece(), 0..12)) {
            let line = format!("{{{}}}", pieces.concat());
            let [quick, full] = both(&line);
            prop_assert_eq!(quick, full);
        }

        #[test]
        fn the_short_cut_agrees_with_the_parser_on_values(time in number(), input in number(), id in number()) {
            let line = format!(r#"{{"timestamp":{time},"input_length":{input},"output_length":1,"hash_ids":[{id}]}}"#);
            let [quick, full] = both(&line);
            prop_assert_eq!(quick, full);
        }

        #[test]
        fn any_bytes_are_parsed_or_refused(line in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Row::parse(&line, RowRules::default(), &mut Vec::new());
        }
    }
}
