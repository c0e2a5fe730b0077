//! Values that the chart refuses, and what it says.

use super::template;

/// Values as `--set` takes them; what is said of them.
const BAD: [(&str, &str); 33] = [
    ("natsAdr=nats://x", "at '': additional properties 'natsAdr' not allowed"),
    ("dynamo-operator.natsAdr=nats://x", "at '/dynamo-operator': additional properties 'natsAdr' not allowed"),
    ("dynamo.ingress.class=nginx", "at '/dynamo/ingress': additional properties 'class' not allowed"),
    ("imagePolicy=mocker", "at '/imagePolicy': value must be one of 'Mocker', 'Manifest'"),
    ("discoveryBackend=consul", "at '/discoveryBackend': value must be one of 'kubernetes', 'etcd'"),
    ("mockerImage=a b", "at '/mockerImage': 'a b' does not match pattern"),
    ("mockerImagePullPolicy=Sometimes", "at '/mockerImagePullPolicy': value must be one of '', 'Always'"),
    ("controllerManager.replicas=0", "at '/controllerManager/replicas': minimum: got 0, want 1"),
    ("controllerManager.replicas=two", "at '/controllerManager/replicas': got string, want integer"),
    ("controllerManager.manager.image.pullPolicy=x", "at '/controllerManager/manager/image/pullPolicy': value must be"),
    (
        "controllerManager.manager.args={--health-probe-bind-address=:8081}",
        "at '/controllerManager/manager/args/0': '--health-probe-bind-address=:8081' does not match",
    ),
    ("env[0].name=POD_NAME", "at '/env/0/name'"),
    ("imagePullSecrets[0].nam=x", "at '/imagePullSecrets/0'"),
    ("webhook.failurePolicy=Maybe", "at '/webhook/failurePolicy': value must be one of 'Fail', 'Ignore'"),
    ("webhook.timeoutSeconds=31", "at '/webhook/timeoutSeconds': maximum: got 31, want 30"),
    ("namespaceRestriction.targetNamespace=Team", "at '/namespaceRestriction/targetNamespace': 'Team' does not match"),
    ("namespaceRestriction.lease.duration=0s", "at '/namespaceRestriction/lease/duration': '0s' does not match"),
    ("namespaceRestriction.lease.renewInterval=1.5", "at '/namespaceRestriction/lease/renewInterval'"),
    (
        "namespaceRestriction.targetNamespace=team",
        "targetNamespace has no effect: set namespaceRestriction.enabled=true",
    ),
    (
        "namespaceRestriction.lease.duration=10s",
        "namespaceRestriction.lease.renewInterval must be shorter than duration",
    ),
    (
        "namespaceRestriction.enabled=true,webhook.namespaceSelector.matchLabels.a=b",
        "webhook.namespaceSelector has no effect",
    ),
    ("discoveryBackend=etcd", "discoveryBackend is etcd: etcdAddr must say where it is"),
    ("webhook.enabled=false", "nobody would convert what crds.install defines"),
    ("enabled=false", "enabled has no effect: the chart is the operator"),
    ("dynamo-operator.upgradeCRD=false", "upgradeCRD has no effect: set crds.install=false"),
    ("dynamo-operator.dynamo-operator.natsAddr=x", "dynamo-operator.dynamo-operator has no effect"),
    ("global.nats.install=true", "global.nats.install has no effect: NATS is not needed"),
    ("dynamo-operator.webhook.certManager.enabled=true", "set webhook.certificateSecret.external=true"),
    ("webhook.caBundle=QQ==", "webhook.caBundle has no effect: the operator sets it from ca.crt"),
    ("controllerManager.leaderElection.namespace=kube-system", "leases are in the release's namespace"),
    ("dynamo.dockerRegistry.existingSecretName=x", "name it in imagePullSecrets"),
    (
        "controllerManager.manager.image.repository=registry.example/ai-dynamo/kubernetes-operator",
        "is Dynamo's operator: this chart runs its own",
    ),
    ("fullnameOverride=Sim", "at '/fullnameOverride': 'Sim' does not match pattern"),
];

#[test]
fn bad_values_are_refused_with_their_place_and_reason() {
    for (values, message) in BAD {
        let Some(rendered) = template(&["--set", values]) else { return };
        let said = rendered.expect_err(values);
        assert!(said.contains(message), "{values}: {said}");
    }
}

#[test]
fn all_that_has_no_effect_is_told_at_once() {
    let Some(rendered) = template(&["--set", "global.grove.enabled=true,checkpoint.enabled=true,upgradeCRD=false"])
    else {
        return;
    };
    let said = rendered.expect_err("three problems");
    for key in ["global.grove.enabled", "checkpoint.enabled", "upgradeCRD"] {
        assert!(said.contains(&format!("- {key} has no effect: ")), "{said}");
    }
}
