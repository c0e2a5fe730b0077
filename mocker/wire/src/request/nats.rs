//! The request plane over NATS.
