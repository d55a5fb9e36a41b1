//! The clusters of the evaluation, also the built-in examples.

use bandpilot_core::{Cluster, ClusterBuilder};

const PXB_PAIRS_4090: [&str; 8] = [
    "X PXB PXB PXB SYS SYS SYS SYS",
    "PXB X PXB PXB SYS SYS SYS SYS",
    "PXB PXB X PIX SYS SYS SYS SYS",
    "PXB PXB PIX X SYS SYS SYS SYS",
    "SYS SYS SYS SYS X PXB PXB PXB",
    "SYS SYS SYS SYS PXB X PXB PXB",
    "SYS SYS SYS SYS PXB PXB X PIX",
    "SYS SYS SYS SYS PXB PXB PIX X",
];
const CUBE_MESH_V100: [&str; 8] = [
    "X NV1 NV2 NV1 SYS SYS SYS NV2",
    "NV1 X NV1 NV2 SYS SYS NV2 SYS",
    "NV2 NV1 X NV2 SYS NV1 SYS SYS",
    "NV1 NV2 NV2 X NV1 SYS SYS SYS",
    "SYS SYS SYS NV1 X NV2 NV2 NV1",
    "SYS SYS NV1 SYS NV2 X NV1 NV2",
    "SYS NV2 SYS SYS NV2 NV1 X NV1",
    "NV2 SYS SYS SYS NV1 NV2 NV1 X",
];
const BRIDGED_PAIRS_A6000: [&str; 8] = [
    "X NV4 PXB PXB SYS SYS SYS SYS",
    "NV4 X PXB PXB SYS SYS SYS SYS",
    "PXB PXB X NV4 SYS SYS SYS SYS",
    "PXB PXB NV4 X SYS SYS SYS SYS",
    "SYS SYS SYS SYS X NV4 PXB PXB",
    "SYS SYS SYS SYS NV4 X PXB PXB",
    "SYS SYS SYS SYS PXB PXB X NV4",
    "SYS SYS SYS SYS PXB PXB NV4 X",
];
const ALL_NV8_A800: [&str; 8] = [
    "X NV8 NV8 NV8 NV8 NV8 NV8 NV8",
    "NV8 X NV8 NV8 NV8 NV8 NV8 NV8",
    "NV8 NV8 X NV8 NV8 NV8 NV8 NV8",
    "NV8 NV8 NV8 X NV8 NV8 NV8 NV8",
    "NV8 NV8 NV8 NV8 X NV8 NV8 NV8",
    "NV8 NV8 NV8 NV8 NV8 X NV8 NV8",
    "NV8 NV8 NV8 NV8 NV8 NV8 X NV8",
    "NV8 NV8 NV8 NV8 NV8 NV8 NV8 X",
];

/// Four hosts h1..h4 of 8 H100 each, NVSwitch, one 400 Gbit/s NIC a GPU.
pub fn h100_32() -> Cluster {
    ClusterBuilder::new("h100-32")
        .host_type("h100", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, 4)
        .build()
}

/// One host each of 8 RTX 4090, V100, A6000 and A800. The network of this cluster is composed: the NICs are those of the
/// H100 cluster whose cross-host table its truth uses.
pub fn het_4mix() -> Cluster {
    let mut builder = ClusterBuilder::new("het-4mix");
    for (model, matrix) in [
        ("4090", PXB_PAIRS_4090),
        ("V100", CUBE_MESH_V100),
        ("A6000", BRIDGED_PAIRS_A6000),
        ("A800", ALL_NV8_A800),
    ] {
        builder = builder.host_type(model, model, 8).matrix(&matrix).rails(400.0).host(model);
    }
    builder.build()
}
