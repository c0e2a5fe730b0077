//! What chat templates expect of Python beside Jinja itself.

use std::fmt::Write as _;
use std::io;

use minijinja::value::Kwargs;
use minijinja::{Environment, Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::Formatter;

const SECONDS_PER_DAY: u64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// Adds the functions, filters and methods.
pub(crate) fn extend(environment: &mut Environment<'static>) {
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", to_json);
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", |format: &str| strftime(format, dynosim_wire::time::unix_ms() / 1000));
}

/// A template's own refusal of the messages.
fn raise_exception(message: &str) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
}

/// `json.dumps(value, ensure_ascii=False)`: spaces after separators, no escapes for HTML.
#[allow(clippy::needless_pass_by_value, reason = "filters are called so")]
fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    // Other options of Python's are for text that no template needs; they are taken so that templates run.
    let indent: Option<usize> = options.get("indent")?;
    let mut json = Vec::new();
    let written = match indent {
        Some(width) => {
            let indent = " ".repeat(width.min(16));
            let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, formatter))
        }
        None => value.serialize(&mut serde_json::Serializer::with_formatter(&mut json, Spaced)),
    };
    written.map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&json).into_owned()))
}

/// Python's separators: `, ` and `: `.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

/// The parts of `strftime` that templates use, in UTC.
fn strftime(format: &str, unix_s: u64) -> Result<String, Error> {
    let days = unix_s / SECONDS_PER_DAY;
    let (year, month, day) = civil(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days % 7) as usize]);
    let second = unix_s % SECONDS_PER_DAY;
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let written = match characters.next() {
            Some('Y') => write!(text, "{year:04}"),
            Some('y') => write!(text, "{:02}", year % 100),
            Some('m') => write!(text, "{month:02}"),
            Some('d') => write!(text, "{day:02}"),
            Some('B') => write!(text, "{month_name}"),
            Some('b') => write!(text, "{}", &month_name[..3]),
            Some('A') => write!(text, "{day_name}"),
            Some('a') => write!(text, "{}", &day_name[..3]),
            Some('H') => write!(text, "{:02}", second / 3600),
            Some('M') => write!(text, "{:02}", second / 60 % 60),
            Some('S') => write!(text, "{:02}", second % 60),
            Some('%') => write!(text, "%"),
            other => {
                let reason = format!("strftime_now: `%{}` is not supported", other.unwrap_or(' '));
                return Err(Error::new(ErrorKind::InvalidOperation, reason));
            }
        };
        written.map_err(|e| Error::new(ErrorKind::InvalidOperation, e.to_string()))?;
    }
    Ok(text)
}

/// Year, month and day of a number of days since 1970: years are counted from March, so that a leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // date -u -d @1796088552 '+%d %b %Y %H:%M:%S %A', and a leap day.
        assert_eq!(strftime("%d %b %Y %H:%M:%S %A", 1_796_088_552).unwrap(), "01 Dec 2026 01:29:12 Tuesday");
        assert_eq!(strftime("%Y-%m-%d %a %B %y%%", 1_709_164_800).unwrap(), "2024-02-29 Thu February 24%");
        assert_eq!(strftime("%Y-%m-%d", 0).unwrap(), "1970-01-01");
        assert!(strftime("%Q", 0).is_err());
    }

    #[test]
    fn json_is_as_python_writes_it() {
        let mut environment = Environment::new();
        extend(&mut environment);
        let value: Value = serde_json::from_str(r#"{"z": [1, 2.5, null], "a": "<é'&>"}"#).unwrap();
        let context = minijinja::context! { value };
        let compact = environment.render_str("{{ value | tojson }}", context.clone()).unwrap();
        assert_eq!(compact, r#"{"z": [1, 2.5, null], "a": "<é'&>"}"#, "in the order of the request");
        let indented = environment.render_str("{{ value['z'] | tojson(indent=2) }}", context).unwrap();
        assert_eq!(indented, "[\n  1,\n  2.5,\n  null\n]");
    }
}
