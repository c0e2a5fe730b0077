//! Scaling adapters.

use serde_json::Value;

use super::{Fields, Translation, rename};

pub(super) const TRANSLATION: Translation = Translation {
    to_beta: |adapter| renamed(adapter, "serviceName", "componentName"),
    to_alpha: |adapter| renamed(adapter, "componentName", "serviceName"),
    alpha_group: <[String]>::to_vec,
    beta_group: <[String]>::to_vec,
};

fn renamed(mut adapter: Fields, from: &str, to: &str) -> Fields {
    if let Some(Value::Object(reference)) = adapter.get_mut("spec").and_then(|spec| spec.get_mut("dgdRef")) {
        rename(reference, from, to);
    }
    adapter
}
