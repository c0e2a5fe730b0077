//! Trace formats, synthetic generators and sessions.
