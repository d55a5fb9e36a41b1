#![no_main]
use bandpilot_readers::slurm;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = slurm::read(text).value;
    assert!(read.nodes.values().all(|node| node.gpus.is_none_or(|gpus| (1..=64).contains(&gpus))));
});
