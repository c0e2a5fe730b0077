//! Types of the Kubernetes resources that the operator serves, with their validation. No client, no runtime.
