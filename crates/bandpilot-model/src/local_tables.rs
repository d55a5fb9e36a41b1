//! Measured subsets inside hosts, ready to be looked up: as logarithms of measured to estimated bandwidth.

use bandpilot_core::{Cluster, GpuMask, HostTypeId, Links};
use rustc_hash::FxHashMap;

use crate::local::{self, LARGE_MESSAGE_BYTES};
use crate::model::BandwidthModel;

/// Log ratios of measured to estimated bandwidth by log2 of the message size, ascending.
pub(crate) type Ratios = Vec<(f64, f64)>;

#[derive(Debug, Default)]
pub(crate) struct LocalTables {
    /// By host and GPUs; GPUs 0: the host has some.
    pub(crate) by_host: FxHashMap<(u32, u64), Ratios>,
    /// By type and key of the GPUs.
    pub(crate) by_type: FxHashMap<(u16, u64), Ratios>,
    /// Mean over everything measured on the type: for subsets that never were.
    pub(crate) typical: FxHashMap<u16, f64>,
}

/// Subsets that are alike share a key: all of one size on NVSwitch hosts.
pub(crate) fn type_key(cluster: &Cluster, host_type: HostTypeId, mask: GpuMask) -> u64 {
    match cluster.host_types[host_type.0 as usize].links {
        Links::NvSwitch => mask.count() as u64,
        Links::Matrix(_) => mask.0,
    }
}

/// Linear in log2 of the size between measured sizes, constant outside.
pub(crate) fn interpolate(ratios: &Ratios, bytes: u64) -> f64 {
    let at = (bytes.max(1) as f64).log2();
    let above = ratios.partition_point(|(size, _)| *size < at);
    match (above.checked_sub(1).map(|i| ratios[i]), ratios.get(above).copied()) {
        (None, None) => 0.0,
        (Some((_, value)), None) | (None, Some((_, value))) => value,
        (Some((size_low, low)), Some((size_high, high))) => {
            low + (high - low) * (at - size_low) / (size_high - size_low)
        }
    }
}

pub(crate) fn local_tables(model: &BandwidthModel, cluster: &Cluster) -> LocalTables {
    let mut tables = LocalTables::default();
    let mut sums: FxHashMap<(u16, u64, u64), (f64, f64)> = FxHashMap::default();
    let mut typical: FxHashMap<u16, (f64, f64)> = FxHashMap::default();
    for entry in &model.local {
        let Some(type_index) =
            cluster.host_types.iter().position(|kind| kind.name == entry.host_type)
        else {
            continue;
        };
        let bytes = entry.bytes.unwrap_or(LARGE_MESSAGE_BYTES);
        let kind = &cluster.host_types[type_index];
        let estimate = local::physics(kind, entry.gpus, model.collective, bytes);
        if estimate <= 0.0 || entry.busbw_gbytes_per_s <= 0.0 {
            continue;
        }
        let ratio = (entry.busbw_gbytes_per_s / estimate).ln();
        let size = (bytes.max(1) as f64).log2();
        if let Some(host) = cluster.find_host(&entry.host) {
            tables.by_host.entry((host.0, entry.gpus.0)).or_default().push((size, ratio));
            tables.by_host.entry((host.0, 0)).or_default();
        }
        let id = HostTypeId(type_index as u16);
        let key = type_key(cluster, id, entry.gpus);
        let sum = sums.entry((id.0, key, bytes)).or_insert((0.0, 0.0));
        *sum = (sum.0 + ratio, sum.1 + 1.0);
        let all = typical.entry(id.0).or_insert((0.0, 0.0));
        *all = (all.0 + ratio, all.1 + 1.0);
    }
    for ((host_type, key, bytes), (sum, count)) in sums {
        let size = (bytes.max(1) as f64).log2();
        tables.by_type.entry((host_type, key)).or_default().push((size, sum / count));
    }
    let sort = |ratios: &mut Ratios| ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    tables.by_host.values_mut().for_each(sort);
    tables.by_type.values_mut().for_each(sort);
    tables.typical = typical.into_iter().map(|(id, (sum, count))| (id, sum / count)).collect();
    tables
}
