//! Reading manifests.

mod bad;
mod examples;
mod kept;
