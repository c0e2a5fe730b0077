//! The servers of live tests do what the tests rely on.

mod api_server;
