//! CSV of the Azure LLM inference traces of 2023: `TIMESTAMP,ContextTokens,GeneratedTokens`.
//!
//! The traces carry no content, so every prompt is unlike any other.

use std::borrow::Cow;

use dynosim_engine::Nanos;

use crate::error::RowError;
use crate::row::{Row, check_total, checked_length};

/// The first line of a file.
pub(crate) const HEADER: &str = "TIMESTAMP,ContextTokens,GeneratedTokens";

const COLUMNS: usize = 3;
const TIME_ALLOWED: &str = "YYYY-MM-DD HH:MM:SS with up to 9 decimals, 1970 to 2254";

/// Checks the first line.
pub(crate) fn check_header(line: &[u8]) -> Result<(), RowError> {
    let text = text_of(line)?;
    if text.trim_start_matches('\u{feff}') == HEADER {
        return Ok(());
    }
    Err(RowError::range("header", &&quoted(text), HEADER))
}

/// Parses one line after the first, without its line break.
///
/// The timestamp is the time since 1970 in UTC.
pub fn parse_row(line: &[u8]) -> Result<Row<'static>, RowError> {
    let text = text_of(line)?;
    let mut columns = text.split(',');
    let (Some(time), Some(input), Some(output), None) =
        (columns.next(), columns.next(), columns.next(), columns.next())
    else {
        return Err(RowError::Columns { found: text.split(',').count(), expected: COLUMNS });
    };
    let timestamp = Some(parse_time(time).ok_or_else(|| RowError::range("TIMESTAMP", &&quoted(time), TIME_ALLOWED))?);
    let input_tokens = length("ContextTokens", input)?;
    let output_tokens = length("GeneratedTokens", output)?;
    check_total("GeneratedTokens", input_tokens, output_tokens)?;
    Ok(Row { timestamp, input_tokens, output_tokens, ..Row::default() })
}

fn text_of(line: &[u8]) -> Result<&str, RowError> {
    let text = std::str::from_utf8(line).map_err(|e| RowError::Encoding { column: e.valid_up_to() + 1 })?;
    Ok(text.trim_end())
}

fn quoted(text: &str) -> Cow<'_, str> {
    format!("`{}`", text.chars().take(60).collect::<String>()).into()
}

fn length(field: &'static str, text: &str) -> Result<u32, RowError> {
    match digits(text) {
        Some(value) => checked_length(field, value),
        None => Err(RowError::WrongType { field, value: quoted(text).into_owned(), allowed: "an integer, 1 or more" }),
    }
}

/// A number of digits alone, as long as it fits.
fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Time since 1970, exact to the nanosecond.
fn parse_time(text: &str) -> Option<Nanos> {
    let (date, clock) = text.split_once(' ')?;
    let mut date = date.split('-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = clock.split(':');
    let (hour, minute) = (digits(clock.next()?)?, digits(clock.next()?)?);
    let (second, fraction) = seconds(clock.next()?)?;
    let well_formed = date.next().is_none() && clock.next().is_none();
    let in_range = (1970..2255).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !well_formed || !in_range {
        return None;
    }
    let seconds = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    Some(Nanos(seconds * 1_000_000_000 + fraction))
}

/// `SS` or `SS.f…`: whole seconds and nanoseconds.
fn seconds(text: &str) -> Option<(u64, u64)> {
    let Some((whole, fraction)) = text.split_once('.') else { return Some((digits(text)?, 0)) };
    let scale = 10u64.pow(9u32.checked_sub(fraction.len() as u32)?);
    Some((digits(whole)?, digits(fraction)? * scale))
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let leap_days = |until: u64| until / 4 - until / 100 + until / 400;
    let years = (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969);
    let months: u64 = (1..month).map(|m| days_in(year, m)).sum();
    years + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_row_is_read() {
        let row = parse_row(b"2023-11-16 18:17:03.9799600,4808,10\r").unwrap();
        assert_eq!(row.timestamp, Some(Nanos(1_700_158_623_979_960_000)));
        assert_eq!((row.input_tokens, row.output_tokens), (4808, 10));
        check_header(b"TIMESTAMP,ContextTokens,GeneratedTokens\r").unwrap();
    }

    #[test]
    fn the_calendar_is_right() {
        assert_eq!(parse_time("1970-01-01 00:00:00"), Some(Nanos::ZERO));
        assert_eq!(parse_time("2000-02-29 00:00:00.5"), Some(Nanos(951_782_400_500_000_000)));
        assert_eq!(parse_time("2024-12-31 23:59:59.000000001"), Some(Nanos(1_735_689_599_000_000_001)));
        for wrong in ["2023-02-29 00:00:00", "2023-13-01 00:00:00", "2023-11-16 24:00:00", "2023-11-16", ""] {
            assert_eq!(parse_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bad_rows_name_the_column() {
        let cases = [
            ("a,b", "2 columns (allowed: 3)"),
            ("2023-11-16 18:17:03,1,2,3", "4 columns (allowed: 3)"),
            (
                "yesterday,1,2",
                "TIMESTAMP: `yesterday` is out of range (allowed: YYYY-MM-DD HH:MM:SS with up to 9 decimals, \
                 1970 to 2254)",
            ),
            ("2023-11-16 18:17:03,0,2", "ContextTokens: 0 is out of range (allowed: 1 or more)"),
            ("2023-11-16 18:17:03,7,x", "GeneratedTokens: `x` is of the wrong type (allowed: an integer, 1 or more)"),
            (
                "2023-11-16 18:17:03,67108864,1",
                "GeneratedTokens: 1 is out of range (allowed: up to 67108864 tokens with the 67108864 of the prompt)",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parse_row(line.as_bytes()).unwrap_err().to_string(), expected, "{line}");
        }
        let error = check_header(b"time,in,out").unwrap_err().to_string();
        let expected = "header: `time,in,out` is out of range (allowed: TIMESTAMP,ContextTokens,GeneratedTokens)";
        assert_eq!(error, expected);
    }
}
