//! The webhooks on a real API server, called and trusted by it as in a cluster; but by addresses, as nobody leads services
//! anywhere.

mod answers;
mod cluster;
mod trust;
