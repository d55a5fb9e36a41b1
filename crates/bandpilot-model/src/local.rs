//! Level 1: the bandwidth of a subset of the GPUs of one host.
//!
//! A measured subset is its measurement. On NVSwitch hosts all subsets of a size are alike, so a few numbers
//! per host type suffice. Without any measurement the link classes decide: the NVLinks that every GPU
//! has inside the subset where they form a ring, else the worst PCIe class that a ring must cross.

use bandpilot_core::{
    GpuMask, HostType, LinkClass, Links, MAX_GPUS_PER_HOST, MOST_NVLINKS_OF_A_GPU, shares_nvlinks,
    switched_links,
};

/// Bytes of the message that "large" stands for: the size at which bandwidth has flattened.
pub const LARGE_MESSAGE_BYTES: u64 = 2 << 30;

const LATENCY_US: f64 = 25.0;
const LATENCY_PER_RANK_US: f64 = 5.0;
/// Usable GB/s of one NVLink. Source: NCCL's topology tables (SM80 20.0, SM90 20.6).
const NVLINK_GBYTES_PER_S: f64 = 20.0;
/// Share of the plateau of 8 GPUs by number of GPUs, H100 at 2 GiB (network figures of the project).
const SWITCH_SHARE: [f64; 9] = [0.0, 0.0, 0.725, 0.753, 0.765, 0.867, 0.913, 0.970, 1.0];

/// Measured `all_reduce` plateau of a full NVSwitch host, GB/s: public figures per GPU model.
pub fn switch_plateau(gpu_model: &str) -> f64 {
    let model = gpu_model.to_ascii_uppercase();
    let known = [
        ("GB200", 835.0),
        ("GB300", 835.0),
        ("B200", 838.0),
        ("B300", 838.0),
        ("GH200", 473.0),
        ("H200", 473.0),
        ("H100", 473.0),
        ("H20", 473.0),
        ("H800", 200.0),
        ("A800", 160.0),
        ("A100", 235.0),
        ("V100", 125.0),
    ];
    known.iter().find(|(name, _)| model.contains(name)).map_or(235.0, |(_, value)| *value)
}

/// Estimated large-message busbw of `mask` on a host of this type with no measurement, GB/s; 0 for fewer than two GPUs.
pub fn physics_plateau(host_type: &HostType, mask: GpuMask) -> f64 {
    let count = mask.count();
    if count < 2 {
        return 0.0;
    }
    match &host_type.links {
        Links::NvSwitch => {
            let eighths = 8.0 * count as f64 / host_type.gpus.max(2) as f64;
            let at = (count as f64).min(eighths.max(2.0));
            let low = at.floor() as usize;
            let high = (low + 1).min(8);
            let share =
                SWITCH_SHARE[low] + (SWITCH_SHARE[high] - SWITCH_SHARE[low]) * (at - low as f64);
            switch_plateau(&host_type.gpu_model) * share
        }
        Links::Matrix(_) => mesh_plateau(host_type, mask),
    }
}

/// `physics_plateau` at a message size: latency added.
pub fn physics(host_type: &HostType, mask: GpuMask, bytes: u64) -> f64 {
    let plateau = physics_plateau(host_type, mask);
    if plateau <= 0.0 {
        return 0.0;
    }
    let n = mask.count() as f64;
    let moved = bytes as f64 * 2.0 * (n - 1.0) / n;
    let seconds = moved / (plateau * 1e9) + (LATENCY_US + LATENCY_PER_RANK_US * n) * 1e-6;
    moved / seconds / 1e9
}

fn mesh_plateau(host_type: &HostType, mask: GpuMask) -> f64 {
    let links = |a, b| host_type.link(a, b).unwrap_or(LinkClass::Sys);
    if let Links::Matrix(cells) = &host_type.links
        && let Some(links) = switched_links(cells, host_type.gpus)
    {
        return f64::from(links) * NVLINK_GBYTES_PER_S;
    }
    let nvlinks = |gpu: usize| -> f64 {
        mask.iter()
            .filter(|&other| other != gpu)
            .map(|other| match links(gpu, other) {
                LinkClass::Nv(n) => f64::from(n),
                _ => 0.0,
            })
            .sum()
    };
    if rings_at_least(host_type, mask, LinkClass::Nv(1)) {
        let least = mask.iter().map(nvlinks).fold(f64::INFINITY, f64::min);
        return least.min(nvlinks_at_most(host_type)) * NVLINK_GBYTES_PER_S;
    }
    let classes = [LinkClass::Pix, LinkClass::Pxb, LinkClass::Phb, LinkClass::Node, LinkClass::Sys];
    classes
        .into_iter()
        .find(|&class| rings_at_least(host_type, mask, class))
        .map_or(pcie_gbytes_per_s(LinkClass::Sys), pcie_gbytes_per_s)
}

