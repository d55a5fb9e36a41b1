#![no_main]
use bandpilot_readers::{ImportOptions, csv_tables};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = csv_tables::read("f", text, &ImportOptions::default());
    let _ = csv_tables::read_links(text);
    let _ = csv_tables::read_masks(text);
});
