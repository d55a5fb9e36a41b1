//! Level 1: the bandwidth of a subset of the GPUs of one host.
//!
//! A measured subset is its measurement. On NVSwitch hosts all subsets of a size are alike, so a few numbers
//! per host type suffice. Without any measurement the link classes decide: the NVLinks that every GPU
//! has inside the subset where they form a ring, else the worst PCIe class that a ring must cross.

use bandpilot_core::{
    Collective, GpuMask, HostType, LinkClass, Links, MAX_GPUS_PER_HOST, MOST_NVLINKS_OF_A_GPU,
    shares_nvlinks, switched_links,
};

use crate::physics::LatencyShape;

/// Bytes of the message that "large" stands for: the size at which bandwidth has flattened.
pub const LARGE_MESSAGE_BYTES: u64 = 2 << 30;

const LATENCY_US: f64 = 25.0;
const LATENCY_PER_RANK_US: f64 = 5.0;
/// Usable GB/s of one NVLink. Source: NCCL's topology tables (SM80 20.0, SM90 20.6).
const NVLINK_GBYTES_PER_S: f64 = 20.0;
/// Share of the `all_reduce` plateau of a full host by number of GPUs in eighths. NVSwitch with in-switch reduction
/// (NVLS) is worse with few GPUs, a plain ring is not. H100 as measured at 2 GiB, B200 from 4 GPUs on (network
/// figures of the project).
const NVLS_SHARE: [f64; 9] = [0.0, 0.0, 0.725, 0.753, 0.765, 0.867, 0.913, 0.970, 1.0];
const NVLS_SHARE_BLACKWELL: [f64; 9] = [0.0, 0.0, 0.803, 0.803, 0.803, 0.809, 0.928, 0.968, 1.0];
const RING_SHARE: [f64; 9] = [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Share of the NVSwitch plateau that the inner part of a tree across two hosts reaches without in-switch reduction:
/// two A100 hosts measure 190 to 191 GB/s where one measures 235 (network figures of the project).
const TREE_SHARE_WITHOUT_NVLS: f64 = 0.845;

/// What the NVSwitch of a full host gives at large messages, GB/s busbw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwitchPlateaus {
    /// `all_reduce`.
    pub all_reduce: f64,
    /// Collectives that go round a ring: no in-switch reduction.
    pub ring: f64,
    /// The inner part of a tree across two hosts.
    pub tree: f64,
    shares: [f64; 9],
}

/// Model, `all_reduce` and ring plateau of hosts with in-switch reduction. Ring figures: NCCL's usable NVLink bandwidth of a
/// GPU (links x 20.6 or 40.1 GB/s).
const NVLS: [(&str, f64, f64, [f64; 9]); 9] = [
    ("GB200", 835.0, 716.0, NVLS_SHARE_BLACKWELL),
    ("GB300", 835.0, 716.0, NVLS_SHARE_BLACKWELL),
    ("B200", 838.0, 716.0, NVLS_SHARE_BLACKWELL),
    ("B300", 838.0, 716.0, NVLS_SHARE_BLACKWELL),
    ("GH200", 473.0, 368.0, NVLS_SHARE),
    ("H200", 473.0, 368.0, NVLS_SHARE),
    ("H100", 473.0, 368.0, NVLS_SHARE),
    ("H20", 473.0, 368.0, NVLS_SHARE),
    ("H800", 200.0, 165.0, NVLS_SHARE),
];
/// Model and plateau of hosts without it.
const RINGS: [(&str, f64); 3] = [("A800", 160.0), ("A100", 235.0), ("V100", 125.0)];

/// True if the plateaus of this GPU model behind an `NVSwitch` are known; others are taken for those of an A100.
pub fn knows_switch_of(gpu_model: &str) -> bool {
    let model = gpu_model.to_ascii_uppercase();
    let mut known = NVLS.iter().map(|e| e.0).chain(RINGS.iter().map(|e| e.0));
    known.any(|name| model.contains(name))
}

/// Plateaus of a full NVSwitch host: public figures per GPU model; those of an A100 for an unknown one.
pub fn switch_plateaus(gpu_model: &str) -> SwitchPlateaus {
    let model = gpu_model.to_ascii_uppercase();
    if let Some((_, all_reduce, ring, shares)) = NVLS.into_iter().find(|e| model.contains(e.0)) {
        return SwitchPlateaus { all_reduce, ring, tree: all_reduce, shares };
    }
    let ring = RINGS.iter().find(|(name, _)| model.contains(name)).map_or(235.0, |(_, v)| *v);
    let tree = ring * TREE_SHARE_WITHOUT_NVLS;
    SwitchPlateaus { all_reduce: ring, ring, tree, shares: RING_SHARE }
}

impl SwitchPlateaus {
    /// The plateau of `count` of a host's `gpus` GPUs.
    fn of(&self, collective: Collective, count: usize, gpus: usize) -> f64 {
        if collective != Collective::AllReduce {
            return self.ring;
        }
        let eighths = 8.0 * count as f64 / gpus.max(2) as f64;
        let at = (count as f64).min(eighths.max(2.0));
        let low = at.floor() as usize;
        let high = (low + 1).min(8);
        let shares = &self.shares;
        self.all_reduce * (shares[low] + (shares[high] - shares[low]) * (at - low as f64))
    }
}

