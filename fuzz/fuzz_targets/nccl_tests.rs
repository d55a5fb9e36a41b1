#![no_main]
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use bandpilot_core::{Cluster, ClusterBuilder, Collective, GpuIdentity};
use bandpilot_readers::{ImportOptions, nccl_tests, placement};
use libfuzzer_sys::fuzz_target;

static CLUSTER: LazyLock<Arc<Cluster>> = LazyLock::new(|| {
    let builder = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).nvswitch().rails(400.0);
    let mut cluster = builder.hosts("h", 1, 2).build();
    let id = |gpu: usize| format!("0000:{:02x}:00.0", 16 * gpu + 15);
    cluster.hosts[0].gpu_ids =
        (0..8).map(|gpu| GpuIdentity { pci_bus_id: Some(id(gpu)), uuid: None }).collect();
    Arc::new(cluster)
});

// The first byte says what the caller knows; the rest is the log, text or JSON.
fuzz_target!(|input: (u8, &str)| {
    let (known, text) = input;
    let options = ImportOptions {
        op: match known & 3 {
            0 => None,
            1 => Some(Collective::AllReduce),
            2 => Some(Collective::AllGather),
            _ => Some(Collective::Broadcast),
        },
        placement: match known >> 2 & 3 {
            0 | 1 => None,
            2 => Some(placement::by_name("h[1-2]:0-7").value),
            _ => Some(placement::by_name("h1:0-3").value),
        },
        cluster: (known & 16 != 0).then(|| CLUSTER.clone()),
        ..ImportOptions::default()
    };
    let import = nccl_tests::read("f", text, &options);
    assert!(!import.refused || import.measurements.is_empty());
    for m in &import.measurements {
        assert!(m.busbw_gbytes_per_s > 0.0 && m.busbw_gbytes_per_s <= 100_000.0);
        assert!(m.bytes.is_some_and(|bytes| bytes > 0) && m.gpus() > 1);
        assert!(m.placement.is_sorted_by(|a, b| a.0 < b.0));
        assert!(options.op.is_none_or(|op| op == m.collective));
        assert!(options.placement.as_ref().is_none_or(|given| *given == m.placement));
    }
    let lines: BTreeSet<u32> = import.diagnostics.iter().map(|remark| remark.line).collect();
    assert!(lines.last().is_none_or(|last| *last as usize <= text.lines().count().max(1)));
});