/// NVLinks of a GPU at most: those to the switch where pairs share them through one (which may have lost a GPU), else
/// what any GPU has.
fn nvlinks_at_most(host_type: &HostType) -> f64 {
    let Links::Matrix(cells) = &host_type.links else { return MOST_NVLINKS_OF_A_GPU as f64 };
    let widest = cells.iter().max();
    match widest {
        Some(LinkClass::Nv(links)) if shares_nvlinks(cells, host_type.gpus) => f64::from(*links),
        _ => MOST_NVLINKS_OF_A_GPU as f64,
    }
}

/// GB/s of a ring that must cross this class. Sources: NCCL's PCIe 3 x16 figure (12) and, for what lies
/// between sockets, half of it as the published PCIe hosts show.
fn pcie_gbytes_per_s(class: LinkClass) -> f64 {
    match class {
        LinkClass::Nv(n) => f64::from(n) * NVLINK_GBYTES_PER_S,
        LinkClass::Pix | LinkClass::Pxb => 12.0,
        LinkClass::Phb => 10.0,
        LinkClass::Node => 9.0,
        LinkClass::Sys => 6.0,
    }
}

/// True if the links of at least this class connect the subset with two such links a GPU (one for a pair):
/// the necessary condition for a ring that we test instead of searching for the ring.
fn rings_at_least(host_type: &HostType, mask: GpuMask, class: LinkClass) -> bool {
    let needed = if mask.count() == 2 { 1 } else { 2 };
    let mut near = [GpuMask::EMPTY; MAX_GPUS_PER_HOST];
    for gpu in mask.iter() {
        let good = |other: &usize| {
            *other != gpu && host_type.link(gpu, *other).unwrap_or(LinkClass::Sys) >= class
        };
        near[gpu] =
            mask.iter().filter(good).map(GpuMask::single).fold(GpuMask::EMPTY, GpuMask::union);
        if near[gpu].count() < needed {
            return false;
        }
    }
    let mut reached = mask.lowest(1);
    loop {
        let next = reached.iter().fold(reached, |all, gpu| all.union(near[gpu]));
        if next == reached {
            return reached == mask;
        }
        reached = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bandpilot_core::ClusterBuilder;

    #[test]
    fn link_classes_order_subsets_like_the_measured_hosts() {
        let cluster = ClusterBuilder::new("t")
            .host_type("v100", "V100", 8)
            .matrix(&[
                "X NV1 NV2 NV1 SYS SYS SYS NV2",
                "NV1 X NV1 NV2 SYS SYS NV2 SYS",
                "NV2 NV1 X NV2 SYS NV1 SYS SYS",
                "NV1 NV2 NV2 X NV1 SYS SYS SYS",
                "SYS SYS SYS NV1 X NV2 NV2 NV1",
                "SYS SYS NV1 SYS NV2 X NV1 NV2",
                "SYS NV2 SYS SYS NV2 NV1 X NV1",
                "NV2 SYS SYS SYS NV1 NV2 NV1 X",
            ])
            .host_type("h100", "H100", 8)
            .nvswitch()
            .build();
        let v100 = &cluster.host_types[0];
        let at = |mask: u64| physics_plateau(v100, GpuMask(mask));
        assert_eq!(at(0b101), 40.0);
        assert_eq!(at(0b1111), 80.0);
        assert_eq!(at(0b1_0001), 6.0);
        assert!(at(0xff) > at(0b1111_0000));
        // Eight links to each of seven peers cannot be: there is a switch between.
        let row = |i: usize| (0..8).map(|j| if i == j { "X " } else { "NV8 " }).collect::<String>();
        let rows: Vec<String> = (0..8).map(row).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let a800 = ClusterBuilder::new("t").host_type("a800", "A800", 8).matrix(&rows).build();
        assert_eq!(physics_plateau(&a800.host_types[0], GpuMask::first(8)), 160.0);
        assert_eq!(physics_plateau(&a800.host_types[0], GpuMask::first(2)), 160.0);
        // One GPU lost its NVLinks: the others still have eight each, not eight to each.
        let lost: Vec<String> = (0..8)
            .map(|i| (0..8).map(|j| if i == 7 || j == 7 { "SYS " } else { "NV8 " }).collect())
            .collect();
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        let lost = ClusterBuilder::new("t").host_type("a800", "A800", 8).matrix(&lost).build();
        assert_eq!(physics_plateau(&lost.host_types[0], GpuMask::first(7)), 160.0);
        assert_eq!(physics_plateau(&lost.host_types[0], GpuMask::first(8)), 6.0);
        let h100 = &cluster.host_types[1];
        assert_eq!(physics_plateau(h100, GpuMask::first(8)), 473.0);
        assert!(physics(h100, GpuMask::first(8), 16 << 20) < 260.0);
        assert_eq!(physics(h100, GpuMask::first(1), 16 << 20), 0.0);
    }
}
