//! Frames of the handshake between a prefill and a decode worker.
