//! Discrete-event replay.
