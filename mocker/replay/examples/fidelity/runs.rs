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
            pass_ms: 3.595_9,
            weights_ms: 16.305,
            prefill_ms_per_token: 0.074_924,
            attention_ms_per_token_pair: 6.3224e-7,
            decode_ms_per_request: 0.005_932,
            decode_ms_per_kv_token: 0.000_163_33,
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
            pass_ms: 3.154_8,
            weights_ms: 10.409,
            prefill_ms_per_token: 0.047_982,
            attention_ms_per_token_pair: 8.6698e-7,
            decode_ms_per_request: 0.035_107,
            decode_ms_per_kv_token: 0.000_100_38,
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
            pass_ms: 2.062_5,
            weights_ms: 24.483,
            prefill_ms_per_token: 0.163_38,
            attention_ms_per_token_pair: 0.000_010_244,
            decode_ms_per_request: 0.191_27,
            decode_ms_per_kv_token: 0.000_234_3,
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
            pass_ms: 3.228_1,
            weights_ms: 20.688,
            prefill_ms_per_token: 0.059_808,
            attention_ms_per_token_pair: 3.9398e-7,
            decode_ms_per_request: 0.090_473,
            decode_ms_per_kv_token: 0.000_132_94,
        },
    },
];
