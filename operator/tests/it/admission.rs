//! Answers to reviews: what is refused with which words, what is changed, what is warned of.

use dynosim_operator::Config;
use dynosim_operator::admission::{Admission, Answer, Denial, Question};
use serde_json::{Value, json};

use crate::manifests::stored;

const ORIGIN: &str = "nvidia.com/dynamo-operator-origin-version";
const OPERATOR: &str = "system:serviceaccount:dynosim-system:dynosim-operator";
const PLANNER: &str = "system:serviceaccount:test:planner-serviceaccount";
const SOMEBODY: &str = "somebody";

/// A review; without an object that was there before, of a creation.
fn review(user: &str, new: &Value, old: Option<&Value>) -> Value {
    let kind = |version: &str| json!({"group": "nvidia.com", "version": version, "kind": "DynamoGraphDeployment"});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": kind("v1beta1"),
            "requestKind": kind("v1beta1"),
            "resource": {"group": "nvidia.com", "version": "v1beta1", "resource": "dynamographdeployments"},
            "namespace": "test",
            "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
            "userInfo": {"username": user},
            "object": new,
            "oldObject": old,
        },
    })
}

fn ask_review(question: Question, review: Value) -> Answer {
    let config = Config::default();
    let admission = Admission { config: &config, operator: OPERATOR };
    admission.answer(question, serde_json::from_value(review).expect("a review"))
}

fn ask(question: Question, user: &str, new: &Value, old: Option<&Value>) -> Answer {
    ask_review(question, review(user, new, old))
}

/// The errors of a refusal, one by one.
fn errors(answer: &Answer) -> Vec<String> {
    let details = answer.response.result.details.iter();
    details.flat_map(|details| &details.causes).map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

fn warnings(answer: &Answer) -> Vec<String> {
    answer.response.warnings.clone().unwrap_or_default()
}

/// The changes that an answer makes.
fn patch(answer: &Answer) -> Value {
    let text = answer.response.patch.as_deref().unwrap_or(b"[]");
    serde_json::from_slice(text).expect("a patch")
}

fn graph(metadata: &Value, spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
    let mut graph = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "spec": spec});
    graph["metadata"] = metadata.clone();
    graph
}

/// A graph with this spec.
fn beta(spec: &str) -> Value {
    graph(&json!({"name": "g", "namespace": "test"}), spec)
}

/// A graph with a frontend and a worker that has these fields besides.
fn worker(fields: &str) -> Value {
    let main = "{name: main, args: [--model-path, m]}";
    beta(&format!(
        "{{components: [{{name: F, type: frontend, replicas: 1}}, {{name: Decode, type: decode, podTemplate: {{spec: {{containers: [{main}]}}}}, {fields}}}]}}"
    ))
}

/// What an API server gives to webhooks where somebody has sent the older version.
fn sent_as_alpha(spec: &str) -> Value {
    let spec: Value = serde_saphyr::from_str(spec).expect("YAML");
    let alpha = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"}, "spec": spec});
    let beta = serde_json::to_value(stored(alpha)).expect("JSON");
    let mut review = review(SOMEBODY, &beta, None);
    review["request"]["requestKind"]["version"] = "v1alpha1".into();
    review
}

#[test]
fn replicas_that_are_not_given_become_one() {
    let new = beta(
        "{components: [{name: a, type: frontend}, {name: b, type: frontend, replicas: 0}, {name: c, type: frontend, replicas: null}]}",
    );
    let answer = ask(Question::MutateGraph, SOMEBODY, &new, None);
    assert!(answer.response.allowed, "{:?}", errors(&answer));
    assert_eq!(warnings(&answer), [""; 0]);
    let version = env!("CARGO_PKG_VERSION");
    let replicas = json!([
        {"op": "add", "path": "/spec/components/0/replicas", "value": 1},
        {"op": "add", "path": "/spec/components/2/replicas", "value": 1},
    ]);
    let mut all = replicas.clone();
    all.as_array_mut()
        .expect("a list")
        .push(json!({"op": "add", "path": "/metadata/annotations", "value": {ORIGIN: version}}));
    assert_eq!(patch(&answer), all);
    // Every write, not only the first.
    assert_eq!(patch(&ask(Question::MutateGraph, SOMEBODY, &new, Some(&new))), replicas);
    // Where nothing is to change, nothing does.
    let whole = beta("{components: [{name: a, type: frontend, replicas: 3}]}");
    assert_eq!(ask(Question::MutateGraph, SOMEBODY, &whole, Some(&whole)).response.patch, None);
}

