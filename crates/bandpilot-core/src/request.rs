//! What a job asks for.

use crate::{GpuMask, HostId};

/// A request for GPUs with its constraints.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Number of GPUs, at least 1.
    pub gpus: usize,
    /// The same count on every host.
    pub uniform: bool,
    /// Exactly this many hosts.
    pub hosts: Option<usize>,
    /// At most this many hosts.
    pub max_hosts: Option<usize>,
    /// The number of GPUs on every host is a multiple of this, at least 1: the size of an instance that must stay
    /// inside one host.
    pub multiple_of: usize,
    /// Only GPUs of this model (compared without case).
    pub gpu_model: Option<String>,
    /// Only these GPUs, if not empty.
    pub include: Vec<(HostId, GpuMask)>,
    /// None of these GPUs.
    pub exclude: Vec<(HostId, GpuMask)>,
    /// At most so many GPUs of these hosts; a host that is not named gives any number. Of several limits of a host the
    /// least counts.
    pub most_on_host: Vec<(HostId, usize)>,
    /// The low end of the effective bandwidth must reach this, GB/s.
    pub min_busbw_gbytes_per_s: Option<f64>,
    /// No running job may lose more than this share of its bandwidth, for example 0.05.
    pub protect: Option<f64>,
    /// So many further hosts must be left that could each take over the largest share of the set.
    pub spare_hosts: usize,
    /// Message size that the answer is optimised for, bytes.
    pub bytes: u64,
}

impl Request {
    /// A plain request: `gpus` GPUs, `all_reduce` of 2 GiB.
    pub fn gpus(gpus: usize) -> Self {
        Self {
            gpus,
            uniform: false,
            hosts: None,
            max_hosts: None,
            multiple_of: 1,
            gpu_model: None,
            include: Vec::new(),
            exclude: Vec::new(),
            most_on_host: Vec::new(),
            min_busbw_gbytes_per_s: None,
            protect: None,
            spare_hosts: 0,
            bytes: 2 << 30,
        }
    }
}
