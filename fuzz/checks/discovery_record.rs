//! Keys and records of discovery never panic, and an accepted record stays the same when it is written and read.
//!
//! The first line is the key, the rest the value. True if the record was accepted.

use dynosim_wire::discovery::{Key, Record};

pub(crate) fn check(data: &[u8]) -> bool {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return false };
    let (name, value) = (&data[..end], &data[end + 1..]);
    let Some(key) = std::str::from_utf8(name).ok().and_then(Key::parse) else { return false };
    assert_eq!(key.to_string().as_bytes(), name);
    let Ok(record) = Record::parse(&key, value) else { return false };
    let own = record.key();
    assert_eq!(Key::parse(&own.to_string()), Some(own));
    // Defaults and escapes can make it too large to be written.
    let Ok(json) = record.to_json() else { return false };
    let again = Record::parse(&key, &json).expect("a written record is valid");
    assert_eq!(again, record);
    assert_eq!(again.to_json().expect("it was written before"), json);
    true
}
