//! Conversion between the versions.

mod arbitrary;
mod changes;
mod fields;
mod review;
mod round_trip;

use dynosim_api::convert::{LEFTOVERS_ANNOTATION, convert};
use serde_json::{Value, json};

const ALPHA: &str = "nvidia.com/v1alpha1";
const BETA: &str = "nvidia.com/v1beta1";

fn graph(version: &str, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": "DynamoGraphDeployment", "metadata": {"name": "g"}, "spec": spec})
}

fn to_beta(alpha: &Value) -> Value {
    convert(alpha.clone(), BETA).expect("converted")
}

fn to_alpha(beta: &Value) -> Value {
    convert(beta.clone(), ALPHA).expect("converted")
}

/// What was left over, if anything was.
fn leftovers(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][LEFTOVERS_ANNOTATION].as_str()
}
