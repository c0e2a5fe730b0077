//! Bodies that are wrong, each with its status and the field that the error names.

use super::client::post;
use super::fake::{Fake, Script};
use crate::http::Limits;

/// Fields that are added to a good chat request, and what the error names.
const CHAT: [(&str, &str); 88] = [
    (r#""model": 1"#, "model"),
    (r#""model": """#, "model"),
    (r#""model": null"#, "model"),
    (r#""messages": null"#, "messages"),
    (r#""messages": []"#, "messages"),
    (r#""messages": "x""#, "messages"),
    (r#""messages": {"role": "user"}"#, "messages"),
    (r#""messages": [1]"#, "messages[0]"),
    (r#""messages": [{}]"#, "messages[0].role"),
    (r#""messages": [{"role": "bogus", "content": "x"}]"#, "messages[0].role"),
    (r#""messages": [{"role": 1, "content": "x"}]"#, "messages[0].role"),
    (r#""messages": [{"role": "user"}]"#, "messages[0].content"),
    (r#""messages": [{"role": "user", "content": null}]"#, "messages[0].content"),
    (r#""messages": [{"role": "user", "content": 5}]"#, "messages[0].content"),
    (r#""messages": [{"role": "user", "content": []}]"#, "messages[0].content"),
    (r#""messages": [{"role": "user", "content": "\ud800"}]"#, "messages[0].content"),
    (r#""messages": [{"role": "user", "content": "a"}, {"role": "user", "content": ["x"]}]"#, "messages[1].content[0]"),
    (
        r#""messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]"#,
        "messages[0].content[0].type",
    ),
    (r#""messages": [{"role": "user", "content": [{"type": "text"}]}]"#, "messages[0].content[0].text"),
    (r#""messages": [{"role": "user", "content": [{"type": "bogus"}]}]"#, "messages[0].content[0].type"),
    (r#""messages": [{"role": "user", "content": "x", "bogus": 1}]"#, "messages[0].bogus"),
    (r#""messages": [{"role": "user", "content": "x", "name": 1}]"#, "messages[0].name"),
    (r#""messages": [{"role": "assistant", "tool_calls": [1]}]"#, "messages[0].tool_calls"),
    (r#""max_tokens": 0"#, "max_tokens"),
    (r#""max_tokens": -1"#, "max_tokens"),
    (r#""max_tokens": 1.5"#, "max_tokens"),
    (r#""max_tokens": 1e3"#, "max_tokens"),
    (r#""max_tokens": "5""#, "max_tokens"),
    (r#""max_tokens": true"#, "max_tokens"),
    (r#""max_tokens": 1048577"#, "max_tokens"),
    (r#""max_tokens": 99999999999999999999999"#, "max_tokens"),
    (r#""max_completion_tokens": 0"#, "max_completion_tokens"),
    (r#""max_tokens": 4, "max_completion_tokens": 5"#, "max_completion_tokens"),
    (r#""min_tokens": -1"#, "min_tokens"),
    (r#""max_tokens": 4, "min_tokens": 5"#, "min_tokens"),
    (r#""n": 0"#, "n"),
    (r#""n": 2"#, "n"),
    (r#""n": "1""#, "n"),
    (r#""stop": """#, "stop"),
    (r#""stop": []"#, "stop"),
    (r#""stop": ["a", ""]"#, "stop[1]"),
    (r#""stop": ["a", 1]"#, "stop[1]"),
    (r#""stop": 5"#, "stop"),
    (r#""stop_token_ids": [-1]"#, "stop_token_ids[0]"),
    (r#""include_stop_str_in_output": true"#, "include_stop_str_in_output"),
    (r#""stream": "yes""#, "stream"),
    (r#""stream": 1"#, "stream"),
    (r#""stream_options": {"include_usage": true}"#, "stream_options"),
    (r#""stream": true, "stream_options": 5"#, "stream_options"),
    (r#""stream": true, "stream_options": {"bogus": 1}"#, "stream_options.bogus"),
    (r#""stream": true, "stream_options": {"include_usage": 1}"#, "stream_options.include_usage"),
    (r#""logprobs": true"#, "logprobs"),
    (r#""logprobs": 5"#, "logprobs"),
    (r#""top_logprobs": 3"#, "top_logprobs"),
    (r#""temperature": 2.1"#, "temperature"),
    (r#""temperature": -0.1"#, "temperature"),
    (r#""temperature": "1""#, "temperature"),
    (r#""temperature": 1e400"#, "temperature"),
    (r#""top_p": 1.5"#, "top_p"),
    (r#""top_k": -2"#, "top_k"),
    (r#""min_p": 2"#, "min_p"),
    (r#""presence_penalty": 3"#, "presence_penalty"),
    (r#""frequency_penalty": -3"#, "frequency_penalty"),
    (r#""repetition_penalty": 0"#, "repetition_penalty"),
    (r#""seed": 1.5"#, "seed"),
    (r#""seed": 9223372036854775808"#, "seed"),
    (r#""logit_bias": 5"#, "logit_bias"),
    (r#""logit_bias": {"a": 1}"#, "logit_bias.a"),
    (r#""logit_bias": {"5": 200}"#, "logit_bias.5"),
    (r#""user": 5"#, "user"),
    (r#""user": """#, "user"),
    (r#""metadata": {"a": 1}"#, "metadata.a"),
    (r#""store": "x""#, "store"),
    (r#""service_tier": "bogus""#, "service_tier"),
    (r#""tools": []"#, "tools"),
    (r#""tools": [{"type": "bogus"}]"#, "tools[0]"),
    (r#""tool_choice": "required""#, "tool_choice"),
    (r#""tool_choice": {"type": "function", "function": {"name": "f"}}"#, "tool_choice"),
    (r#""response_format": {"type": "json_object"}"#, "response_format.type"),
    (r#""modalities": ["audio"]"#, "modalities"),
    (r#""functions": []"#, "functions"),
    (r#""reasoning_effort": "bogus""#, "reasoning_effort"),
    (r#""ignore_eos": 5"#, "ignore_eos"),
    (r#""priority": "high""#, "priority"),
    (r#""nvext": 5"#, "nvext"),
    (r#""nvext": {"bogus": 1}"#, "nvext.bogus"),
    (r#""nvext": {"backend_instance_id": -5}"#, "nvext.backend_instance_id"),
    (r#""bogus": 1"#, "bogus"),
];

/// The same for a plain completion.
const PLAIN: [(&str, &str); 24] = [
    (r#""prompt": null"#, "prompt"),
    (r#""prompt": """#, "prompt"),
    (r#""prompt": []"#, "prompt"),
    (r#""prompt": [[]]"#, "prompt[0]"),
    (r#""prompt": [""]"#, "prompt[0]"),
    (r#""prompt": 5"#, "prompt"),
    (r#""prompt": {}"#, "prompt"),
    (r#""prompt": ["a", "b"]"#, "prompt"),
    (r#""prompt": [[1], [2]]"#, "prompt"),
    (r#""prompt": [2048]"#, "prompt"),
    (r#""prompt": [-1]"#, "prompt"),
    (r#""prompt": [1099511627776]"#, "prompt"),
    (r#""prompt": [1, "a"]"#, "prompt"),
    (r#""prompt": [1.5]"#, "prompt"),
    (r#""echo": true"#, "echo"),
    (r#""echo": 1"#, "echo"),
    (r#""suffix": "x""#, "suffix"),
    (r#""best_of": 2"#, "best_of"),
    (r#""logprobs": 0"#, "logprobs"),
    (r#""max_completion_tokens": 3"#, "max_completion_tokens"),
    (r#""messages": []"#, "messages"),
    (r#""tools": []"#, "tools"),
    (r#""n": 2"#, "n"),
    (r#""nvext": {"annotations": ["token_ids"]}"#, "nvext.annotations"),
];

/// A good body with `more` in place of its own fields of the same names.
fn body(good: &[(&str, &str)], more: &str) -> String {
    let kept = good.iter().filter(|(name, _)| !more.contains(&format!("\"{name}\":")));
    let fields: Vec<_> = kept.map(|(name, value)| format!("\"{name}\": {value}")).chain([more.to_owned()]).collect();
    format!("{{{}}}", fields.join(", "))
}

const GOOD_CHAT: [(&str, &str); 3] =
    [("model", "\"tiny\""), ("messages", r#"[{"role": "user", "content": "hi"}]"#), ("max_tokens", "2")];
const GOOD_PLAIN: [(&str, &str); 3] = [("model", "\"tiny\""), ("prompt", "\"hello\""), ("max_tokens", "2")];

#[tokio::test]
async fn every_wrong_field_is_named_with_what_is_allowed() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let chat = CHAT.iter().map(|case| ("/v1/chat/completions", &GOOD_CHAT, case));
    let plain = PLAIN.iter().map(|case| ("/v1/completions", &GOOD_PLAIN, case));
    for (path, good, (more, param)) in chat.chain(plain) {
        let body = body(good, more);
        let reply = post(server.local_address(), path, body.as_bytes(), "").await;
        assert_eq!(reply.status, 400, "{body}: {}", reply.body);
        let error = &reply.json()["error"];
        assert_eq!(error["param"], *param, "{body}: {}", reply.body);
        assert_eq!(error["type"], "invalid_request_error", "{body}");
        assert!(error["message"].as_str().unwrap().starts_with(&format!("{param}: ")), "{body}: {error}");
    }
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_refused_as_a_whole() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let good = body(&GOOD_CHAT, r#""user": "u""#);
    let deep = format!(r#"{{"model": "tiny", "messages": {}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let fields: Vec<_> = (0..200).map(|i| format!("\"f{i}\": 1")).collect();
    let twice = good.replace(r#""max_tokens": 2"#, r#""max_tokens": 2, "max_tokens": 3"#);
    let bodies: [(&str, Vec<u8>); 13] = [
        ("empty", Vec::new()),
        ("text", b"hello".to_vec()),
        ("list", b"[]".to_vec()),
        ("null", b"null".to_vec()),
        ("no end", good.as_bytes()[..good.len() - 3].to_vec()),
        ("more behind", format!("{good} x").into_bytes()),
        ("NaN", good.replace("\"u\"", "NaN").into_bytes()),
        ("not UTF-8", good.replace("hi", "?").bytes().map(|b| if b == b'?' { 0xff } else { b }).collect()),
        ("byte order mark", format!("\u{feff}{good}").into_bytes()),
        ("twice the same field", twice.into_bytes()),
        ("many fields", format!("{{{}}}", fields.join(", ")).into_bytes()),
        ("control character", good.replace("hi", "h\u{1}i").into_bytes()),
        ("deep", deep.into_bytes()),
    ];
    for (what, body) in bodies {
        let reply = post(server.local_address(), "/v1/chat/completions", &body, "").await;
        assert_eq!(reply.status, 400, "{what}: {}", reply.body);
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("body: ") || what == "deep", "{what}: {message}");
    }
}

#[tokio::test]
async fn unknown_models_and_prompts_over_the_context_have_their_code() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let long = format!("\"prompt\": \"{}\"", "x".repeat(4096));
    for (more, status, code) in [
        (r#""model": "none""#, 404, "model_not_found"),
        (long.as_str(), 400, "context_length_exceeded"),
        (r#""max_tokens": 4092"#, 400, "context_length_exceeded"),
    ] {
        let body = body(&GOOD_PLAIN, more);
        let reply = post(server.local_address(), "/v1/completions", body.as_bytes(), "").await;
        assert_eq!((reply.status, reply.json()["error"]["code"].as_str()), (status, Some(code)), "{}", reply.body);
    }
}

#[tokio::test]
async fn what_clients_always_send_is_taken() {
    let (server, _) = Fake::new(Script::Words).start(Limits::default()).await;
    let chat = r#""temperature": 0.7, "top_p": 1, "top_k": -1, "min_p": 0, "presence_penalty": 0, "frequency_penalty": -2,
        "repetition_penalty": 1.1, "seed": -5, "logit_bias": {"5": -100}, "user": "u", "metadata": {"a": "b"},
        "store": false, "service_tier": "auto", "n": 1, "stop": null, "tools": null, "logprobs": false, "stream": false,
        "stream_options": null, "response_format": {"type": "text"}, "modalities": ["text"], "tool_choice": "auto",
        "parallel_tool_calls": true, "reasoning_effort": "low", "ignore_eos": true, "priority": 1, "stop_token_ids": [],
        "max_completion_tokens": 2, "add_generation_prompt": true, "nvext": {"greed_sampling": true}"#;
    let reply = post(server.local_address(), "/v1/chat/completions", body(&GOOD_CHAT, chat).as_bytes(), "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let answered = r#""messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "refusal": null,
        "audio": null, "function_call": null, "annotations": null, "tool_calls": [{"id": "a", "type": "function",
        "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]"#;
    let reply = post(server.local_address(), "/v1/chat/completions", body(&GOOD_CHAT, answered).as_bytes(), "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    let plain = r#""echo": false, "best_of": 1, "suffix": null, "logprobs": null"#;
    let reply = post(server.local_address(), "/v1/completions", body(&GOOD_PLAIN, plain).as_bytes(), "").await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}
