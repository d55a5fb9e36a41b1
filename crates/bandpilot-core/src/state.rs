//! What is free and what runs, at one moment.

use crate::{Cluster, GpuMask, HostId, Placement};

/// How much bandwidth a running job asks of what it shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// This share (0..=1) of its isolated bandwidth.
    Fraction(f64),
    /// A stated bandwidth in GB/s (busbw).
    GBytesPerS(f64),
}

/// A job that holds GPUs now.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningJob {
    /// Name, unique in the state.
    pub name: String,
    /// The GPUs that it holds.
    pub placement: Placement,
    /// What it asks of the network.
    pub demand: Demand,
    /// GPUs of each of its instances, the parts that must stay inside a host; if not given, its GPUs on a host are one instance.
    /// Divides its GPUs on every host.
    pub instance_gpus: Option<usize>,
    /// It must stay where it is.
    pub pinned: bool,
}

impl RunningJob {
    /// A job that may be moved, with one instance on each of its hosts.
    pub const fn new(name: String, placement: Placement, demand: Demand) -> Self {
        Self { name, placement, demand, instance_gpus: None, pinned: false }
    }

    /// Its instances: host and GPUs of each. What is on a host is cut up in the order of the indexes.
    pub fn instances(&self) -> impl Iterator<Item = (HostId, GpuMask)> + '_ {
        self.placement.shares().iter().flat_map(|(host, mask)| {
            let size = self.instance_gpus.unwrap_or(mask.count()).max(1);
            let mut left = *mask;
            std::iter::from_fn(move || {
                let instance = left.lowest(size.min(left.count()));
                left = left.without(instance);
                (!instance.is_empty()).then_some((*host, instance))
            })
        })
    }
}

/// An immutable snapshot that a decision is made on.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterState {
    /// Free, healthy GPUs, one mask a host.
    pub free: Vec<GpuMask>,
    /// Running jobs; no GPU is in two of them and none is free.
    pub jobs: Vec<RunningJob>,
}

impl ClusterState {
    /// Every healthy GPU free, nothing running.
    pub fn idle(cluster: &Cluster) -> Self {
        Self {
            free: cluster.host_ids().map(|host| cluster.healthy_gpus(host)).collect(),
            jobs: Vec::new(),
        }
    }

    /// Number of free GPUs.
    pub fn free_gpus(&self) -> usize {
        self.free.iter().map(|mask| mask.count()).sum()
    }
}
