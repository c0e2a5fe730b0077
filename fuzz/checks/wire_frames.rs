//! Frames of the request and the response plane never panic, and keep the lengths that their readers rely on.
//!
//! The first byte picks the way in: requests, their answers, or responses. True if all was understood.

use dynosim_wire::fuzzing::{request_answers, request_frames, response_frames};

pub(crate) fn check(data: &[u8]) -> bool {
    let Some((way, data)) = data.split_first() else { return false };
    match way % 3 {
        0 => request_frames(data),
        1 => request_answers(data),
        _ => response_frames(data),
    }
}
