//! What a worker says about itself in its model card.

use dynosim_engine::Role;
use dynosim_wire::card::{DisaggregatedEndpoint, ModelCard, RuntimeConfig, WorkerType};
use serde_json::Value;

use crate::config::WorkerConfig;

/// Says that the worker can repeat outputs (as published).
const OUTPUT_REPLAY_CONSUMER: &str = "output_replay_consumer";

/// The card of a worker; `source` is where decode workers fetch KV.
pub(crate) fn card(config: &WorkerConfig, source: Option<&DisaggregatedEndpoint>) -> ModelCard {
    let host = config.runtime.host;
    let base_url = config.system.serve_model(&config.endpoint, &config.model_name, &config.model, host);
    let files = config.model.card(&config.model_name, &config.source_path, base_url.as_deref());
    let context_length = config.args.max_model_len.unwrap_or(0);
    let (worker_type, model_type, needs) = match config.role() {
        Role::Aggregated => (WorkerType::Aggregated, files.model_type.clone(), Vec::new()),
        Role::Prefill => (WorkerType::Prefill, String::new(), vec![vec![WorkerType::Decode]]),
        Role::Decode => (WorkerType::Decode, files.model_type.clone(), vec![vec![WorkerType::Prefill]]),
    };
    ModelCard {
        context_length,
        kv_cache_block_size: config.args.block_size,
        model_type,
        worker_type: Some(worker_type),
        needs,
        runtime_config: RuntimeConfig {
            disaggregated_endpoint: source.cloned(),
            ..runtime_config(config, context_length)
        },
        ..files
    }
}

fn runtime_config(config: &WorkerConfig, context_length: u32) -> RuntimeConfig {
    let args = &config.args;
    let mut runtime_data = serde_json::Map::new();
    runtime_data.insert(OUTPUT_REPLAY_CONSUMER.to_owned(), Value::Bool(true));
    RuntimeConfig {
        context_length,
        total_kv_blocks: Some(args.num_gpu_blocks.into()),
        max_num_seqs: args.max_num_seqs.map(u64::from),
        max_num_batched_tokens: args.max_num_batched_tokens.map(u64::from),
        data_parallel_size: args.dp_size,
        enable_local_indexer: config.answers_recovery(),
        kv_event_publishing_enabled: config.publishes_kv_events(),
        runtime_data,
        ..RuntimeConfig::default()
    }
}
