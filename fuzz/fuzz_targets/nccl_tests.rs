#![no_main]
use bandpilot_core::Collective;
use bandpilot_readers::{ImportOptions, nccl_tests, placement};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = nccl_tests::read("f", text, &ImportOptions::default());
    let told = ImportOptions {
        op: Some(Collective::AllReduce),
        placement: Some(placement::by_name("h[1-2]:0-7").value),
        ..ImportOptions::default()
    };
    let import = nccl_tests::read("f", text, &told);
    assert!(import.measurements.iter().all(|m| m.busbw_gbytes_per_s > 0.0));
});
