#![no_main]
use bandpilot_core::ClusterBuilder;
use bandpilot_readers::state_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let cluster = ClusterBuilder::new("f").host_type("t", "H100", 8).hosts("h", 1, 4).build();
    let state = state_file::read(text, &cluster).value;
    for host in cluster.host_ids() {
        let mut taken = state.free[host.index()];
        for job in &state.jobs {
            assert!(taken.intersection(job.placement.on(host)).is_empty());
            taken = taken.union(job.placement.on(host));
        }
    }
    let _ = state_file::free_form(text, &cluster);
});
