//! Inputs that are refused: exit code 2, the whole message, and nothing else done.

use std::fmt::Write as _;

use crate::place::{Place, Ran};

/// A synthetic workload of one small request.
pub(crate) const SMALL: [&str; 6] = ["--input-tokens", "100", "--output-tokens", "2", "--request-count", "1"];

/// Runs of one table; what is wrong is shown for all rows together.
#[derive(Default)]
pub(crate) struct Table {
    wrong: String,
    rows: usize,
}

impl Table {
    /// The command must refuse with `message` after "error: ", write no file and say nothing else.
    pub(crate) fn row(&mut self, place: &Place, args: &[&str], message: &str) {
        self.exit(place, args, 2, message);
    }

    pub(crate) fn exit(&mut self, place: &Place, args: &[&str], code: i32, message: &str) {
        self.rows += 1;
        let before = place.names();
        let ran = place.run(args);
        let Ran { code: found, stdout, stderr } = &ran;
        let left = place.names();
        if *found != Some(code) || *stderr != format!("error: {message}\n") || !stdout.is_empty() || left != before {
            let new: Vec<_> = left.iter().filter(|name| !before.contains(name)).collect();
            let _ = writeln!(
                self.wrong,
                "{args:?}\n  exit     {found:?}, expected {code}\n  found    {}\n  expected error: {message}\n  \
                 stdout   {stdout:?}\n  new      {new:?}",
                stderr.trim_end()
            );
        }
    }

    /// Fails if any row did, or if there are fewer than `least`.
    #[track_caller]
    pub(crate) fn finish(self, least: usize) {
        assert!(self.wrong.is_empty(), "\n{}", self.wrong);
        assert!(self.rows >= least, "{} rows", self.rows);
    }
}