#[test]
fn a_new_graph_is_stamped_beside_its_annotations() {
    let made = |annotations: Value| {
        let metadata = json!({"name": "g", "annotations": annotations});
        patch(&ask(
            Question::MutateGraph,
            SOMEBODY,
            &graph(&metadata, "{components: [{name: a, type: frontend, replicas: 1}]}"),
            None,
        ))
    };
    let path = "/metadata/annotations/nvidia.com~1dynamo-operator-origin-version";
    assert_eq!(made(json!({"a": "b"})), json!([{"op": "add", "path": path, "value": env!("CARGO_PKG_VERSION")}]));
    assert_eq!(made(json!({ORIGIN: "0.9.0"})), json!([]), "one that comes from a backup stays");
}

#[test]
fn replicas_of_which_an_adapter_decides_stay() {
    let stored = worker("replicas: 4, scalingAdapter: {}");
    let sent = worker("replicas: 1, scalingAdapter: {}");
    let answer = ask(Question::MutateGraph, SOMEBODY, &sent, Some(&stored));
    assert!(answer.response.allowed);
    assert_eq!(patch(&answer), json!([{"op": "add", "path": "/spec/components/1/replicas", "value": 4}]));
    assert_eq!(
        warnings(&answer),
        [
            "spec.components[1].replicas: stays 4, its scaling adapter sets it: kubectl scale dgdsa/g-decode --replicas=1"
        ]
    );
    // Who does not say, has nothing to be told.
    let silent = ask(Question::MutateGraph, SOMEBODY, &worker("scalingAdapter: {}"), Some(&stored));
    assert_eq!(patch(&silent), patch(&answer));
    assert_eq!(warnings(&silent), [""; 0]);
    // A planner of another namespace has no say.
    let other = PLANNER.replace("test", "other");
    assert_eq!(patch(&ask(Question::MutateGraph, &other, &sent, Some(&stored))), patch(&answer));
}

#[test]
fn replicas_change_where_no_adapter_decides() {
    let (with, without) = (worker("replicas: 4, scalingAdapter: {}"), worker("replicas: 4"));
    let (to_one, to_one_with) = (worker("replicas: 1"), worker("replicas: 1, scalingAdapter: {}"));
    for (user, sent, stored) in [
        (OPERATOR, &to_one_with, &with),
        (PLANNER, &to_one_with, &with),
        (SOMEBODY, &to_one, &without),
        // The adapter starts from what the graph says.
        (SOMEBODY, &to_one_with, &without),
        (SOMEBODY, &to_one, &with),
    ] {
        let answer = ask(Question::MutateGraph, user, sent, Some(stored));
        assert_eq!((patch(&answer), warnings(&answer)), (json!([]), Vec::new()), "{user}");
    }
}

/// Both questions about a graph that is refused.
fn refused(new: &Value, old: Option<&Value>) -> Vec<String> {
    let [first, second] = [Question::MutateGraph, Question::ValidateGraph].map(|question| {
        let answer = ask(question, SOMEBODY, new, old);
        assert_eq!(answer.response.allowed, errors(&answer).is_empty());
        assert_eq!(answer.denial.is_some(), !answer.response.allowed);
        errors(&answer)
    });
    assert_eq!(first, second);
    first
}

#[test]
fn all_errors_are_told_at_once_in_one_text_and_one_by_one() {
    let new =
        beta("{restart: {id: x}, components: [{name: a, type: frontend, replicas: -1}, {name: b_, type: frontend}]}");
    let all = [
        "spec.components[1].name: `b_` cannot be used (allowed: 1 to 63 letters, digits and hyphens, hyphens only inside)",
        "spec.components[0].replicas: -1 cannot be used (allowed: 0 and more)",
        "spec.restart: cannot be given when a graph is created, there is nothing to restart",
    ];
    assert_eq!(refused(&new, None), all);
    let answer = ask(Question::ValidateGraph, SOMEBODY, &new, None);
    assert_eq!(answer.response.result.message, all.join("; "));
    assert_eq!((answer.response.result.code, answer.response.result.reason.as_str()), (422, "Invalid"));
    assert_eq!(answer.denial, Some(Denial::Invalid));
}

