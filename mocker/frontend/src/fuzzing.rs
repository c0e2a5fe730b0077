//! Entry points for fuzzers: what a peer sends, read as the server reads it.

use crate::http::service::Endpoint;
use crate::openai::request::{Request, open};

/// Reads `body` as both generating routes do. A refusal is text; whatever the body, there is no panic.
pub fn request_body(body: &[u8]) -> Result<(), String> {
    for endpoint in [Endpoint::Chat, Endpoint::Completions] {
        let request = open(body).and_then(|opened| Request::parse(endpoint, opened));
        request.map_err(|error| String::from_utf8_lossy(&error.body()).into_owned())?;
    }
    Ok(())
}
