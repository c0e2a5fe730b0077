//! Names of files for the paths of keys.

use std::fmt::Write as _;

/// The file name of a path: letters and digits as they are, every other byte as `%XX`.
pub(super) fn file_name(path: &str) -> String {
    let mut name = String::with_capacity(path.len() + 16);
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() {
            name.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// The path that a file name stands for; none if it is not one of ours.
pub(super) fn path_of(name: &str) -> Option<String> {
    let mut path = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            path.push(*first);
            rest = tail;
            continue;
        }
        let digits = tail.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        path.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &tail[2..];
    }
    // One path has one name: two files must never stand for one record.
    String::from_utf8(path).ok().filter(|path| !path.is_empty() && file_name(path) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_file_name_with_all_other_bytes_escaped() {
        let path = "dynamo/backend/worker_kv-query/3162a19e2c110ef4";
        let name = "dynamo%2Fbackend%2Fworker%5Fkv%2Dquery%2F3162a19e2c110ef4";
        assert_eq!(file_name(path), name);
        assert_eq!(path_of(name).as_deref(), Some(path));
        assert_eq!(file_name("é"), "%C3%A9");
    }

    #[test]
    fn a_name_that_stands_for_no_path_is_refused() {
        for bad in ["", "%", "%2", "%zz", "%+1", "a%FF", "%2Fa%", "a%2fb", "%41", "a-b"] {
            assert_eq!(path_of(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_path_comes_back_from_its_name(path in "\\PC{1,40}") {
            proptest::prop_assert_eq!(path_of(&file_name(&path)), Some(path));
        }
    }
}