#[test]
fn some_fields_cannot_be_changed() {
    let one = |fields: &str, component: &str| {
        beta(&format!("{{{fields} components: [{{name: A, type: frontend, replicas: 1, {component}}}]}}"))
    };
    let provided = |spec: &str| {
        graph(
            &json!({"name": "g", "namespace": "test", "annotations": {"nvidia.com/workload-provider": "component"}}),
            spec,
        )
    };
    let plain = "{components: [{name: A, type: frontend, replicas: 1}]}";
    for (old, new, message) in [
        (
            one("backendFramework: vllm,", ""),
            one("backendFramework: sglang,", ""),
            "spec.backendFramework: cannot be changed, it is vllm",
        ),
        (one("backendFramework: vllm,", ""), one("", ""), "spec.backendFramework: cannot be changed, it is vllm"),
        (
            one("topologyConstraint: {a: b},", ""),
            one("topologyConstraint: {a: c},", ""),
            "spec.topologyConstraint: cannot be changed once it is set",
        ),
        (
            one("", "topologyConstraint: {a: b}"),
            one("", ""),
            "spec.components[0].topologyConstraint: cannot be changed once it is set",
        ),
        (
            one("", "minAvailable: 1"),
            one("", "minAvailable: 2"),
            "spec.components[0].minAvailable: cannot be changed, it is 1",
        ),
        (
            beta("{components: [{name: a, type: worker, replicas: 1}]}"),
            one("", ""),
            "spec.components[0].type: cannot be changed, it is worker: use another name for a component of another type",
        ),
        (
            provided(plain),
            beta(plain),
            "metadata.annotations[nvidia.com/workload-provider]: cannot be changed, it is component",
        ),
    ] {
        assert_eq!(refused(&new, Some(&old)), [message]);
        assert_eq!(ask(Question::ValidateGraph, SOMEBODY, &new, Some(&old)).denial, Some(Denial::Immutable));
    }
    // What was not set before may be set, and components come and go.
    let more = beta(
        "{backendFramework: vllm, topologyConstraint: {a: b}, components: [{name: B, type: frontend, replicas: 1}]}",
    );
    assert_eq!(refused(&more, Some(&one("", ""))), [""; 0]);
    assert_eq!(refused(&provided(plain), Some(&beta(plain))), [""; 0]);
    let untyped = beta("{components: [{name: A, replicas: 1}]}");
    assert_eq!(refused(&one("", ""), Some(&untyped)), [""; 0]);
}

#[test]
fn a_restart_waits_for_a_rolling_update() {
    let with = |restart: &str, phase: &str| {
        let mut graph = beta(&format!("{{{restart} components: [{{name: a, type: frontend, replicas: 1}}]}}"));
        graph["status"] = json!({"rollingUpdate": {"phase": phase}});
        graph
    };
    for phase in ["Pending", "InProgress"] {
        let message = format!(
            "spec.restart.id: cannot be changed while workers are being replaced (status.rollingUpdate.phase: {phase})"
        );
        for before in ["", "restart: {id: '1'},"] {
            assert_eq!(refused(&with("restart: {id: '2'},", ""), Some(&with(before, phase))), [message.as_str()]);
        }
        let same = with("restart: {id: '1'},", phase);
        assert_eq!(refused(&same, Some(&same)), [""; 0]);
        assert_eq!(refused(&with("", ""), Some(&same)), [""; 0]);
    }
    for phase in ["", "Completed", "Failed"] {
        assert_eq!(refused(&with("restart: {id: '2'},", ""), Some(&with("restart: {id: '1'},", phase))), [""; 0]);
    }
}

#[test]
fn a_graph_that_was_stored_with_errors_may_get_labels() {
    let spec = "{components: [{name: a, type: frontend, multinode: {}}]}";
    let old = graph(&json!({"name": "g"}), spec);
    let labelled = graph(&json!({"name": "g", "labels": {"a": "b"}}), spec);
    assert_eq!(refused(&labelled, Some(&old)), [""; 0]);
    let multinode = "spec.components[0].multinode: 2 nodes per replica cannot be had: a component is one pod here. A simulated engine needs no more nodes for more ranks or GPUs (--data-parallel-size, --ais-tp-size); take `multinode` out";
    assert_eq!(refused(&labelled, None), [multinode]);
    let scaled = graph(&json!({"name": "g"}), "{components: [{name: a, type: frontend, replicas: 2, multinode: {}}]}");
    assert_eq!(refused(&scaled, Some(&old)), [multinode], "another spec is looked at as a whole");
    // New errors in what stands beside the spec do count.
    let annotated = graph(&json!({"name": "g", "annotations": {"dynosim/image-policy": "mine"}}), spec);
    assert_eq!(
        refused(&annotated, Some(&old)),
        ["metadata.annotations[dynosim/image-policy]: `mine` cannot be used (allowed: Mocker, Manifest)"]
    );
}

