//! Flags that cannot be used are refused before anything starts.

use std::process::Command;

fn refused(flags: &[&str], env: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dynosim"))
        .args(["mocker", "--discovery-backend", "mem"])
        .args(flags)
        .envs(env.iter().copied())
        .env_remove("DYN_SYSTEM_PORT")
        .output()
        .expect("the binary runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{flags:?}: {text}");
    text
}

#[test]
fn flags_without_effect_or_out_of_range_are_errors_that_name_them() {
    for (flags, message) in [
        (&[][..], "--model-path: is needed"),
        (&["--bootstrap-ports", "1"], "--bootstrap-ports: has no effect with --disaggregation-mode agg"),
        (&["--kv-transfer-bandwidth", "64"], "--kv-transfer-bandwidth: has no effect with --disaggregation-mode agg"),
        (
            &["--disaggregation-mode", "decode", "--zmq-kv-events-ports", "5000"],
            "--zmq-kv-events-ports: has no effect with --disaggregation-mode decode",
        ),
        (&["--zmq-replay-ports", "5000"], "--zmq-replay-ports: needs --zmq-kv-events-ports"),
        (
            &["--zmq-kv-events-ports", "5000", "--no-enable-prefix-caching"],
            "--zmq-kv-events-ports: has no effect with --no-enable-prefix-caching",
        ),
        (&["--sglang-page-size", "4"], "`--sglang-*` has no effect with engine type vllm"),
        (&["--sglang-max-prefill-tokens", "4"], "`--sglang-*` has no effect with engine type vllm"),
        (&["--engine-type", "sglang", "--preemption-mode", "fifo"], "`--preemption-mode` has no effect"),
        (&["--engine-type", "vlllm"], "`--engine-type` is \"vlllm\"; allowed: \"vllm\", \"sglang\", \"trtllm\""),
        (&["--num-gpu-blocks-override", "0"], "`--num-gpu-blocks-override` is 0; allowed: "),
        (&["--speedup-ratio=-1"], "`--speedup-ratio` is -1.0; allowed: "),
        (&["--speedup-ratio", "inf"], "--speedup-ratio: inf is out of range"),
        (&["--ais-mtp-seed", "1"], "`--ais-mtp-seed` has no effect without `--ais-nextn`"),
        (&["--aic-perf-model"], "--ais-perf-model: comes with the AIC performance model"),
        (&["--aic-system", "h200_sxm"], "--ais-system: comes with the AIC performance model"),
        (&["--num-host-blocks", "9"], "--num-host-blocks: comes with KV tiers beyond GPU memory"),
        (&["--router-mode", "kv"], "--router-mode: workers of this version follow"),
        (&["--durable-kv-events"], "--durable-kv-events: was removed in Dynamo 1.6"),
        (&["--is-prefill-worker", "--disaggregation-mode", "decode"], "--is-prefill-worker and --disaggregation-mode"),
        (&["--is-prefill-worker", "--is-decode-worker"], "--is-prefill-worker and --is-decode-worker"),
        (&["--model-path", "m", "--num-workers", "0"], "--num-workers: 0 is out of range"),
        (&["--model-path", "m", "--stagger-delay", "-2"], "--stagger-delay: -2 is out of range"),
        (&["--model-path", "m", "--stagger-delay", "1"], "--stagger-delay: has no effect with --num-workers 1"),
        (
            &["--model-path", "m", "--num-workers", "2", "--zmq-kv-events-ports", "5000"],
            "--zmq-kv-events-ports: 1 ports for --num-workers 2",
        ),
        (&["--model-path", "m", "--zmq-kv-events-ports", "x"], "--zmq-kv-events-ports: `x` cannot be used"),
        (&["--model-path", "m", "--endpoint", "a.b"], "--endpoint: `a.b` is no endpoint"),
        (&["--extra-engine-args", "{\"block_siz\":1}"], "--extra-engine-args: `block_siz` is no engine argument"),
        (&["--extra-engine-args", "no/file"], "--extra-engine-args: `no/file` is no JSON object and cannot be read"),
        (&["--reasoning", "{"], "--reasoning: `{` is no JSON"),
        (
            &["--disaggregation-mode", "prefill", "--response-replay-trace-path", "x"],
            "--response-replay-trace-path: has no effect with --disaggregation-mode prefill",
        ),
        (&["--response-plane", "quic", "--model-path", "m"], "response plane `quic`: not supported"),
    ] {
        let text = refused(flags, &[]);
        assert!(text.contains(message), "{flags:?}: {text}");
    }
}

#[test]
fn the_two_spellings_of_a_flag_cannot_be_combined() {
    assert!(refused(&["--ais-nextn", "1", "--aic-nextn", "1"], &[]).contains("cannot be used multiple times"));
}

#[test]
fn environment_variables_that_cannot_be_used_are_errors_that_name_them() {
    for (name, value) in [
        ("DYN_SYSTEM_HOST", "nowhere"),
        ("DYN_MOCKER_KV_CACHE_TRACE", "maybe"),
        ("DYN_NAMESPACE", "a b"),
        ("DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS", "soon"),
        ("DYN_LOG", "=,="),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_dynosim"))
            .args(["mocker", "--discovery-backend", "mem", "--model-path", "m"])
            .env("DYN_SYSTEM_PORT", "0")
            .env(name, value)
            .output()
            .expect("the binary runs");
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{name}: {text}");
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn json_wins_over_flags_and_flags_say_what_it_leaves_out() {
    // A block count that the JSON sets right, and a mode that only the flag has.
    let text = refused(
        &[
            "--num-gpu-blocks-override",
            "0",
            "--disaggregation-mode",
            "prefill",
            "--extra-engine-args",
            r#"{"engine":{"num_gpu_blocks":64}}"#,
            "--response-replay-trace-path",
            "x",
        ],
        &[],
    );
    assert!(text.contains("--response-replay-trace-path: has no effect with --disaggregation-mode prefill"), "{text}");
}
