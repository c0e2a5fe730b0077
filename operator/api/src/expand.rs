//! `$(NAME)` in commands, arguments and environment.

use std::collections::BTreeMap;

/// Replaces `$(NAME)` by the variable, as Kubernetes does: unknown names stay, `$$` is one `$`.
pub fn expand(text: &str, env: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest.strip_prefix("$(").and_then(|inside| inside.split_once(')'));
        if let Some(after) = rest.strip_prefix("$$") {
            out.push('$');
            rest = after;
        } else if let Some((value, after)) = named.and_then(|(name, after)| Some((env.get(name)?, after))) {
            out.push_str(value);
            rest = after;
        } else {
            out.push('$');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}

/// The names that a text refers to.
pub fn references(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$$") {
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix("$(").and_then(|inside| inside.split_once(')')) {
            names.push(name);
            rest = after;
        } else {
            rest = &rest[1..];
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_as_kubernetes_does() {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        for (text, expected, names) in [
            ("$(A)x$(A)", "1x1", vec!["A", "A"]),
            ("$(B)", "$(B)", vec!["B"]),
            ("$$(A)", "$(A)", vec![]),
            ("a$", "a$", vec![]),
            ("$(A", "$(A", vec![]),
        ] {
            assert_eq!(expand(text, &env), expected, "{text}");
            assert_eq!(references(text), names, "{text}");
        }
    }
}
