//! What is wrong with a manifest, all of it, each with its place.

use std::fmt::{self, Display, Formatter};

/// One thing that is wrong, ignored or noteworthy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where: `spec.components[1].replicas`.
    pub path: String,
    /// What.
    pub message: String,
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Errors and warnings in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// Why the manifest cannot be used.
    pub errors: Vec<Problem>,
    /// What has no effect, or another one than expected.
    pub warnings: Vec<Problem>,
}

impl Problems {
    /// Adds an error.
    pub fn error(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.errors.push(Problem { path: path.into(), message: message.into() });
    }

    /// Adds a warning.
    pub fn warn(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(Problem { path: path.into(), message: message.into() });
    }

    /// Adds an error if a text does not have a form.
    pub fn check(&mut self, path: impl Into<String>, text: &str, checked: crate::formats::Checked) {
        if let Err(reason) = checked {
            self.error(path, format!("`{text}` {reason}"));
        }
    }
}

/// A manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid(pub Problems);

impl Display for Invalid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.errors.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}
