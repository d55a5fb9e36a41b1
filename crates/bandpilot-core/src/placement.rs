//! Concrete GPUs on concrete hosts.

use crate::{Cluster, GpuMask, HostId};

/// A set of GPUs: hosts ascending, every mask non-empty. May be empty as a whole.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Placement {
    shares: Vec<(HostId, GpuMask)>,
}

impl Placement {
    /// Builds a set; shares of the same host are united, empty ones dropped.
    pub fn new(shares: impl IntoIterator<Item = (HostId, GpuMask)>) -> Self {
        let mut all: Vec<(HostId, GpuMask)> =
            shares.into_iter().filter(|(_, mask)| !mask.is_empty()).collect();
        all.sort_by_key(|(host, _)| *host);
        let mut shares: Vec<(HostId, GpuMask)> = Vec::with_capacity(all.len());
        for (host, mask) in all {
            match shares.last_mut() {
                Some((last, united)) if *last == host => *united = united.union(mask),
                _ => shares.push((host, mask)),
            }
        }
        Self { shares }
    }

    /// Host and GPUs, hosts ascending.
    pub fn shares(&self) -> &[(HostId, GpuMask)] {
        &self.shares
    }

    /// GPUs on one host, possibly none.
    pub fn on(&self, host: HostId) -> GpuMask {
        self.shares
            .binary_search_by_key(&host, |(h, _)| *h)
            .map_or(GpuMask::EMPTY, |at| self.shares[at].1)
    }

    /// Number of GPUs.
    pub fn gpus(&self) -> usize {
        self.shares.iter().map(|(_, mask)| mask.count()).sum()
    }

    /// Number of hosts.
    pub fn hosts(&self) -> usize {
        self.shares.len()
    }

    /// True if the set spans more than one host.
    pub fn is_cross_host(&self) -> bool {
        self.shares.len() > 1
    }

    /// True if both sets have GPUs on a common host.
    pub fn shares_host_with(&self, other: &Self) -> bool {
        self.shares.iter().any(|(host, _)| !other.on(*host).is_empty())
    }

    /// This set plus those GPUs of `other` that are on this set's hosts (the virtual merge of contention).
    #[must_use]
    pub fn merged_on_own_hosts(&self, other: &Self) -> Self {
        Self {
            shares: self.shares.iter().map(|(h, mask)| (*h, mask.union(other.on(*h)))).collect(),
        }
    }

    /// `h1:0-3,5,h2:5` with the cluster's host names; a part without a colon belongs to the host before it.
    pub fn display(&self, cluster: &Cluster) -> String {
        let parts: Vec<String> = self
            .shares
            .iter()
            .map(|(host, mask)| format!("{}:{mask}", cluster.host(*host).name))
            .collect();
        parts.join(",")
    }
}
