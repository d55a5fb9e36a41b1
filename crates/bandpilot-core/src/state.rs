//! What is free and what runs, at one moment.

use crate::{Cluster, GpuMask, Placement};

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
