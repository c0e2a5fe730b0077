//! Labels and annotations by name.

/// Labels.
pub mod label {
    /// Name of the Deployment; all that its selector asks for.
    pub const SELECTOR: &str = "nvidia.com/selector";
    /// Name of the graph.
    pub const GRAPH: &str = "nvidia.com/dynamo-graph-deployment-name";
    /// Name of the component as the manifest writes it.
    pub const COMPONENT: &str = "nvidia.com/dynamo-component";
    /// Dynamo namespace without the workers' suffix.
    pub const NAMESPACE: &str = "nvidia.com/dynamo-namespace";
    /// Type of the component.
    pub const TYPE: &str = "nvidia.com/dynamo-component-type";
    /// `prefill` or `decode`, as the older version has it beside the type `worker`.
    pub const SUB_TYPE: &str = "nvidia.com/dynamo-sub-component-type";
    /// Generation of workers.
    pub const WORKER_HASH: &str = "nvidia.com/dynamo-worker-hash";
    /// Scraped by pod monitors.
    pub const METRICS: &str = "nvidia.com/metrics-enabled";
    /// Hash of the model's name.
    pub const MODEL_HASH: &str = "nvidia.com/dynamo-base-model-hash";
    /// Discovery that a Service or pod takes part in.
    pub const DISCOVERY_BACKEND: &str = "nvidia.com/dynamo-discovery-backend";
    /// Takes part in discovery.
    pub const DISCOVERY_ENABLED: &str = "nvidia.com/dynamo-discovery-enabled";
    /// What made an object.
    pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
    /// What an object is for.
    pub const PART: &str = "app.kubernetes.io/component";
    /// Name of what an object belongs to.
    pub const NAME: &str = "app.kubernetes.io/name";

    /// The value of [`MANAGED_BY`], as published.
    pub const MANAGER: &str = "dynamo-operator";

    /// Labels that only the operator sets: selectors and discovery rely on them.
    pub const OWN: [&str; 11] = [
        SELECTOR,
        GRAPH,
        COMPONENT,
        NAMESPACE,
        TYPE,
        SUB_TYPE,
        WORKER_HASH,
        METRICS,
        MODEL_HASH,
        DISCOVERY_BACKEND,
        DISCOVERY_ENABLED,
    ];
}

/// Annotations that users set on a graph (`metadata` or `spec.annotations`) or on a component's pod template.
pub mod annotation {
    /// `Mocker` or `Manifest`: which image simulated containers run. Graph or component.
    pub const IMAGE_POLICY: &str = "dynosim/image-policy";
    /// `kubernetes` or `etcd`. Graph.
    pub const DISCOVERY_BACKEND: &str = "nvidia.com/dynamo-discovery-backend";
    /// `pod` or `container`. Graph.
    pub const DISCOVERY_MODE: &str = "nvidia.com/dynamo-kube-discovery-mode";
    /// `false`: no label for pod monitors. Graph or component.
    pub const METRICS: &str = "nvidia.com/enable-metrics";
    /// `true`: no pull secrets are looked for. Graph or component.
    pub const NO_PULL_SECRETS: &str = "nvidia.com/disable-image-pull-secret-discovery";
    /// `RollingUpdate` or `Recreate`. Graph or component.
    pub const STRATEGY: &str = "nvidia.com/deployment-strategy";
    /// A number or share of pods. Graph or component.
    pub const MAX_SURGE: &str = "nvidia.com/deployment-rolling-update-max-surge";
    /// A number or share of pods. Graph or component.
    pub const MAX_UNAVAILABLE: &str = "nvidia.com/deployment-rolling-update-max-unavailable";
    /// `true` asks for another way to run pods than this operator has.
    pub const GROVE: &str = "nvidia.com/enable-grove";
    /// `component` is the only one here.
    pub const PROVIDER: &str = "nvidia.com/workload-provider";

    /// On graphs, by the operator: the generation of workers that serves, for planners of both ages.
    pub const HASHES: [&str; 2] = ["nvidia.com/current-worker-hash", "nvidia.com/current-worker-hash-v2"];
    /// On pod templates: the restart that the pods have seen.
    pub const RESTART: &str = "nvidia.com/restartAt";
    /// On Deployments: when the next pod may start.
    pub const NEXT_START: &str = "dynosim/next-start";
    /// On pods and Services of a model: its name.
    pub const MODEL: &str = "nvidia.com/dynamo-base-model";

    /// Annotations that speak to the operator: pods do not carry them, so that changing one replaces no pod by itself.
    pub const SETTINGS: [&str; 10] = [
        IMAGE_POLICY,
        DISCOVERY_BACKEND,
        DISCOVERY_MODE,
        METRICS,
        NO_PULL_SECRETS,
        STRATEGY,
        MAX_SURGE,
        MAX_UNAVAILABLE,
        GROVE,
        PROVIDER,
    ];
    /// Annotations that only the operator sets.
    pub const OWN: [&str; 3] = [RESTART, NEXT_START, MODEL];
    /// Annotations that say something about a whole graph.
    pub const OF_GRAPHS: [&str; 4] = [DISCOVERY_BACKEND, DISCOVERY_MODE, GROVE, PROVIDER];
}
