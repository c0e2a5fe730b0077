//! Frames of the request plane over TCP.
