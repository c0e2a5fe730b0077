//! What must hold between arguments.

use super::read::{Draft, Form};
use super::{ArgsError, EngineArgs, EngineType, MtpArgs, SglangArgs, TimingSettings, defaults};
use crate::mtp::ACCEPT_RATES_DEFAULT;
use crate::request::Role;

/// Resolves defaults that depend on other arguments and checks across them.
pub(super) fn finish(mut draft: Draft) -> Result<EngineArgs, ArgsError> {
    draft.args.worker_type = role(&draft)?;
    draft.args.block_size = block_size(&draft)?;
    draft.args.timing = timing(&mut draft)?;
    draft.args.mtp = mtp(&mut draft)?;
    effects(&draft)?;
    sglang(&draft)?;
    ports(&draft)?;
    draft.args.given = draft.paths.keys().filter(|name| !NOT_ARGUMENTS.contains(name)).copied().collect();
    Ok(draft.args)
}

/// Keys that are no arguments of their own.
const NOT_ARGUMENTS: [&str; 4] = ["engine", "dynamo", "num_gpu_blocks_is_explicit", "has_perf_model"];

fn invalid(draft: &Draft, flat: &str, found: &dyn std::fmt::Display, allowed: String) -> ArgsError {
    ArgsError::Invalid { field: draft.path(flat), found: found.to_string(), allowed }
}

fn role(draft: &Draft) -> Result<Role, ArgsError> {
    let together = |field: &str, other: &str, reason| {
        Err(ArgsError::Together { field: draft.path(field), other: draft.path(other), reason })
    };
    for old in ["is_prefill", "is_decode"] {
        if draft.was_given(old) && draft.was_given("worker_type") {
            return together(old, "worker_type", "`worker_type` replaces it");
        }
    }
    match (draft.is_prefill, draft.is_decode) {
        (true, true) => together("is_prefill", "is_decode", "leave out both for an aggregated engine"),
        (true, false) => Ok(Role::Prefill),
        (false, true) => Ok(Role::Decode),
        (false, false) => Ok(draft.args.worker_type),
    }
}

fn block_size(draft: &Draft) -> Result<u32, ArgsError> {
    let engine = draft.args.engine_type;
    let default = match engine {
        EngineType::Vllm => defaults::BLOCK_SIZE_VLLM,
        EngineType::Sglang => defaults::BLOCK_SIZE_SGLANG,
        EngineType::Trtllm => defaults::BLOCK_SIZE_TRTLLM,
    };
    match (draft.block_size, draft.page_size) {
        (Some(block), Some(page)) if engine == EngineType::Sglang && block != page => {
            Err(invalid(draft, "sglang.page_size", &page, format!("{block}, the `{}`", draft.path("block_size"))))
        }
        (Some(1), _) if draft.form == Form::Nested && engine != EngineType::Sglang => {
            Err(invalid(draft, "block_size", &1, format!("at least 2 with {}", engine.name())))
        }
        (Some(block), _) => Ok(block),
        (None, Some(page)) if engine == EngineType::Sglang => Ok(page),
        (None, _) => Ok(default),
    }
}

fn timing(draft: &mut Draft) -> Result<TimingSettings, ArgsError> {
    let model = std::mem::take(&mut draft.args.timing);
    match draft.profile.take() {
        Some(_) if draft.was_given("timing_model") => Err(ArgsError::Together {
            field: draft.path("planner_profile_data"),
            other: draft.path("timing_model"),
            reason: "each is a source of durations",
        }),
        Some(profile) => Ok(profile),
        None => Ok(model),
    }
}

fn mtp(draft: &mut Draft) -> Result<Option<MtpArgs>, ArgsError> {
    let Some(nextn) = draft.nextn else {
        return Ok(None);
    };
    let decode_speedup = draft.args.decode_speedup_ratio;
    if (decode_speedup - 1.0).abs() > 0.0 {
        let allowed = format!("1, since `{}` is given", draft.path("aic_nextn"));
        return Err(invalid(draft, "decode_speedup_ratio", &decode_speedup, allowed));
    }
    let mut accept_rates = draft.accept_rates.take().unwrap_or_else(|| ACCEPT_RATES_DEFAULT.to_vec());
    accept_rates.resize(nextn as usize, 0.0);
    Ok(Some(MtpArgs { nextn, accept_rates }))
}

/// An argument that matters only under others.
pub(super) struct Effect {
    flat: &'static str,
    need: Need,
    /// The value is the default (first: the settings, second: all defaults).
    is_default: fn(&EngineArgs, &EngineArgs) -> bool,
}

#[derive(Clone, Copy)]
enum Need {
    Engines(&'static [EngineType]),
    Mtp,
    ZmqEvents,
}

impl Need {
    fn holds(self, args: &EngineArgs) -> bool {
        match self {
            Self::Engines(engines) => engines.contains(&args.engine_type),
            Self::Mtp => args.mtp.is_some(),
            Self::ZmqEvents => args.zmq_kv_events_port.is_some(),
        }
    }

