#![no_main]
use bandpilot_core::ClusterBuilder;
use bandpilot_readers::placement;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let cluster = ClusterBuilder::new("f").host_type("t", "H100", 8).hosts("h", 1, 4).build();
    let read = placement::on_cluster(text, &cluster);
    assert!(read.value.hosts() <= 4);
    let named = placement::by_name(text);
    if !named.has_errors() {
        assert_eq!(placement::by_name(&placement::format(&named.value)).value, named.value);
    }
});