#[test]
fn what_is_being_deleted_or_is_no_graph_is_let_through() {
    let bad = graph(
        &json!({"name": "g", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []}),
        "{components: [{name: a, replicas: -1}]}",
    );
    for question in [Question::MutateGraph, Question::ValidateGraph] {
        let answer = ask(question, SOMEBODY, &bad, Some(&bad));
        assert_eq!((answer.response.allowed, answer.response.patch), (true, None));
        let mut of_status = review(SOMEBODY, &beta("{components: []}"), None);
        of_status["request"]["subResource"] = "status".into();
        assert!(ask_review(question, of_status).response.allowed);
        let mut deletion = review(SOMEBODY, &Value::Null, Some(&beta("{components: []}")));
        deletion["request"]["operation"] = "DELETE".into();
        assert!(ask_review(question, deletion).response.allowed);
    }
}

#[test]
fn what_cannot_be_read_is_named_by_its_path() {
    for (spec, message) in [
        (
            "{components: [{name: a}, {name: b, podTemplate: {spec: {containers: [{name: main, ports: [{containerPort: http}]}]}}}]}",
            "spec.components[1].podTemplate.spec.containers[0].ports[0].containerPort: invalid type: string \"http\", expected i32",
        ),
        (
            "{components: [{name: a, replicas: 5000000000}]}",
            "spec.components[0].replicas: invalid value: integer `5000000000`, expected i32",
        ),
        ("{components: [{type: frontend}]}", "spec.components[0]: missing field `name`"),
        ("{restart: {id: 1}, components: []}", "spec.restart.id: invalid type: integer `1`, expected a string"),
        ("{}", "spec: missing field `components`"),
    ] {
        let answer = ask(Question::ValidateGraph, SOMEBODY, &beta(spec), None);
        assert_eq!(errors(&answer), [message]);
        // The check against the definition, which comes in between, names all.
        let mutated = ask(Question::MutateGraph, SOMEBODY, &beta(spec), None);
        assert_eq!((mutated.response.allowed, patch(&mutated)), (true, json!([])));
    }
}

#[test]
fn a_name_that_is_yet_to_be_made_up_counts() {
    let spec = "{components: [{name: a, type: frontend, replicas: 1}]}";
    assert_eq!(refused(&graph(&json!({"generateName": "g-"}), spec), None), [""; 0]);
    let long = "g".repeat(50);
    assert_eq!(
        refused(&graph(&json!({"generateName": long, "namespace": "ten-letter"}), spec), None),
        [format!(
            "metadata.name: `ten-letter-{long}00000`, its namespace and name, is a label of all pods and has 66 characters (allowed: 63)"
        )]
    );
}

#[test]
fn who_sends_the_older_version_reads_its_paths() {
    let answer = ask_review(
        Question::ValidateGraph,
        sent_as_alpha(
            "{envs: [{name: ''}], services: {
                A: {componentType: worker, subComponentType: decode, replicas: -1, envs: [{name: ''}], livenessProbe: {},
                    sharedMemory: {size: much}, extraPodMetadata: {annotations: {dynosim/image-policy: mine}},
                    labels: {a: b/c}, volumeMounts: [{name: V, mountPoint: c, useAsCompilationCache: true}],
                    extraPodSpec: {restartPolicy: Never, mainContainer: {image: i, args: [--model-path, m, --num-workers, '0']},
                        containers: [{name: side, image: i, ports: [{containerPort: 0}]}]}},
                a: {componentType: frontend, extraPodSpec: {mainContainer: {env: [{name: A=B}]}}}}}",
        ),
    );
    let paths: Vec<_> =
        errors(&answer).iter().map(|error| error.split(": ").next().unwrap_or_default().to_owned()).collect();
    assert_eq!(
        paths,
        [
            "spec.envs[0].name",
            "spec.services.a.name",
            "spec.services.A.labels[a]",
            "spec.services.A.sharedMemory.size",
            "spec.services.A.volumeMounts[0].name",
            "spec.services.A.volumeMounts[0].mountPoint",
            "spec.services.A.extraPodSpec.restartPolicy",
            "spec.services.A.envs[0].name",
            "spec.services.A.livenessProbe",
            "spec.services.A.extraPodSpec.containers[0].ports[0].containerPort",
            "spec.services.A.extraPodMetadata.annotations[dynosim/image-policy]",
            "spec.services.A.extraPodSpec.mainContainer.args",
            "spec.services.a.extraPodSpec.mainContainer.env[0].name",
        ]
    );
    assert!(
        errors(&answer)[1].ends_with("`a` is also the name of spec.services.A (case does not count)"),
        "{:?}",
        errors(&answer)
    );
}

