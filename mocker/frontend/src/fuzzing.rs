//! Entry points for fuzzers: what a peer sends, read as the server reads it.

use serde_json::Value;

use crate::http::service::Endpoint;
use crate::openai::error::ApiError;
use crate::openai::request::{Request, open};

/// Reads `body` as each of the generating routes does; taken if one takes it. A refusal is an object of the API;
/// whatever the body, there is no panic.
pub fn request_body(body: &[u8]) -> Result<(), String> {
    let read =
        |endpoint| open(body).and_then(|opened| Request::parse(endpoint, opened)).map(drop).map_err(|e| told(&e));
    let [chat, completion] = [Endpoint::Chat, Endpoint::Completions].map(read);
    chat.or(completion)
}

/// What a client is told.
fn told(error: &ApiError) -> String {
    let body = error.body();
    let told: Value = serde_json::from_slice(&body).expect("a refusal is JSON");
    assert!(told["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{told}");
    String::from_utf8_lossy(&body).into_owned()
}
