//! How fragmented the hosts are: the one account of it, kept while GPUs are taken and given back.
//!
//! Hosts can stand in for those of the same GPU model and size. What a job holds on a host is cut into its instances; where a placement
//! splits an instance, each part counts as one of its own, so that what there is is always one of the packings that the least
//! number of partial hosts is taken over. A GPU that jobs share is an instance of one GPU. A host that is down is none.

use std::collections::BTreeMap;

use bandpilot_core::HostId;
use bandpilot_fragmentation::{Figures, Pool, Proof, Tracker};

use crate::shape::Hosts;

/// How the hosts stand at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Hosts that are there: those that are down are not.
    pub hosts: usize,
    /// Hosts with some GPUs held and some not.
    pub partial: usize,
    /// Hosts with all GPUs held.
    pub full: usize,
    /// Partial hosts beyond the fewest that what runs could be packed with (N*SIF).
    pub avoidable: usize,
    /// Hosts in use beyond the fewest that what runs could be packed on (ENL).
    pub lost: usize,
    /// The condition WCC holds.
    pub is_wide: bool,
    /// The fewest are only known to be no fewer: `avoidable` or `lost` may be less.
    pub bound: bool,
}

impl From<Figures> for Standing {
    fn from(figures: Figures) -> Self {
        let (avoidable, lost) = (figures.avoidable(), figures.empty_host_loss());
        Self {
            hosts: figures.hosts,
            partial: figures.partial,
            full: figures.in_use - figures.partial,
            avoidable,
            lost,
            is_wide: figures.is_wide,
            bound: avoidable > 0 && figures.least.proof == Proof::Bound
                || lost > 0 && figures.least_hosts.proof == Proof::Bound,
        }
    }
}

/// The account.
#[derive(Debug)]
pub(crate) struct Fragmentation {
    tracker: Tracker,
}

/// Sizes of the instances among so many GPUs of a host: as many full ones as go into them, and what is left.
fn sizes(gpus: usize, instance_gpus: usize) -> impl Iterator<Item = usize> {
    let size = instance_gpus.max(1);
    let full = std::iter::repeat_n(size, gpus / size);
    full.chain(Some(gpus % size).filter(|rest| *rest > 0))
}

impl Fragmentation {
    /// Nothing held.
    pub(crate) fn new(hosts: &Hosts) -> Self {
        let mut known: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        let mut pools = Vec::new();
        let mut places = Vec::with_capacity(hosts.len());
        for host in (0..hosts.len() as u32).map(HostId) {
            let (model, host_gpus) = (hosts.model(host), hosts.size(host));
            let pool = *known.entry((model, host_gpus)).or_insert_with(|| {
                pools.push(Pool { gpu_model: model.to_string(), host_gpus });
                pools.len() - 1
            });
            places.push((pool, hosts.healthy(host).count()));
        }
        Self { tracker: Tracker::new(&pools, places) }
    }

    /// From now on a host has so many GPUs: none if it is gone.
    pub(crate) fn set(&mut self, host: HostId, gpus: usize) {
        self.tracker.set_cells(host.index(), gpus);
    }

    /// So many GPUs of a host were taken by a job with instances of this size.
    pub(crate) fn take(&mut self, host: HostId, gpus: usize, instance_gpus: usize) {
        sizes(gpus, instance_gpus).for_each(|size| self.tracker.take(host.index(), size));
    }

    /// They were given back.
    pub(crate) fn give(&mut self, host: HostId, gpus: usize, instance_gpus: usize) {
        sizes(gpus, instance_gpus).for_each(|size| self.tracker.give(host.index(), size));
    }

    /// How the hosts stand now.
    pub(crate) fn standing(&mut self) -> Standing {
        self.tracker.total().into()
    }
}

#[cfg(test)]
mod tests {
    use bandpilot_core::{Cluster, ClusterBuilder};

    use super::*;

    fn account(cluster: &Cluster) -> Fragmentation {
        Fragmentation::new(&Hosts::new(cluster).unwrap())
    }

    #[test]
    fn hosts_are_compared_with_their_like() {
        let builder = ClusterBuilder::new("c").host_type("a", "A100", 8).nvswitch();
        let builder = builder.hosts("a", 1, 3).host_type("b", "L4", 4).nvswitch().hosts("b", 1, 2);
        let mut cluster = builder.build();
        let mut account = account(&cluster);
        let idle = Standing { hosts: 5, is_wide: true, ..Standing::default() };
        assert_eq!(account.standing(), idle);
        account.take(HostId(0), 4, 4);
        account.take(HostId(1), 6, 2);
        let two = Standing { partial: 2, avoidable: 1, ..idle };
        assert_eq!(account.standing(), two, "10 GPUs need one partial host and two hosts");
        account.take(HostId(2), 2, 2);
        assert_eq!(account.standing(), Standing { partial: 3, avoidable: 2, lost: 1, ..idle });
        // The other model has its own least number.
        account.take(HostId(3), 2, 2);
        account.take(HostId(4), 2, 2);
        let lost = Standing { partial: 5, avoidable: 4, lost: 2, ..idle };
        assert_eq!(account.standing(), lost);
        account.give(HostId(4), 2, 2);
        account.take(HostId(3), 2, 2);
        assert_eq!(
            account.standing(),
            Standing { partial: 3, full: 1, avoidable: 2, lost: 1, ..idle }
        );
        // Seven single GPUs fill a host with a broken one, and would leave a whole one partial.
        cluster.hosts[1].unhealthy_gpus = bandpilot_core::GpuMask::single(3);
        let mut account = self::account(&cluster);
        account.take(HostId(1), 7, 1);
        assert_eq!(account.standing(), Standing { full: 1, ..idle });
        account.give(HostId(1), 7, 1);
        account.take(HostId(0), 7, 1);
        assert_eq!(account.standing(), Standing { partial: 1, avoidable: 1, ..idle });
        account.set(HostId(1), 0);
        assert_eq!(account.standing(), Standing { hosts: 4, partial: 1, ..idle });
    }

    #[test]
    fn odd_sizes_need_what_goes_beside_them() {
        let cluster =
            ClusterBuilder::new("c").host_type("a", "", 8).nvswitch().hosts("h", 1, 3).build();
        let mut account = account(&cluster);
        for host in 0..2 {
            account.take(HostId(host), 5, 5);
        }
        let narrow = Standing { hosts: 3, partial: 2, ..Standing::default() };
        assert_eq!(account.standing(), narrow);
        // An instance that is split is two: 5 as 3 + 2 lets a host be full.
        account.give(HostId(1), 5, 5);
        account.take(HostId(0), 3, 5);
        account.take(HostId(1), 2, 5);
        assert_eq!(account.standing(), Standing { partial: 1, full: 1, ..narrow });
        for _ in 0..4 {
            account.take(HostId(1), 1, 1);
        }
        let wide = Standing { partial: 1, full: 1, is_wide: true, ..narrow };
        assert_eq!(account.standing(), wide, "5 and 3 take four single GPUs beside them");
    }
}