/// Estimated large-message busbw of `mask` on a host of this type with no measurement, GB/s; 0 for fewer than two GPUs.
pub fn physics_plateau(host_type: &HostType, mask: GpuMask, collective: Collective) -> f64 {
    let count = mask.count();
    if count < 2 {
        return 0.0;
    }
    match &host_type.links {
        Links::NvSwitch => {
            switch_plateaus(&host_type.gpu_model).of(collective, count, host_type.gpus)
        }
        Links::Matrix(cells) => {
            let direct = match collective {
                Collective::SendRecv => weakest_pair(host_type, ring_order(mask)),
                Collective::AllToAll if !all_pairs_nvlinked(host_type, mask) => {
                    weakest_pair(host_type, pairs(mask))
                }
                _ => mesh_plateau(host_type, mask),
            };
            // A host that has lost some links of its NVSwitch is no faster than one that has all.
            if shares_nvlinks(cells, host_type.gpus) {
                let whole = switch_plateaus(&host_type.gpu_model);
                direct.min(whole.of(collective, count, host_type.gpus))
            } else {
                direct
            }
        }
    }
}

/// `physics_plateau` at a message size: latency added.
pub fn physics(host_type: &HostType, mask: GpuMask, collective: Collective, bytes: u64) -> f64 {
    let plateau = physics_plateau(host_type, mask, collective);
    if plateau <= 0.0 {
        return 0.0;
    }
    let n = mask.count();
    let moved = bytes as f64 * collective.busbw_factor(n);
    let latency_us = LatencyShape::of(collective).scale(LATENCY_US, LATENCY_PER_RANK_US, n);
    let seconds = moved / (plateau * 1e9) + latency_us * 1e-6;
    moved / seconds / 1e9
}

/// Every pair once, lower GPU first.
fn pairs(mask: GpuMask) -> impl Iterator<Item = (usize, usize)> {
    mask.iter().flat_map(move |a| mask.iter().filter(move |&b| b > a).map(move |b| (a, b)))
}

/// The pairs that `sendrecv` uses: each GPU and the next, the last and the first.
fn ring_order(mask: GpuMask) -> impl Iterator<Item = (usize, usize)> {
    mask.iter().zip(mask.iter().skip(1).chain(mask.lowest(1).iter()))
}

fn weakest_pair(host_type: &HostType, pairs: impl Iterator<Item = (usize, usize)>) -> f64 {
    if let Links::Matrix(cells) = &host_type.links
        && let Some(links) = switched_links(cells, host_type.gpus)
    {
        return f64::from(links) * NVLINK_GBYTES_PER_S;
    }
    pairs
        .map(|(a, b)| pcie_gbytes_per_s(host_type.link(a, b).unwrap_or(LinkClass::Sys)))
        .fold(f64::INFINITY, f64::min)
}

fn all_pairs_nvlinked(host_type: &HostType, mask: GpuMask) -> bool {
    pairs(mask).all(|(a, b)| matches!(host_type.link(a, b), Some(LinkClass::Nv(_))))
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
        let at = |mask: u64| physics_plateau(v100, GpuMask(mask), Collective::AllReduce);
        assert_eq!(at(0b101), 40.0);
        assert_eq!(at(0b1111), 80.0);
        assert_eq!(at(0b1_0001), 6.0);
        assert!(at(0xff) > at(0b1111_0000));
        // Eight links to each of seven peers cannot be: there is a switch between.
        let row = |i: usize| (0..8).map(|j| if i == j { "X " } else { "NV8 " }).collect::<String>();
        let rows: Vec<String> = (0..8).map(row).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let a800 = ClusterBuilder::new("t").host_type("a800", "A800", 8).matrix(&rows).build();
        assert_eq!(
            physics_plateau(&a800.host_types[0], GpuMask::first(8), Collective::AllReduce),
            160.0
        );
        assert_eq!(
            physics_plateau(&a800.host_types[0], GpuMask::first(2), Collective::AllReduce),
            160.0
        );
        // One GPU lost its NVLinks: the others still have eight each, not eight to each.
        let lost: Vec<String> = (0..8)
            .map(|i| (0..8).map(|j| if i == 7 || j == 7 { "SYS " } else { "NV8 " }).collect())
            .collect();
        let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
        let lost = ClusterBuilder::new("t").host_type("a800", "A800", 8).matrix(&lost).build();
        assert_eq!(
            physics_plateau(&lost.host_types[0], GpuMask::first(7), Collective::AllReduce),
            160.0
        );
        assert_eq!(
            physics_plateau(&lost.host_types[0], GpuMask::first(8), Collective::AllReduce),
            6.0
        );
        // Nor are they faster than on a host that has lost none.
        let one_lost: Vec<String> = (0..8)
            .map(|i| (0..8).map(|j| if i == 7 || j == 7 { "SYS " } else { "NV18 " }).collect())
            .collect();
        let one_lost: Vec<&str> = one_lost.iter().map(String::as_str).collect();
        let one_lost =
            ClusterBuilder::new("t").host_type("h100", "H100", 8).matrix(&one_lost).build();
        let h100 = &cluster.host_types[1];
        for op in Collective::ALL {
            for count in 2..=7 {
                let set = GpuMask::first(count);
                let (hurt, whole) = (
                    physics_plateau(&one_lost.host_types[0], set, op),
                    physics_plateau(h100, set, op),
                );
                assert!(hurt <= whole && hurt > 0.75 * whole, "{op} {count}: {hurt} {whole}");
            }
        }
        assert_eq!(physics_plateau(h100, GpuMask::first(8), Collective::AllReduce), 473.0);
        assert!(physics(h100, GpuMask::first(8), Collective::AllReduce, 16 << 20) < 260.0);
        assert_eq!(physics(h100, GpuMask::first(1), Collective::AllReduce, 16 << 20), 0.0);
    }
}
