#![no_main]
use bandpilot_readers::{hostlist, leaf_map};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let leaves = leaf_map::read(text).value;
    assert!(
        leaves.iter().all(|(host, leaf)| hostlist::is_host_name(host) && !leaf.name.is_empty())
    );
});
