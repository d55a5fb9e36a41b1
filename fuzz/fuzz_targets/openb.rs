#![no_main]
use bandpilot_readers::openb;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let nodes = openb::read_nodes(text);
    assert!(nodes.value.rows.is_sorted_by(|a, b| a.line < b.line));
    assert!(nodes.value.bad_rows == 0 || !nodes.diagnostics.is_empty());
    let pods = openb::read_pods(text);
    let rows = &pods.value.rows;
    assert!(
        rows.iter().all(|pod| pod.gpu_milli == 1000 || pod.gpus == u32::from(pod.gpu_milli > 0))
    );
    assert!(pods.value.bad_rows == 0 || !pods.diagnostics.is_empty());
});
