//! Published flags whose part of the simulator is not there: refused in a sentence, never ignored.

use clap::Args;

use crate::failure::Failure;

const AIC: &str = "comes with the AIC performance model";
const TIERS: &str = "comes with KV tiers beyond GPU memory";
const ROUTER: &str = "workers of this version follow the frontend's router mode";
const DURABLE: &str = "was removed in Dynamo 1.6; routers recover missed KV events from the worker";

/// Flags that are known but not supported
#[derive(Clone, Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch on the command line")]
pub(crate) struct Elsewhere {
    #[arg(long, alias = "aic-perf-model", hide = true)]
    ais_perf_model: bool,
    #[arg(long, alias = "aic-system", hide = true)]
    ais_system: Option<String>,
    #[arg(long, alias = "aic-backend", hide = true)]
    ais_backend: Option<String>,
    #[arg(long, alias = "aic-backend-version", hide = true)]
    ais_backend_version: Option<String>,
    #[arg(long, alias = "aic-tp-size", hide = true)]
    ais_tp_size: Option<String>,
    #[arg(long, alias = "aic-moe-tp-size", hide = true)]
    ais_moe_tp_size: Option<String>,
    #[arg(long, alias = "aic-moe-ep-size", hide = true)]
    ais_moe_ep_size: Option<String>,
    #[arg(long, alias = "aic-attention-dp-size", hide = true)]
    ais_attention_dp_size: Option<String>,
    #[arg(long, hide = true)]
    ais_perf_config: Option<String>,
    #[arg(long, hide = true)]
    gpu_memory_utilization: Option<String>,
    #[arg(long, hide = true)]
    mem_fraction_static: Option<String>,
    #[arg(long, hide = true)]
    free_gpu_memory_fraction: Option<String>,
    #[arg(long, alias = "num-g2-blocks", hide = true)]
    num_host_blocks: Option<String>,
    #[arg(long, hide = true)]
    num_g3_blocks: Option<String>,
    #[arg(long, hide = true)]
    enable_g4_storage: bool,
    #[arg(long, hide = true)]
    offload_batch_size: Option<String>,
    #[arg(long, alias = "bandwidth-g1-to-g2-gbps", hide = true)]
    host_offload_d2h_bandwidth_gbps: Option<String>,
    #[arg(long, alias = "bandwidth-g2-to-g1-gbps", hide = true)]
    host_offload_h2d_bandwidth_gbps: Option<String>,
    #[arg(long, hide = true)]
    sglang_generate: bool,
    #[arg(long, hide = true)]
    durable_kv_events: bool,
    #[arg(long, hide = true)]
    router_mode: Option<String>,
}

impl Elsewhere {
    pub(crate) fn refuse(&self) -> Result<(), Failure> {
        let given = [
            (self.ais_perf_model, "--ais-perf-model", AIC),
            (self.ais_system.is_some(), "--ais-system", AIC),
            (self.ais_backend.is_some(), "--ais-backend", AIC),
            (self.ais_backend_version.is_some(), "--ais-backend-version", AIC),
            (self.ais_tp_size.is_some(), "--ais-tp-size", AIC),
            (self.ais_moe_tp_size.is_some(), "--ais-moe-tp-size", AIC),
            (self.ais_moe_ep_size.is_some(), "--ais-moe-ep-size", AIC),
            (self.ais_attention_dp_size.is_some(), "--ais-attention-dp-size", AIC),
            (self.ais_perf_config.is_some(), "--ais-perf-config", AIC),
            (self.gpu_memory_utilization.is_some(), "--gpu-memory-utilization", AIC),
            (self.mem_fraction_static.is_some(), "--mem-fraction-static", AIC),
            (self.free_gpu_memory_fraction.is_some(), "--free-gpu-memory-fraction", AIC),
            (self.num_host_blocks.is_some(), "--num-host-blocks", TIERS),
            (self.num_g3_blocks.is_some(), "--num-g3-blocks", TIERS),
            (self.enable_g4_storage, "--enable-g4-storage", TIERS),
            (self.offload_batch_size.is_some(), "--offload-batch-size", TIERS),
            (self.host_offload_d2h_bandwidth_gbps.is_some(), "--host-offload-d2h-bandwidth-gbps", TIERS),
            (self.host_offload_h2d_bandwidth_gbps.is_some(), "--host-offload-h2d-bandwidth-gbps", TIERS),
            (self.sglang_generate, "--sglang-generate", "is not supported; workers serve the frontend's requests"),
            (self.durable_kv_events, "--durable-kv-events", DURABLE),
            (self.router_mode.is_some(), "--router-mode", ROUTER),
        ];
        match given.into_iter().find(|(given, ..)| *given) {
            Some((_, flag, why)) => Err(Failure::input(format_args!("{flag}: {why}"))),
            None => Ok(()),
        }
    }
}
