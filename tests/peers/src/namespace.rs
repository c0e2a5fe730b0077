//! A namespace of a test's own on an API server, with what the nodes of a cluster would write there.

use crate::ApiServer;

/// The definition of the objects that workers publish; a published frontend relies on what it requires.
pub const WORKER_METADATA: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dynamoworkermetadatas.nvidia.com}
spec:
  group: nvidia.com
  scope: Namespaced
  names: {kind: DynamoWorkerMetadata, listKind: DynamoWorkerMetadataList, plural: dynamoworkermetadatas, singular: dynamoworkermetadata}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [data]
            properties: {data: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// A namespace of a test's own.
#[derive(Clone, Debug)]
pub struct Namespace<'a> {
    server: &'a ApiServer,
    name: String,
}

impl<'a> Namespace<'a> {
    /// Makes it, and the definition of workers' objects.
    pub fn new(server: &'a ApiServer, name: &str) -> Self {
        server.apply(WORKER_METADATA);
        server.kubectl(&[
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd/dynamoworkermetadatas.nvidia.com",
        ]);
        server.apply(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"));
        Self::there(server, name)
    }

    /// One that is there already.
    pub fn there(server: &'a ApiServer, name: &str) -> Self {
        Self { server, name: name.to_owned() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn server(&self) -> &'a ApiServer {
        self.server
    }

    /// What `kubectl` says there.
    pub fn kubectl(&self, args: &[&str]) -> String {
        self.server.kubectl(&[&["--namespace", &self.name], args].concat())
    }

    /// A slice of a labelled service that says of each pod, by name and uid, whether it is ready.
    pub fn slice(&self, name: &str, pods: &[(&str, &str, bool)]) {
        let endpoint = |(pod, uid, ready): &(&str, &str, bool)| {
            format!(
                "{{addresses: [192.0.2.7], conditions: {{ready: {ready}}}, targetRef: {{kind: Pod, name: {pod}, uid: {uid}}}}}"
            )
        };
        let endpoints: Vec<_> = pods.iter().map(endpoint).collect();
        self.server.apply(&format!(
            r#"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}, namespace: {}, labels: {{nvidia.com/dynamo-discovery-enabled: "true"}}}}
addressType: IPv4
endpoints: [{}]
"#,
            self.name,
            endpoints.join(", ")
        ));
    }

    /// A labelled pod whose containers are ready or not; its uid.
    pub fn pod(&self, name: &str, containers: &[(&str, bool)]) -> String {
        let list: Vec<_> = containers.iter().map(|(name, _)| format!("{{name: {name}, image: none}}")).collect();
        self.server.apply(&format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {}, labels: {{nvidia.com/dynamo-discovery-enabled: "true"}}}}
spec: {{containers: [{}]}}
"#,
            self.name,
            list.join(", ")
        ));
        self.container_statuses(name, containers);
        self.kubectl(&["get", "pod", name, "--output=jsonpath={.metadata.uid}"])
    }

    /// What the node says of a pod's containers.
    pub fn container_statuses(&self, pod: &str, containers: &[(&str, bool)]) {
        let status = |(name, ready): &(&str, bool)| {
            format!(r#"{{"name":"{name}","ready":{ready},"restartCount":0,"image":"none","imageID":""}}"#)
        };
        let statuses: Vec<_> = containers.iter().map(status).collect();
        let patch = format!(r#"{{"status":{{"containerStatuses":[{}]}}}}"#, statuses.join(","));
        self.kubectl(&["patch", "pod", pod, "--subresource=status", "--type=merge", "--patch", &patch]);
    }

    /// The kubeconfig of a service account that may do this with the namespace's objects: `apiGroup resource verb,verb`.
    pub fn account(&self, name: &str, rules: &[(&str, &str, &str)]) -> std::path::PathBuf {
        let rule = |(group, resource, verbs): &(&str, &str, &str)| {
            format!(r#"{{apiGroups: ["{group}"], resources: [{resource}], verbs: [{verbs}]}}"#)
        };
        let rules: Vec<_> = rules.iter().map(rule).collect();
        let namespace = &self.name;
        self.server.apply(&format!(
            r"
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules: [{}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects: [{{kind: ServiceAccount, name: {name}, namespace: {namespace}}}]
",
            rules.join(", ")
        ));
        self.server.service_account(namespace, name)
    }

    /// What a pod publishes, as JSON; none if it has no object.
    pub fn published(&self, name: &str) -> Option<String> {
        let args = ["get", "dynamoworkermetadata", name, "--ignore-not-found", "--output=json"];
        Some(self.kubectl(&args)).filter(|json| !json.trim().is_empty())
    }
}
