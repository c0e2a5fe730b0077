//! Events through a NATS server.
