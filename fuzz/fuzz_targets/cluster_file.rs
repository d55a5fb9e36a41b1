#![no_main]
use bandpilot_readers::cluster_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = cluster_file::read(text).value;
    assert_eq!(cluster_file::read(&cluster_file::write(&read)).value, read);
});