#[test]
fn unknown_fields_are_warned_of_in_the_version_that_was_sent() {
    let new = beta("{components: [{name: a, type: frontend, replica: 2, modelRef: {name: m, revisoin: r}}]}");
    let answer = ask(Question::ValidateGraph, SOMEBODY, &new, None);
    assert!(answer.response.allowed);
    assert_eq!(
        warnings(&answer),
        [
            "spec.components[0].replica: is not known here, it is kept",
            "spec.components[0].modelRef.revisoin: is not known here, it is kept",
        ]
    );
    let metadata = |labels: Value| json!({"name": "g", "namespace": "test", "labels": labels});
    let labelled = graph(&metadata(json!({"a": "b"})), "{components: [{name: a, type: frontend, replica: 2}]}");
    let before = graph(&metadata(json!({})), "{components: [{name: a, type: frontend, replica: 2}]}");
    assert_eq!(warnings(&ask(Question::ValidateGraph, SOMEBODY, &labelled, Some(&before))), [""; 0], "said already");
    let older = sent_as_alpha(
        "{services: {a: {componentType: frontend, replica: 2, autoscaling: {enabled: true}, ingress: {hots: h}}}}",
    );
    assert_eq!(
        warnings(&ask_review(Question::ValidateGraph, older)),
        [
            "spec.services.a.replica: is not known here, it is kept",
            "spec.services.a.autoscaling: is deprecated and has no effect, use scalingAdapter",
            "spec.services.a.ingress.hots: is not known here, it is kept",
        ]
    );
}

#[test]
fn adapters_point_at_one_component_for_good() {
    let adapter = |spec: Value| json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter", "metadata": {"name": "g-a"}, "spec": spec});
    let good = adapter(json!({"replicas": 0, "dgdRef": {"name": "g", "componentName": "A"}}));
    let grouped = adapter(json!({"replicas": 0, "dgdRef": {"name": "g", "componentGroupName": "A"}}));
    for new in [&good, &grouped] {
        assert!(ask(Question::ValidateAdapter, SOMEBODY, new, Some(new)).response.allowed);
    }
    let other = adapter(json!({"replicas": 0, "dgdRef": {"name": "h", "componentName": "A"}}));
    for (new, old, messages, denial) in [
        (
            adapter(json!({"replicas": -1, "dgdRef": {"name": ""}})),
            None,
            vec![
                "spec.replicas: -1 cannot be used (allowed: 0 and more)",
                "spec.dgdRef.name: `` cannot be used (allowed: 1 to 63 lower-case letters, digits and hyphens, a letter first, no hyphen at the end)",
                "spec.dgdRef.componentName: missing",
            ],
            Denial::Invalid,
        ),
        (adapter(json!({"dgdRef": {"name": "g"}})), None, vec!["spec: missing field `replicas`"], Denial::Invalid),
        (
            other,
            Some(&good),
            vec!["spec.dgdRef: cannot be changed: make another adapter for another component"],
            Denial::Immutable,
        ),
    ] {
        let answer = ask(Question::ValidateAdapter, SOMEBODY, &new, old);
        assert_eq!(
            (errors(&answer), answer.denial),
            (messages.iter().map(ToString::to_string).collect(), Some(denial))
        );
    }
}

#[test]
fn questions_that_make_no_sense_are_refused() {
    let graph = beta("{components: [{name: a, type: frontend}]}");
    let mut alpha = graph.clone();
    alpha["apiVersion"] = "nvidia.com/v1alpha1".into();
    for (question, object, message) in [
        (
            Question::ValidateAdapter,
            &graph,
            "kind: `DynamoGraphDeployment` is not answered for here (allowed: DynamoGraphDeploymentScalingAdapter)",
        ),
        (
            Question::ValidateGraph,
            &alpha,
            "apiVersion: `nvidia.com/v1alpha1` is not answered for (allowed: nvidia.com/v1beta1, which the matchPolicy Equivalent gives)",
        ),
    ] {
        let answer = ask(question, SOMEBODY, object, None);
        assert_eq!((answer.response.result.message.as_str(), answer.response.result.code), (message, 400));
        assert_eq!(answer.denial, Some(Denial::BadRequest));
    }
    let mut empty = review(SOMEBODY, &graph, None);
    empty.as_object_mut().expect("fields").remove("request");
    assert!(!ask_review(Question::MutateGraph, empty).response.allowed);
}
