//! Reviews of conversions never panic, and what was converted becomes itself again on the way back. True if the bytes were a
//! review.

use dynosim_api::convert::{LEFTOVERS_ANNOTATION, convert, review};
use serde_json::Value;

pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(asked) = serde_json::from_slice(data) else { return false };
    let Ok(sent) = serde_json::from_slice::<Value>(data) else { return false };
    let request = &sent["request"];
    let answer = serde_json::to_value(review(asked)).expect("an answer is JSON");
    let response = &answer["response"];
    let Some(converted) = response["convertedObjects"].as_array().filter(|list| !list.is_empty()) else {
        let failed = response["result"]["status"] != "Success";
        assert!(!failed || response["result"]["message"].as_str().is_some_and(|text| !text.is_empty()), "no reason");
        return true;
    };
    assert_eq!(response["uid"], request["uid"]);
    let objects = request["objects"].as_array().expect("objects were converted");
    assert_eq!(converted.len(), objects.len());
    for (object, converted) in objects.iter().zip(converted) {
        assert_eq!(converted["apiVersion"], request["desiredAPIVersion"]);
        assert_eq!(converted["metadata"]["name"], object["metadata"]["name"]);
        // What somebody has written into the annotation is taken for what it says.
        let is_ours = object["metadata"]["annotations"].get(LEFTOVERS_ANNOTATION).is_none();
        let back = convert(converted.clone(), object["apiVersion"].as_str().expect("a version")).expect("the way back");
        assert!(!is_ours || back == *object, "{object} came back as {back}");
    }
    true
}
