#![no_main]

#[path = "../checks/engine_args.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|data: &[u8]| check::check(data));
