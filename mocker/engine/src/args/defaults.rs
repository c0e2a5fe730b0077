//! The default of each engine argument that is not simply absent. Enumerations have theirs on the type.

/// `num_gpu_blocks`, blocks.
pub const NUM_GPU_BLOCKS: u32 = 16_384;
/// `block_size` with vLLM, tokens.
pub const BLOCK_SIZE_VLLM: u32 = 64;
/// `block_size` with `SGLang` without `sglang.page_size`, tokens.
pub const BLOCK_SIZE_SGLANG: u32 = 1;
/// `block_size` with TensorRT-LLM, tokens.
pub const BLOCK_SIZE_TRTLLM: u32 = 32;
/// `max_num_seqs`, requests.
pub const MAX_NUM_SEQS: u32 = 256;
/// `max_num_batched_tokens`, tokens.
pub const MAX_NUM_BATCHED_TOKENS: u32 = 8192;
/// `enable_prefix_caching`.
pub const ENABLE_PREFIX_CACHING: bool = true;
/// `enable_chunked_prefill`.
pub const ENABLE_CHUNKED_PREFILL: bool = true;
/// `speedup_ratio`.
pub const SPEEDUP_RATIO: f64 = 1.0;
/// `decode_speedup_ratio`.
pub const DECODE_SPEEDUP_RATIO: f64 = 1.0;
/// `dp_size`, ranks.
pub const DP_SIZE: u32 = 1;
/// `tensor_parallel_size`, GPUs per rank.
pub const TENSOR_PARALLEL_SIZE: u32 = 1;
/// `aic_mtp_seed`.
pub const AIC_MTP_SEED: u64 = 42;
/// `long_prefill_token_threshold`, tokens; 0 is no limit.
pub const LONG_PREFILL_TOKEN_THRESHOLD: u32 = 0;
/// `scheduler_reserve_full_isl`.
pub const SCHEDULER_RESERVE_FULL_ISL: bool = true;
/// `watermark`, share of the pool.
pub const WATERMARK: f64 = 0.0;
/// `prefill_schedule_interval`, passes.
pub const PREFILL_SCHEDULE_INTERVAL: u32 = 1;
/// `async_scheduling`.
pub const ASYNC_SCHEDULING: bool = false;
/// `emit_kv_events`.
pub const EMIT_KV_EVENTS: bool = false;
/// `enable_local_indexer`.
pub const ENABLE_LOCAL_INDEXER: bool = false;
/// `handoff_session_timeout_ms`, milliseconds.
pub const HANDOFF_SESSION_TIMEOUT_MS: u64 = 300_000;
/// `sglang.max_prefill_tokens`, tokens.
pub const SGLANG_MAX_PREFILL_TOKENS: u32 = 16_384;
/// `sglang.chunked_prefill_size`, tokens.
pub const SGLANG_CHUNKED_PREFILL_SIZE: u32 = 8192;
/// `sglang.clip_max_new_tokens`, tokens.
pub const SGLANG_CLIP_MAX_NEW_TOKENS: u32 = 4096;
/// `sglang.schedule_conservativeness`.
pub const SGLANG_SCHEDULE_CONSERVATIVENESS: f64 = 1.0;
