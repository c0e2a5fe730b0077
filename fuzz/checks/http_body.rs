//! Bodies of HTTP requests never panic, and are taken or refused as the API says it. True if a route takes it.

use dynosim_frontend::fuzzing::request_body;

pub(crate) fn check(data: &[u8]) -> bool {
    request_body(data).is_ok()
}
