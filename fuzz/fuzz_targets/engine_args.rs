//! Engine arguments never panic, and what is accepted reads back from its rendered form.

#![no_main]

use dynosim_engine::EngineArgs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(args) = EngineArgs::from_json(text) else {
        return;
    };
    let rendered = args.to_json();
    let again = EngineArgs::from_json(&rendered).expect("rendered arguments are valid");
    assert_eq!(again.to_json(), rendered);
});
