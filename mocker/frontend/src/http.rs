//! The HTTP server: routes, bodies, streams.

pub(crate) mod service;
