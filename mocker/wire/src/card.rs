//! The model card: what a worker says about the model that it serves.

mod builtin;
mod folder;
mod kv_bytes;
mod slug;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use builtin::{BYTE_TOKENS, VOCABULARY, builtin_files};
pub use folder::{ModelFiles, ModelFolderError};
pub use slug::slug;

/// A file that others can read: a local path, or a URL of the worker's system port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedFile {
    /// Path or `http://` URL.
    pub path: String,
    /// `blake3:` and 64 hex digits over the content.
    pub checksum: String,
    /// Bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// `config.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelInfo {
    /// Of a model in the usual layout.
    HfConfigJson(CheckedFile),
}

/// `tokenizer.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerInfo {
    /// Of a model in the usual layout.
    HfTokenizerJson(CheckedFile),
}

/// `tokenizer_config.json`, which has the chat template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptFormatter {
    /// Of a model in the usual layout.
    HfTokenizerConfigJson(CheckedFile),
    /// A template in a file of its own (`chat_template.jinja`).
    #[serde(rename = "hf_chat_template")]
    HfChatTemplateJinja(TemplateFile),
    /// A template in a file of its own (`chat_template.json`).
    HfChatTemplateJson(TemplateFile),
}

/// A chat template in a file of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateFile {
    /// The user named it; else it was found in the model folder.
    #[serde(default)]
    pub is_custom: bool,
    /// Where it is.
    pub file: CheckedFile,
}

/// `generation_config.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationConfig {
    /// Of a model in the usual layout.
    HfGenerationConfigJson(CheckedFile),
}

/// Part of a worker in the serving graph, as cards name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerType {
    /// Prefill and decode.
    #[default]
    Aggregated,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
}

/// Where decode workers fetch KV from a prefill worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisaggregatedEndpoint {
    /// Host.
    pub bootstrap_host: Option<String>,
    /// Port; all ranks listen there.
    pub bootstrap_port: Option<u16>,
}

/// What an engine tells routers about itself.
#[allow(clippy::struct_excessive_bools, reason = "the published record has these fields")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeConfig {
    /// Tokens; 0: not limited.
    pub context_length: u32,
    /// KV blocks of a rank.
    pub total_kv_blocks: Option<u64>,
    /// Most sequences that run at once.
    pub max_num_seqs: Option<u64>,
    /// Most tokens computed in a pass.
    pub max_num_batched_tokens: Option<u64>,
    /// Parser of tool calls.
    pub tool_call_parser: Option<String>,
    /// Parser of reasoning.
    pub reasoning_parser: Option<String>,
    /// `json_string`.
    pub tool_call_arguments_format: String,
    /// `off`.
    pub structural_tag_mode: String,
    /// `auto`.
    pub structural_tag_scope: String,
    /// `auto`.
    pub structural_tag_schema: String,
    /// Tools are left out of the prompt if none may be called.
    pub exclude_tools_when_tool_choice_none: bool,
    /// First rank of this instance.
    pub data_parallel_start_rank: u32,
    /// Ranks.
    pub data_parallel_size: u32,
    /// The worker answers recovery queries about its KV events.
    pub enable_local_indexer: bool,
    /// The worker publishes KV events.
    pub kv_event_publishing_enabled: bool,
    /// Free-form.
    pub runtime_data: serde_json::Map<String, Value>,
    /// Where decode workers fetch KV; prefill workers have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disaggregated_endpoint: Option<DisaggregatedEndpoint>,
    /// Speculative decoding.
    pub enable_eagle: bool,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            context_length: 0,
            total_kv_blocks: None,
            max_num_seqs: None,
            max_num_batched_tokens: None,
            tool_call_parser: None,
            reasoning_parser: None,
            tool_call_arguments_format: "json_string".to_owned(),
            structural_tag_mode: "off".to_owned(),
            structural_tag_scope: "auto".to_owned(),
            structural_tag_schema: "auto".to_owned(),
            exclude_tools_when_tool_choice_none: true,
            data_parallel_start_rank: 0,
            data_parallel_size: 1,
            enable_local_indexer: false,
            kv_event_publishing_enabled: false,
            runtime_data: serde_json::Map::new(),
            disaggregated_endpoint: None,
            enable_eagle: false,
        }
    }
}

/// The card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCard {
    /// The name that clients use.
    pub display_name: String,
    /// The name, fit for keys and subjects.
    pub slug: String,
    /// Folder or hub id.
    #[serde(default)]
    pub source_path: Option<String>,
    /// `config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_info: Option<ModelInfo>,
    /// `tokenizer.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<TokenizerInfo>,
    /// The chat template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_formatter: Option<PromptFormatter>,
    /// A chat template in a file of its own; goes before that of `tokenizer_config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_template_file: Option<PromptFormatter>,
    /// `generation_config.json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gen_config: Option<GenerationConfig>,
    /// `max_position_embeddings` of `config.json`, tokens.
    #[serde(default)]
    pub architectural_max_context_length: Option<u32>,
    /// Tokens; 0: not limited.
    #[serde(default)]
    pub context_length: u32,
    /// Tokens per KV block.
    #[serde(default)]
    pub kv_cache_block_size: u32,
    /// How often a request may go on at another worker.
    #[serde(default)]
    pub migration_limit: u32,
    /// `Chat | Completions`; a prefill worker: empty.
    #[serde(default)]
    pub model_type: String,
    /// `Tokens`.
    #[serde(default)]
    pub model_input: String,
    /// Part in the serving graph.
    #[serde(default)]
    pub worker_type: Option<WorkerType>,
    /// Worker types that must be there too: alternatives, each a set.
    #[serde(default)]
    pub needs: Vec<Vec<WorkerType>>,
    /// What the engine tells routers.
    #[serde(default)]
    pub runtime_config: RuntimeConfig,
    /// Always null here.
    #[serde(default)]
    pub media_decoder: Value,
    /// Always null here.
    #[serde(default)]
    pub media_fetcher: Value,
}
