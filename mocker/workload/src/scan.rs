//! The first pass over a trace: every row is checked before anything is simulated.

use dynosim_engine::Nanos;

use crate::decode::{Decoder, Scale, line_error, row_error};
use crate::error::{RowError, WorkloadError};
use crate::index::{Arrivals, Index, IndexBuilder, Place};
use crate::lines::Lines;
use crate::row::Row;
use crate::source::Source;

/// Most rows of a trace, so that they can be numbered in 32 bits with one number to spare.
pub(crate) const MAX_ROWS: u64 = u32::MAX as u64 - 1;

/// What the first pass found.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) rows: u64,
    pub(crate) clamped: u64,
    /// The earliest timestamp of a first turn.
    pub(crate) start: Nanos,
    /// There is none if the rows are independent and in time order, so that reading on is enough.
    pub(crate) index: Option<Index>,
}

/// What the first pass needs.
pub(crate) struct Scan<'t> {
    pub(crate) file: &'t str,
    pub(crate) source: &'t Source,
    pub(crate) arrivals: Arrivals,
    pub(crate) scale: Scale,
}

/// What is known of the rows so far.
struct Seen {
    rows: u64,
    clamped: u64,
    start: Nanos,
    last: Nanos,
}

impl Scan<'_> {
    /// Reads the whole trace; a second time if it turns out to need an index.
    pub(crate) fn run(&self, decoder: &mut Decoder) -> Result<Summary, WorkloadError> {
        if let Some(summary) = self.pass(decoder, None)? {
            return Ok(summary);
        }
        let builder = if decoder.deltas() { IndexBuilder::for_deltas() } else { IndexBuilder::default() };
        let indexed = self.pass(decoder, Some(builder))?;
        indexed.ok_or_else(|| WorkloadError::Empty { file: self.file.to_owned() })
    }

    /// One pass over the rows; without a builder it gives up at the first row that needs an index.
    fn pass(&self, decoder: &mut Decoder, mut builder: Option<IndexBuilder>) -> Result<Option<Summary>, WorkloadError> {
        let mut lines = Lines::new(self.source.stream());
        decoder.skip_header(self.file, &mut lines)?;
        let mut seen = Seen { rows: 0, clamped: 0, start: Nanos::MAX, last: Nanos::ZERO };
        while let Some(line) = lines.next().map_err(|error| line_error(self.file, error))? {
            let row = decoder.decode(line.bytes).map_err(|error| row_error(self.file, line.number, error))?;
            if seen.rows == MAX_ROWS {
                return Err(WorkloadError::TooManyRows { file: self.file.to_owned(), limit: MAX_ROWS });
            }
            let place = match &mut builder {
                None if row.session_id.is_some() => return Ok(None),
                None => Ok(Place::First),
                Some(builder) => builder.push(&row, line.offset, self.scale),
            };
            let sorted = place
                .and_then(|place| self.note(&row, place, &mut seen))
                .map_err(|error| row_error(self.file, line.number, error))?;
            if builder.is_none() && !sorted {
                return Ok(None);
            }
        }
        if seen.rows == 0 {
            return Err(WorkloadError::Empty { file: self.file.to_owned() });
        }
        let end = lines.offset();
        let index = builder.map(|builder| builder.finish(self.arrivals, seen.start, end, self.scale));
        Ok(Some(Summary { rows: seen.rows, clamped: seen.clamped, start: seen.start, index }))
    }

    /// Counts a row; tells whether it arrives after those before.
    fn note(&self, row: &Row<'_>, place: Place, seen: &mut Seen) -> Result<bool, RowError> {
        seen.rows += 1;
        seen.clamped += u64::from(row.clamped);
        if place == Place::Later {
            return Ok(true);
        }
        if let Some(delay) = row.delay.filter(|&delay| delay > Nanos::ZERO) {
            return Err(RowError::range("delay", &&delay.as_ms(), "0 on the first turn of a session"));
        }
        if self.arrivals == Arrivals::InOrder {
            return Ok(true);
        }
        let timestamp = row.timestamp.ok_or(RowError::Missing {
            field: "timestamp",
            allowed: "a number of ms, 0 or more; only later turns and replay at fixed concurrency do without",
        })?;
        let sorted = timestamp >= seen.last;
        seen.last = timestamp;
        seen.start = seen.start.min(timestamp);
        Ok(sorted)
    }
}
