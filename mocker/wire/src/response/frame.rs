//! Two-part frames.
