//! Load generator: the workloads of an offline run against any OpenAI endpoint.
