#![no_main]
use bandpilot_manager::audit::{self, Entry, What};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let read = audit::read(input);
    let entry = Entry { plan: "p".into(), at_s: 1, what: What::Failed { why: "no".into() } };
    // Whatever is in the file, what is appended stays apart from it.
    if let Ok(more) = audit::append(input, std::slice::from_ref(&entry)) {
        let again = audit::read(&format!("{input}{more}")).value;
        let mut expected = read.value;
        expected.add(entry);
        assert_eq!(again, expected);
    }
});