    fn condition(self, args: &EngineArgs) -> String {
        match self {
            Self::Engines(_) => format!("with engine type {}", args.engine_type.name()),
            Self::Mtp => "without `aic_nextn`".to_string(),
            Self::ZmqEvents => "without `zmq_kv_events_port`".to_string(),
        }
    }
}

const VLLM: Need = Need::Engines(&[EngineType::Vllm]);
const NOT_SGLANG: Need = Need::Engines(&[EngineType::Vllm, EngineType::Trtllm]);

const EFFECTS: &[Effect] = &[
    Effect {
        flat: "sglang",
        need: Need::Engines(&[EngineType::Sglang]),
        is_default: |a, _| a.sglang == SglangArgs::default(),
    },
    Effect { flat: "trtllm", need: Need::Engines(&[EngineType::Trtllm]), is_default: |_, _| true },
    Effect {
        flat: "max_num_batched_tokens",
        need: NOT_SGLANG,
        is_default: |a, d| a.max_num_batched_tokens == d.max_num_batched_tokens,
    },
    Effect { flat: "eviction_policy", need: NOT_SGLANG, is_default: |a, d| a.eviction_policy == d.eviction_policy },
    Effect { flat: "preemption_mode", need: VLLM, is_default: |a, d| a.preemption_mode == d.preemption_mode },
    Effect { flat: "scheduling_policy", need: VLLM, is_default: |a, d| a.scheduling_policy == d.scheduling_policy },
    Effect {
        flat: "long_prefill_token_threshold",
        need: VLLM,
        is_default: |a, d| a.long_prefill_token_threshold == d.long_prefill_token_threshold,
    },
    Effect {
        flat: "scheduler_reserve_full_isl",
        need: VLLM,
        is_default: |a, d| a.scheduler_reserve_full_isl == d.scheduler_reserve_full_isl,
    },
    Effect { flat: "watermark", need: VLLM, is_default: |a, d| a.watermark <= d.watermark },
    Effect {
        flat: "prefill_schedule_interval",
        need: VLLM,
        is_default: |a, d| a.prefill_schedule_interval == d.prefill_schedule_interval,
    },
    Effect { flat: "async_scheduling", need: VLLM, is_default: |a, d| a.async_scheduling == d.async_scheduling },
    Effect { flat: "aic_nextn_accept_rates", need: Need::Mtp, is_default: |_, _| false },
    Effect { flat: "aic_mtp_seed", need: Need::Mtp, is_default: |a, d| a.mtp_seed == d.mtp_seed },
    Effect { flat: "zmq_replay_port", need: Need::ZmqEvents, is_default: |_, _| false },
];

/// Whether an argument (flat name) matters under the others.
pub(super) fn has_effect(args: &EngineArgs, flat: &str) -> bool {
    EFFECTS.iter().filter(|effect| effect.flat == flat).all(|effect| effect.need.holds(args))
}

/// Refuses arguments without effect. Tools that write the nested form spell out every default, so there a default that
/// has no effect is taken.
fn effects(draft: &Draft) -> Result<(), ArgsError> {
    let defaults = EngineArgs::default();
    let idle = EFFECTS.iter().find(|effect| {
        draft.was_given(effect.flat)
            && !effect.need.holds(&draft.args)
            && (draft.form == Form::Flat || !(effect.is_default)(&draft.args, &defaults))
    });
    match idle {
        Some(effect) => {
            Err(ArgsError::NoEffect { field: draft.path(effect.flat), condition: effect.need.condition(&draft.args) })
        }
        None => Ok(()),
    }
}

fn sglang(draft: &Draft) -> Result<(), ArgsError> {
    let args = &draft.args;
    if args.engine_type != EngineType::Sglang {
        return Ok(());
    }
    if !args.enable_chunked_prefill {
        return Err(invalid(draft, "enable_chunked_prefill", &false, "true with sglang".to_string()));
    }
    let chunk = args.sglang.chunked_prefill_size;
    if !chunk.is_multiple_of(args.block_size) {
        let allowed = format!("a multiple of the page size {}", args.block_size);
        return Err(invalid(draft, "sglang.chunked_prefill_size", &chunk, allowed));
    }
    Ok(())
}

/// Rank r uses each port plus r.
fn ports(draft: &Draft) -> Result<(), ArgsError> {
    let args = &draft.args;
    let last_rank = args.dp_size - 1;
    for (flat, port) in [
        ("bootstrap_port", args.bootstrap_port),
        ("zmq_kv_events_port", args.zmq_kv_events_port),
        ("zmq_replay_port", args.zmq_replay_port),
    ] {
        let room = u32::from(u16::MAX).saturating_sub(last_rank);
        match port {
            Some(port) if u32::from(port) > room => {
                let allowed = format!("at most {room}, since each of {} ranks takes the next port", args.dp_size);
                return Err(invalid(draft, flat, &port, allowed));
            }
            _ => {}
        }
    }
    Ok(())
}
