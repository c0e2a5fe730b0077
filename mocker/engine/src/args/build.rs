//! From arguments to an engine.

use super::{EngineArgs, EngineType};
use crate::engine::{EngineConfig, SchedulerConfig};
use crate::timing::Timing;
use crate::vllm::Capacity;
use crate::{sglang, vllm};

impl EngineArgs {
    /// The settings of the engine number `worker`, which sets the random streams of workers apart. `timing` is
    /// [`EngineArgs::timing`], the same for all workers.
    pub fn engine_config(&self, worker: u64, timing: Timing) -> EngineConfig {
        let scheduler = match self.engine_type {
            EngineType::Vllm => SchedulerConfig::Vllm(self.vllm_config(worker, Capacity::AsNeeded)),
            EngineType::Trtllm => SchedulerConfig::Vllm(self.vllm_config(worker, Capacity::GuaranteedNoEvict)),
            EngineType::Sglang => SchedulerConfig::Sglang(self.sglang_config()),
        };
        EngineConfig {
            scheduler,
            dp_size: self.dp_size,
            timing,
            kv_capacity_tokens: self.kv_capacity_tokens(),
            role: self.worker_type,
            emit_kv_events: self.emit_kv_events,
        }
    }

    /// As reports name the eviction order.
    pub fn eviction_name(&self) -> &'static str {
        match self.engine_type {
            EngineType::Sglang => "lru",
            EngineType::Vllm | EngineType::Trtllm => self.eviction_policy.name(),
        }
    }

    fn vllm_config(&self, worker: u64, capacity: Capacity) -> vllm::Config {
        vllm::Config {
            // The arguments count blocks that can be handed out; vLLM's null block comes on top.
            num_gpu_blocks: self.num_gpu_blocks.saturating_add(1),
            block_size: self.block_size,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_model_len: self.max_model_len,
            enable_prefix_caching: self.enable_prefix_caching,
            enable_chunked_prefill: self.enable_chunked_prefill,
            long_prefill_token_threshold: self.long_prefill_token_threshold,
            scheduler_reserve_full_isl: self.scheduler_reserve_full_isl,
            watermark: self.watermark,
            policy: self.scheduling_policy,
            max_num_active_seqs: None,
            prefill_schedule_interval: self.prefill_schedule_interval,
            async_scheduling: self.async_scheduling,
            preemption: self.preemption_mode,
            capacity,
            eviction: self.eviction_policy,
            role: self.worker_type,
            mtp: self.mtp_sampler(worker),
        }
    }

    fn sglang_config(&self) -> sglang::Config {
        let settings = &self.sglang;
        sglang::Config {
            page_size: self.block_size,
            capacity_tokens: self.kv_capacity_tokens(),
            radix_cache: self.enable_prefix_caching,
            policy: settings.schedule_policy,
            max_running_requests: self.max_num_seqs,
            max_prefill_tokens: settings.max_prefill_tokens,
            chunked_prefill_size: Some(settings.chunked_prefill_size),
            clip_max_new_tokens: settings.clip_max_new_tokens,
            schedule_conservativeness: settings.schedule_conservativeness,
            role: self.worker_type,
            max_model_len: self.max_model_len,
        }
    }
}
