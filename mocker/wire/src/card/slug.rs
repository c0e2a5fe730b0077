//! Model names that are fit for keys, subjects and URLs.

/// Lower case; whatever is no ASCII letter, digit, `-` or `_` becomes `_`; none of those at the beginning.
pub fn slug(name: &str) -> String {
    let fit = |c: char| {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }
    };
    name.chars().map(fit).skip_while(|&c| c == '_').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the published worker names them (release 1.6.1).
    #[test]
    fn names_become_the_slugs_that_the_published_worker_writes() {
        for (name, expected) in [
            ("nvidia/Llama-3.1-8B-Instruct-FP8", "nvidia_llama-3_1-8b-instruct-fp8"),
            ("Tiny_x.Y@é Z", "tiny_x_y___z"),
            ("a--b__c", "a--b__c"),
            ("/Slash", "slash"),
            ("__x", "x"),
            ("-_Lead.É/", "-_lead___"),
            (".-x.-", "-x_-"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }
}
