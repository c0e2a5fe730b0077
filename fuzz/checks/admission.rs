//! Admission never panics, refuses only with a reason, says the same in both webhooks, and changes nothing further of what it
//! has changed. True if the bytes were a review.

use dynosim_operator::Config;
use dynosim_operator::admission::{Admission, Answer, Question};
use serde_json::Value;

pub(crate) fn check(data: &[u8]) -> bool {
    let Ok(mut review) = serde_json::from_slice::<Value>(data) else { return false };
    let Some(mutated) = answer(Question::MutateGraph, &review) else { return false };
    let validated = answer(Question::ValidateGraph, &review).expect("the same review");
    let adapter = answer(Question::ValidateAdapter, &review).expect("the same review");
    for answer in [&mutated, &validated, &adapter] {
        let refused = answer.denial.is_some();
        assert_eq!(refused, !answer.response.allowed);
        assert_eq!(refused, !answer.response.result.message.is_empty(), "{answer:?}");
    }
    if !mutated.response.allowed {
        assert_eq!(mutated.response.result, validated.response.result);
        return true;
    }
    let Some(patch) = &mutated.response.patch else { return true };
    let patch: Value = serde_json::from_slice(patch).expect("a patch");
    for change in patch.as_array().expect("a list") {
        apply(&mut review["request"]["object"], change);
    }
    let again = answer(Question::MutateGraph, &review).expect("still a review");
    assert!(again.response.allowed && again.response.patch.is_none(), "{again:?}");
    let validated = answer(Question::ValidateGraph, &review).expect("still a review");
    assert!(validated.response.allowed, "{validated:?}");
    true
}

fn answer(question: Question, review: &Value) -> Option<Answer> {
    let config = Config::default();
    let admission = Admission { config: &config, operator: "system:serviceaccount:dynosim-system:dynosim-operator" };
    Some(admission.answer(question, serde_json::from_value(review.clone()).ok()?))
}

/// Adds what a change adds.
fn apply(object: &mut Value, change: &Value) {
    assert_eq!(change["op"], "add");
    let (parent, field) = change["path"].as_str().and_then(|path| path.rsplit_once('/')).expect("a path");
    object.pointer_mut(parent).expect("a place")[field.replace("~1", "/")] = change["value"].clone();
}
