//! Forms of texts that Kubernetes asks for. Each check gives the reason if a text does not have the form.

/// Longest name of an object that is also a label's value or a host's name.
pub const LABEL_MAX: usize = 63;
/// Longest name of an object.
const SUBDOMAIN_MAX: usize = 253;

/// The outcome of a check; the reason follows "`text` ".
pub type Checked = Result<(), String>;

fn refuse(allowed: &str) -> Checked {
    Err(format!("cannot be used (allowed: {allowed})"))
}

/// RFC 1123: lower-case letters, digits and hyphens.
pub fn dns_label(text: &str) -> Checked {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if bounded(text, LABEL_MAX) && text.chars().all(inside) && !text.starts_with('-') && !text.ends_with('-') {
        return Ok(());
    }
    refuse("1 to 63 lower-case letters, digits and hyphens, hyphens only inside")
}

/// RFC 1035, for names of Services: as [`dns_label`], a letter first.
pub fn service_name(text: &str) -> Checked {
    if dns_label(text).is_ok() && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Ok(());
    }
    refuse("1 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen at the end")
}

/// Several labels with dots between, for names of most objects.
pub fn subdomain(text: &str) -> Checked {
    if bounded(text, SUBDOMAIN_MAX) && text.split('.').all(dns_label_of_any_length) {
        return Ok(());
    }
    refuse("1 to 253 lower-case letters, digits, hyphens and dots")
}

fn dns_label_of_any_length(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inside) && !text.starts_with('-') && !text.ends_with('-')
}

/// The key of a label or annotation.
pub fn qualified_name(text: &str) -> Checked {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    if prefix.is_none_or(|prefix| subdomain(prefix).is_ok()) && !name.is_empty() && label_value(name).is_ok() {
        return Ok(());
    }
    refuse("a name of 1 to 63 letters, digits, `-`, `_` and `.`, perhaps after a domain and `/`")
}

/// The value of a label.
pub fn label_value(text: &str) -> Checked {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let edge = |c: char| c.is_ascii_alphanumeric();
    let edges = text.is_empty() || (text.starts_with(edge) && text.ends_with(edge));
    if text.len() <= LABEL_MAX && text.chars().all(inside) && edges {
        return Ok(());
    }
    refuse("at most 63 letters, digits, `-`, `_` and `.`, a letter or digit first and last")
}

/// The name of a container's port.
pub fn port_name(text: &str) -> Checked {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let letter = text.chars().any(|c| c.is_ascii_lowercase());
    let hyphens = text.starts_with('-') || text.ends_with('-') || text.contains("--");
    if bounded(text, 15) && text.chars().all(inside) && letter && !hyphens {
        return Ok(());
    }
    refuse("1 to 15 lower-case letters, digits and single hyphens inside, at least one letter")
}

/// The name of an environment variable.
pub fn variable_name(text: &str) -> Checked {
    if !text.is_empty() && text.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
        return Ok(());
    }
    refuse("printable ASCII characters except `=`")
}

/// A number of pods or a share of them: `2` or `25%`. Gives the number for `of` pods, exact as a fraction.
pub fn count_or_percent(text: &str) -> Result<Share, String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| i32::try_from(*number).is_ok());
    match text.strip_suffix('%') {
        None => number(text).map(Share::Count),
        Some(percent) => number(percent).filter(|percent| *percent <= 100).map(Share::Percent),
    }
    .ok_or_else(|| "cannot be used (allowed: a number of pods, or a share from 0% to 100%)".to_owned())
}

/// A number of pods, or a share of a component's replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u32),
    /// Of 100.
    Percent(u32),
}

impl Share {
    /// Rounded up, as for a surge.
    pub fn up(self, of: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (u64::from(of) * u64::from(percent)).div_ceil(100) as u32,
        }
    }

    /// Rounded down, as for unavailable pods.
    pub fn down(self, of: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => (u64::from(of) * u64::from(percent) / 100) as u32,
        }
    }

    /// None at all.
    pub fn is_zero(self) -> bool {
        matches!(self, Self::Count(0) | Self::Percent(0))
    }
}

/// A quantity of bytes, GPUs or cores: digits, perhaps with a point, and a suffix.
pub fn quantity(text: &str) -> Checked {
    const SUFFIXES: [&str; 17] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e"];
    let digits = text.trim_start_matches(['+', '-']);
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let number_fits = number.parse::<f64>().is_ok() && text.len() - digits.len() <= 1;
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|rest| rest.parse::<i8>().is_ok());
    if number_fits && (exponent || (suffix != "e" && SUFFIXES.contains(&suffix))) {
        return Ok(());
    }
    refuse("a number with a suffix such as m, k, M, G, Ki, Mi or Gi")
}

fn bounded(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A check with texts that have the form, and texts that do not.
    type Row<'a> = (fn(&str) -> Checked, &'a [&'a str], &'a [&'a str]);

    #[test]
    fn forms_are_told_apart() {
        let long = "a".repeat(64);
        let rows: [Row<'_>; 7] = [
            (dns_label, &["a", "1", "a-b"], &["", "-a", "a-", "A", "a.b", "a_b", &long]),
            (service_name, &["a", "a-1"], &["1a", "", "a-"]),
            (subdomain, &["a.b", "a"], &["a..b", ".", "", "A"]),
            (qualified_name, &["a", "A_b.c", "x.io/a"], &["", "x.io/", "/a", "X/a", "a/b/c", &long]),
            (label_value, &["", "a", "A_b.c"], &["-a", "a.", "a/b", &long]),
            (port_name, &["http", "a-1", "1a"], &["", "1", "a--b", "-a", "A", "abcdefghijklmnop"]),
            (quantity, &["1", "0", "1.5Gi", "100m", "1e3", "2E", "-1"], &["", "Gi", "1 Gi", "1gi", "--1", "1ee", "1e"]),
        ];
        for (check, good, bad) in rows {
            assert!(good.iter().all(|text| check(text).is_ok()), "{good:?}");
            for text in bad {
                assert!(check(text).is_err(), "{text}");
            }
        }
    }

    #[test]
    fn shares_round_as_kubernetes_rounds_them() {
        let share = count_or_percent("25%").expect("a share");
        assert_eq!([1, 4, 5].map(|of| share.up(of)), [1, 1, 2]);
        assert_eq!([1, 4, 9].map(|of| share.down(of)), [0, 1, 2]);
        assert_eq!(count_or_percent("3"), Ok(Share::Count(3)));
        for text in ["", "-1", "101%", "a", "1.5", "%"] {
            assert!(count_or_percent(text).is_err(), "{text}");
        }
    }
}
