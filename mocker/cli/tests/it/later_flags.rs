//! Published flags of parts that dynosim does not have yet: exit code 2 and one sentence, never ignored.

use crate::place::Place;
use crate::refused::{SMALL, Table};

const PLANNER: &str = "comes with the planner in the loop";
const AIC: &str = "comes with the AIC performance model";

/// Flag, value, and what is said about it.
const LATER: [(&str, &str, &str); 18] = [
    ("--planner-config", "{}", PLANNER),
    ("--benchmark-granularity", "8", PLANNER),
    ("--model-name", "m", AIC),
    ("--aic-backend", "vllm", AIC),
    ("--aic-system", "h200_sxm", AIC),
    ("--aic-backend-version", "1", AIC),
    ("--aic-model-path", "m", AIC),
    ("--aic-tp-size", "1", AIC),
    ("--aic-moe-tp-size", "1", AIC),
    ("--aic-moe-ep-size", "1", AIC),
    ("--aic-attention-dp-size", "1", AIC),
    ("--aic-gemm-dtype", "auto", AIC),
    ("--aic-moe-dtype", "auto", AIC),
    ("--aic-fmha-dtype", "auto", AIC),
    ("--aic-kv-cache-dtype", "auto", AIC),
    ("--aic-comm-dtype", "auto", AIC),
    ("--aic-nextn", "1", AIC),
    ("--aic-nextn-accept-rates", "0.5", AIC),
];

#[test]
fn every_published_flag_that_comes_later_is_refused_in_a_sentence() {
    let place = Place::new();
    let mut table = Table::default();
    for (flag, value, why) in LATER {
        let args = [&["replay"], &SMALL[..], &[flag, value]].concat();
        table.row(&place, &args, &format!("{flag}: {why}"));
    }
    table.finish(18);
}

#[test]
fn every_published_value_that_comes_later_is_refused_in_a_sentence() {
    let place = Place::new();
    place.file("trace.jsonl", r#"{"timestamp":0,"output_length":1,"hash_ids":[1]}"#);
    let mut table = Table::default();
    let online = "--replay-mode online: comes later; this version replays offline";
    table.row(&place, &["replay", "trace.jsonl", "--replay-mode", "online"], online);
    table.finish(1);
}
