#![no_main]
use bandpilot_readers::hostlist;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(names) = hostlist::expand(text) {
        let again = hostlist::compress(names.iter().map(String::as_str));
        assert_eq!(hostlist::expand(&again).as_ref(), Ok(&names));
    }
});
