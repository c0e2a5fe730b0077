//! Reading manifests, the definitions of the resources, and conversion between their versions.

mod bad;
mod convert;
mod definitions;
mod examples;
mod kept;
mod server;
