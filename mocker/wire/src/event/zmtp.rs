//! ZeroMQ sockets: ZMTP 3 over TCP, NULL security.
