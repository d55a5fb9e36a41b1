#![no_main]
use bandpilot_readers::store;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = store::parse(text);
    if let Ok(addition) = store::append_text(text, &read.value) {
        assert_eq!(addition.added, 0);
    }
});
