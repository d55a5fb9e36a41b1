//! One measured bandwidth.

use crate::{Collective, GpuMask};

/// One row of one benchmark run, with where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// The collective that was run.
    pub collective: Collective,
    /// Message size in bytes; `None` where the source does not record it and the user said so.
    pub bytes: Option<u64>,
    /// Host name and GPUs, sorted by host name, every mask non-empty, every name once.
    pub placement: Vec<(String, GpuMask)>,
    /// Bus bandwidth in GB/s, out of place where the source has both; finite and not negative.
    pub busbw_gbytes_per_s: f64,
    /// File name (no directory) or other label of the source.
    pub source: String,
    /// 1-based line in the source.
    pub line: u64,
}

impl Measurement {
    /// Number of GPUs (ranks).
    pub fn gpus(&self) -> usize {
        self.placement.iter().map(|(_, mask)| mask.count()).sum()
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.placement.len()
    }
}
