//! The answers to an API server.

use dynosim_api::convert::review;
use serde_json::{Value, json};

use super::{ALPHA, BETA, graph};

fn answer(request: &Value) -> Value {
    let review_ = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    serde_json::to_value(review(serde_json::from_value(review_).expect("a review"))).expect("JSON")
}

#[test]
fn all_objects_are_converted_in_their_order() {
    let objects = [
        graph(ALPHA, &json!({"services": {"a": {"componentType": "frontend"}}})),
        graph(BETA, &json!({"components": [{"name": "b"}]})),
    ];
    let answer = answer(&json!({"uid": "u", "desiredAPIVersion": BETA, "objects": objects}));
    let converted = [
        graph(BETA, &json!({"components": [{"name": "a", "type": "frontend"}]})),
        graph(BETA, &json!({"components": [{"name": "b"}]})),
    ];
    assert_eq!(
        answer,
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": converted},
        })
    );
}

#[test]
fn what_cannot_be_converted_is_said() {
    let good = graph(BETA, &json!({}));
    let with = |field: &str, value: Value| {
        let mut object = good.clone();
        object[field] = value;
        object
    };
    let kinds = "DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter";
    let versions = "nvidia.com/v1beta1, nvidia.com/v1alpha1";
    for (object, wanted, message) in [
        (with("kind", "Pod".into()), ALPHA, format!("kind: `Pod` cannot be converted (allowed: {kinds})")),
        (with("kind", 3.into()), ALPHA, "kind: missing or of the wrong type".to_owned()),
        (with("apiVersion", "v1".into()), ALPHA, format!("apiVersion: `v1` is not served (allowed: {versions})")),
        (with("metadata", Value::Null), ALPHA, "metadata: missing or of the wrong type".to_owned()),
        (good.clone(), "nvidia.com/v2", format!("apiVersion: `nvidia.com/v2` is not served (allowed: {versions})")),
        (json!([]), ALPHA, "object: missing or of the wrong type".to_owned()),
    ] {
        let objects = [good.clone(), object];
        let answer = answer(&json!({"uid": "u", "desiredAPIVersion": wanted, "objects": objects}));
        let result = json!({"status": "Failure", "message": message, "reason": "Invalid"});
        assert_eq!(answer["response"], json!({"uid": "u", "result": result, "convertedObjects": []}));
    }
}

#[test]
fn a_review_without_a_request_is_refused() {
    let result = &answer(&Value::Null)["response"]["result"];
    assert_eq!(result["message"], "request missing in ConversionReview");
}
