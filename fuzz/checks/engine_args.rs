//! Engine arguments never panic, and what is accepted reads back from its rendered form.

use dynosim_engine::EngineArgs;

pub(crate) fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(args) = EngineArgs::from_json(text) else { return };
    let rendered = args.to_json();
    let again = EngineArgs::from_json(&rendered).expect("rendered arguments are valid");
    assert_eq!(again.to_json(), rendered);
}
