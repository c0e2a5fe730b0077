//! Replays the decision logs of the real schedulers, step for step.
//!
//! Reads the `vllm` and `sglang` folders of `$GOLDEN_DIR` (default: `golden` in `$DYNOSIM_SHARED`, or in `../shared`
//! beside the project); either folder may be absent. Without any, the small logs in `tests/golden/logs` are replayed.

mod folder;
mod report;
mod sglang;
mod sglang_loop;
mod sglang_tree;
mod tokens;
mod vllm;

use std::path::Path;

use folder::{Report, golden_dir};

#[test]
fn every_step_of_the_real_schedulers_is_reproduced() {
    let folder = golden_dir();
    let mut report = Report::default();
    for (name, run) in [("vllm", vllm::run as fn(&Path) -> Report), ("sglang", sglang::run)] {
        if folder.join(name).is_dir() {
            report.merge(run(&folder.join(name)));
        }
    }
    report.finish(&folder);
}
