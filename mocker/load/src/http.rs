//! Responses of HTTP/1.1, as they come.

mod body;
mod head;

pub(crate) use body::{Body, Piece};
pub(crate) use head::{Head, Media, parse_head};
