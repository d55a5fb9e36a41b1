#![no_main]
use bandpilot_core::{ClusterBuilder, ClusterState};
use bandpilot_model::{Predictor, file};
use libfuzzer_sys::fuzz_target;

// A model that is accepted reads back to itself and gives every set of a small cluster a finite value.
fuzz_target!(|text: &str| {
    let Ok(model) = file::read(text) else { return };
    assert_eq!(file::read(&file::write(&model)).as_ref(), Ok(&model));
    let cluster = ClusterBuilder::new("f")
        .host_type("h100", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, 3)
        .build();
    let predictor = Predictor::new(&model, &cluster, 2 << 30);
    let all = ClusterState::idle(&cluster).free;
    let set = bandpilot_core::Placement::new(cluster.host_ids().zip(all));
    let value = predictor.isolated(&set);
    assert!(!value.is_nan() && value >= 0.0);
});
