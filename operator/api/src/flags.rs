//! Flags in a list of words: `--flag value` or `--flag=value`.

/// The value of a flag; the last one counts.
pub fn value_of<'a>(flags: &'a [String], name: &str) -> Option<&'a str> {
    let mut found = None;
    for (index, word) in flags.iter().enumerate() {
        if word == name {
            found = flags.get(index + 1).map(String::as_str);
        } else if let Some(value) = word.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) {
            found = Some(value);
        }
    }
    found
}

/// Whether a flag stands there, with or without a value.
pub fn has(flags: &[String], name: &str) -> bool {
    flags.iter().any(|word| word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
}

/// Replaces the value of a flag wherever it stands; false if it does not.
pub fn replace_value(flags: &mut [String], name: &str, value: &str) -> bool {
    let mut replaced = false;
    for index in 0..flags.len() {
        if flags[index] == name && index + 1 < flags.len() {
            value.clone_into(&mut flags[index + 1]);
            replaced = true;
        } else if flags[index].strip_prefix(name).is_some_and(|rest| rest.starts_with('=')) {
            flags[index] = format!("{name}={value}");
            replaced = true;
        }
    }
    replaced
}

/// Takes a flag with its value out, wherever it stands.
pub fn remove(flags: &mut Vec<String>, name: &str) {
    while let Some(at) = flags.iter().position(|word| word == name) {
        flags.drain(at..(at + 2).min(flags.len()));
    }
    flags.retain(|word| !word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')));
}

/// The part that a worker's flags give it in a disaggregated graph; without one it does both.
pub fn worker_mode(flags: &[String]) -> &str {
    match value_of(flags, "--disaggregation-mode") {
        Some(mode) => mode,
        None if has(flags, "--is-prefill-worker") => "prefill",
        None if has(flags, "--is-decode-worker") => "decode",
        None => "agg",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn flags_are_found_replaced_and_removed_in_both_spellings() {
        let mut flags = list("--a 1 --bc 2 --b=3 --b 4");
        assert_eq!(value_of(&flags, "--b"), Some("4"));
        assert_eq!(value_of(&flags, "--bc"), Some("2"));
        assert_eq!(value_of(&flags, "--c"), None);
        assert!(has(&flags, "--b") && has(&flags, "--bc") && !has(&flags, "--c"));
        assert!(replace_value(&mut flags, "--b", "5"));
        assert!(!replace_value(&mut flags, "--c", "5"));
        assert_eq!(flags.join(" "), "--a 1 --bc 2 --b=5 --b 5");
        remove(&mut flags, "--b");
        assert_eq!(flags.join(" "), "--a 1 --bc 2");
    }

    #[test]
    fn a_workers_part_is_read_from_its_flags_old_and_new() {
        for (text, mode) in [
            ("--x", "agg"),
            ("--disaggregation-mode prefill", "prefill"),
            ("--disaggregation-mode=decode", "decode"),
            ("--is-prefill-worker", "prefill"),
            ("--is-decode-worker", "decode"),
        ] {
            assert_eq!(worker_mode(&list(text)), mode, "{text}");
        }
    }
}
