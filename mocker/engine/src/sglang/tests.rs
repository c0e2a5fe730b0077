//! Tests of the scheduler as a whole.
