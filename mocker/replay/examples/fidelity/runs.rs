//! The four measured runs.

use dynosim_engine::timing::Linear;

use crate::simulate::Run;

const NONE: Linear = Linear {
    pass_ms: 3.0,
    weights_ms: 10.0,
    prefill_ms_per_token: 0.05,
    attention_ms_per_token_pair: 1e-6,
    decode_ms_per_request: 0.05,
    decode_ms_per_kv_token: 1e-4,
};

pub(crate) const RUNS: [Run; 4] = [
    Run {
        name: "RTX4090_Llama-3.1-8B",
        title: "RTX 4090, Llama-3.1-8B",
        max_num_seqs: 256,
        num_gpu_blocks: Some(2587),
        dp_size: 1,
        tensor_parallel_size: 1,
        timing: NONE,
    },
    Run {
        name: "RTXPRO6000_Llama-3.1-8B",
        title: "RTX PRO 6000, Llama-3.1-8B",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 1,
        tensor_parallel_size: 1,
        timing: NONE,
    },
    Run {
        name: "RTXPRO6000_Qwen3-32B",
        title: "2 × RTX PRO 6000, Qwen3-32B, TP 2",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 1,
        tensor_parallel_size: 2,
        timing: NONE,
    },
    Run {
        name: "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507",
        title: "2 × RTX PRO 6000, Qwen3-30B-A3B, DP 2 and EP 2",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 2,
        tensor_parallel_size: 1,
        timing: NONE,
    },
];
