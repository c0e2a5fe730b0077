//! Manifests that cannot be used, each with its whole message.

use dynosim_api::Manifest;
use dynosim_api::manifest::MAX_MANIFEST_BYTES;

fn graph(version: &str, spec: &str) -> String {
    format!("{{apiVersion: nvidia.com/{version}, kind: DynamoGraphDeployment, metadata: {{name: g}}, spec: {spec}}}")
}

fn beta(components: &str) -> String {
    graph("v1beta1", &format!("{{components: {components}}}"))
}

#[test]
fn every_bad_manifest_is_refused_with_its_place_and_reason() {
    let name = "document 1, DynamoGraphDeployment/g";
    let rows = [
        ("5".to_owned(), "document 1: not an object with fields".to_owned()),
        ("[1]".to_owned(), "document 1: not an object with fields".to_owned()),
        ("{kind: Pod}".to_owned(), "document 1: apiVersion: missing".to_owned()),
        ("{apiVersion: v1}".to_owned(), "document 1: kind: missing".to_owned()),
        ("{apiVersion: 1, kind: Pod}".to_owned(), "document 1: apiVersion: not a text".to_owned()),
        ("{apiVersion: v1, kind: List, items: 3}".to_owned(), "document 1: items: not a list".to_owned()),
        (
            graph("v1", "{}"),
            "document 1: apiVersion: `nvidia.com/v1` is not served (allowed: nvidia.com/v1beta1, nvidia.com/v1alpha1)"
                .to_owned(),
        ),
        (beta("[]"), format!("{name}: spec: has no components, at least 1 is needed")),
        (graph("v1alpha1", "{services: {}}"), format!("{name}: spec: has no components, at least 1 is needed")),
        (graph("v1beta1", "{}"), format!("{name}: spec: missing field `components`")),
        (graph("v1alpha1", "{}"), format!("{name}: spec: missing field `services`")),
        (
            beta("[{name: a}, {name: A}]"),
            format!("{name}: spec.components[1].name: `A` is also the name of spec.components[0] (case does not count)"),
        ),
        (
            beta("[{name: a_b}]"),
            format!("{name}: spec.components[0].name: `a_b` cannot be used (allowed: 1 to 63 letters, digits and hyphens)"),
        ),
        (
            beta("[{name: ''}]"),
            format!("{name}: spec.components[0].name: `` cannot be used (allowed: 1 to 63 letters, digits and hyphens)"),
        ),
        (
            graph("v1alpha1", "{services: {a: {replicas: -1}}}"),
            format!("{name}: spec.services.a.replicas: -1 cannot be used (allowed: 0 and more)"),
        ),
        (
            "{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {}, spec: {components: [{name: a}]}}"
                .to_owned(),
            "document 1, DynamoGraphDeployment/: metadata.name: missing".to_owned(),
        ),
        (
            beta(&format!("[{}]", (0..26).map(|n| format!("{{name: c{n}}}")).collect::<Vec<_>>().join(", "))),
            format!("{name}: spec: has 26 components, 25 are allowed"),
        ),
    ];
    for (text, message) in rows {
        assert_eq!(Manifest::read(&text).expect_err(&text).to_string(), message, "{text}");
    }
}

#[test]
fn a_field_of_the_wrong_type_is_named_by_its_path() {
    for (text, path) in [
        (beta("[{name: a, replicas: many}]"), "spec.components[0].replicas"),
        (beta("[{name: 1}]"), "spec.components[0].name"),
        (beta("{name: a}"), "spec.components"),
        (graph("v1alpha1", "{services: {a: {envs: {}}}}"), "spec.services.a.envs"),
        (graph("v1alpha1", "{services: [a]}"), "spec.services"),
        (
            graph("v1alpha1", "{services: {a: {extraPodSpec: {mainContainer: {args: x}}}}}"),
            "spec.services.a.extraPodSpec.mainContainer.args",
        ),
    ] {
        let message = Manifest::read(&text).expect_err(&text).to_string();
        // Buffered for unknown fields, deeper paths end at the structure that holds them.
        let place = format!("DynamoGraphDeployment/g: {path}: ");
        assert!(message.contains(&place), "{message} does not name {path}");
    }
}

#[test]
fn what_is_too_large_or_no_yaml_is_refused() {
    let large = "#".repeat(MAX_MANIFEST_BYTES + 1);
    assert_eq!(
        Manifest::read(&large).expect_err("too large").to_string(),
        format!("{} bytes, {MAX_MANIFEST_BYTES} are allowed", MAX_MANIFEST_BYTES + 1)
    );
    let many = "---\na: 1\n".repeat(1001);
    assert_eq!(Manifest::read(&many).expect_err("too many").to_string(), "1001 documents, 1000 are allowed");
    for text in ["a: [", "a: b: c", "\t- a", "{a: 1, a: 2}", "&a [*b]"] {
        assert!(Manifest::read(text).is_err(), "{text}");
    }
}
