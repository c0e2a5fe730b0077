//! Names of a graph's children.

use dynosim_api::ComponentType;

/// Account of planners, one for all graphs of a namespace.
pub const PLANNER_ACCOUNT: &str = "planner-serviceaccount";
/// Digits of a worker hash.
pub const HASH_DIGITS: usize = 8;

/// Of all objects of a component that stay over generations.
pub fn child(graph: &str, lower: &str) -> String {
    format!("{graph}-{lower}")
}

/// Of a generation's Deployment.
pub fn generation(graph: &str, lower: &str, hash: &str) -> String {
    format!("{graph}-{lower}-{hash}")
}

/// Of a headless Service for a model.
pub fn model(graph: &str, model_hash: &str) -> String {
    format!("{graph}-model-{model_hash}")
}

/// Of the account that components find each other with.
pub fn discovery_account(graph: &str) -> String {
    format!("{graph}-k8s-service-discovery")
}

/// Of an account's role.
pub fn role(account: &str) -> String {
    format!("{account}-role")
}

/// Of an account's role binding.
pub fn binding(account: &str) -> String {
    format!("{account}-binding")
}

/// Length of the longest name that a component's children have.
pub fn longest(graph: &str, lower: &str, component_type: &ComponentType) -> usize {
    let suffix = if component_type.is_worker() { 1 + HASH_DIGITS } else { 0 };
    child(graph, lower).len() + suffix
}

/// The first digits of a hash of a text.
pub fn hash(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..HASH_DIGITS].to_owned()
}

/// Whether a name ends as a generation's does, after `before`.
pub fn is_generation_of(name: &str, before: &str) -> bool {
    let digits = name.strip_prefix(before).and_then(|rest| rest.strip_prefix('-'));
    digits.is_some_and(|digits| digits.len() == HASH_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}
