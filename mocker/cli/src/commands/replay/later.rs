//! Published flags whose part of the simulator is not there yet: refused in a sentence, never ignored.

use super::flags::{AicFlags, Flags, ReplayMode};
use crate::failure::Failure;

const PLANNER: &str = "comes with the planner in the loop";
const AIC: &str = "comes with the AIC performance model";

pub(crate) fn refuse(flags: &Flags) -> Result<(), Failure> {
    let mut given = vec![
        (flags.replay_mode == ReplayMode::Online, "--replay-mode online", "comes later; this version replays offline"),
        (flags.planner_config.is_some(), "--planner-config", PLANNER),
        (flags.benchmark_granularity.is_some(), "--benchmark-granularity", PLANNER),
    ];
    given.extend(aic(&flags.aic));
    match given.into_iter().find(|(given, ..)| *given) {
        Some((_, flag, why)) => Err(Failure::input(format_args!("{flag}: {why}"))),
        None => Ok(()),
    }
}

fn aic(flags: &AicFlags) -> [(bool, &'static str, &'static str); 16] {
    let AicFlags {
        model_name,
        aic_backend,
        aic_system,
        aic_backend_version,
        aic_model_path,
        aic_tp_size,
        aic_moe_tp_size,
        aic_moe_ep_size,
        aic_attention_dp_size,
        aic_gemm_dtype,
        aic_moe_dtype,
        aic_fmha_dtype,
        aic_kv_cache_dtype,
        aic_comm_dtype,
        aic_nextn,
        aic_nextn_accept_rates,
    } = flags;
    [
        (model_name, "--model-name"),
        (aic_backend, "--aic-backend"),
        (aic_system, "--aic-system"),
        (aic_backend_version, "--aic-backend-version"),
        (aic_model_path, "--aic-model-path"),
        (aic_tp_size, "--aic-tp-size"),
        (aic_moe_tp_size, "--aic-moe-tp-size"),
        (aic_moe_ep_size, "--aic-moe-ep-size"),
        (aic_attention_dp_size, "--aic-attention-dp-size"),
        (aic_gemm_dtype, "--aic-gemm-dtype"),
        (aic_moe_dtype, "--aic-moe-dtype"),
        (aic_fmha_dtype, "--aic-fmha-dtype"),
        (aic_kv_cache_dtype, "--aic-kv-cache-dtype"),
        (aic_comm_dtype, "--aic-comm-dtype"),
        (aic_nextn, "--aic-nextn"),
        (aic_nextn_accept_rates, "--aic-nextn-accept-rates"),
    ]
    .map(|(value, flag)| (value.is_some(), flag, AIC))
}
