//! The four measured runs.

use dynosim_engine::timing::Linear;

use crate::simulate::Run;

pub(crate) const RUNS: [Run; 4] = [
    Run {
        name: "RTX4090_Llama-3.1-8B",
        title: "RTX 4090, Llama-3.1-8B",
        max_num_seqs: 256,
        num_gpu_blocks: Some(2587),
        dp_size: 1,
        tensor_parallel_size: 1,
        timing: Linear {
            pass_ms: 5.72242,
            weights_ms: 11.3765,
            prefill_ms_per_token: 0.0905702,
            attention_ms_per_token_pair: 1.12554e-08,
            decode_ms_per_request: 0.184406,
            decode_ms_per_kv_token: 0.000194823,
        },
    },
    Run {
        name: "RTXPRO6000_Llama-3.1-8B",
        title: "RTX PRO 6000, Llama-3.1-8B",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 1,
        tensor_parallel_size: 1,
        timing: Linear {
            pass_ms: 3.51997,
            weights_ms: 10.5816,
            prefill_ms_per_token: 0.0473392,
            attention_ms_per_token_pair: 8.98142e-07,
            decode_ms_per_request: 0.0506361,
            decode_ms_per_kv_token: 9.51704e-05,
        },
    },
    Run {
        name: "RTXPRO6000_Qwen3-32B",
        title: "2 × RTX PRO 6000, Qwen3-32B, TP 2",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 1,
        tensor_parallel_size: 2,
        timing: Linear {
            pass_ms: 0.897124,
            weights_ms: 25.5395,
            prefill_ms_per_token: 0.170258,
            attention_ms_per_token_pair: 6.98783e-11,
            decode_ms_per_request: 0.199502,
            decode_ms_per_kv_token: 0.000233799,
        },
    },
    Run {
        name: "RTXPRO6000_Qwen3-30B-A3B-Instruct-2507",
        title: "2 × RTX PRO 6000, Qwen3-30B-A3B, DP 2 and EP 2",
        max_num_seqs: 128,
        num_gpu_blocks: None,
        dp_size: 2,
        tensor_parallel_size: 1,
        timing: Linear {
            pass_ms: 4.00752,
            weights_ms: 17.1454,
            prefill_ms_per_token: 0.0612039,
            attention_ms_per_token_pair: 4.60559e-07,
            decode_ms_per_request: 0.0694098,
            decode_ms_per_kv_token: 0.000144455,
        },
    },
];
