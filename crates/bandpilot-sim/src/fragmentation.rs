//! How fragmented the hosts are: the one account of it, kept while GPUs are taken and given back.
//!
//! Hosts are compared with those of the same GPU model and as many healthy GPUs. What a job holds on a host is cut into its instances; where
//! a placement splits an instance, each part counts as one of its own, so that what there is is always one of the packings that the least
//! number of partial hosts is taken over. A GPU that jobs share is an instance of one GPU.

use std::collections::BTreeMap;

use bandpilot_core::HostId;
use bandpilot_fragmentation::{Census, Proof, least_partial};

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
    /// The fewest are only known to be no fewer: `avoidable` may be less.
    pub bound: bool,
    /// Hosts in use beyond the fewest that what runs could be packed on (ENL); `None` where the condition WCC does not hold.
    pub lost: Option<usize>,
}

/// Hosts that can stand in for each other.
#[derive(Debug)]
struct Pool {
    census: Census,
    partial: usize,
    full: usize,
    /// As of the last time that it was asked for.
    avoidable: usize,
    bound: bool,
    lost: Option<usize>,
    changed: bool,
}

/// The account.
#[derive(Debug)]
pub(crate) struct Fragmentation {
    pools: Vec<Pool>,
    changed: Vec<usize>,
    /// Hosts that are there.
    hosts: usize,
    /// Pool, healthy GPUs and held GPUs of each host.
    of_host: Vec<(usize, usize, usize)>,
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
        let mut of_host = Vec::with_capacity(hosts.len());
        for host in (0..hosts.len() as u32).map(HostId) {
            let gpus = hosts.healthy(host).count();
            let pool = *known.entry((hosts.model(host), gpus)).or_insert_with(|| {
                pools.push(Pool::new(gpus));
                pools.len() - 1
            });
            of_host.push((pool, gpus, 0));
        }
        Self { pools, changed: Vec::new(), hosts: of_host.len(), of_host }
    }

    /// A host is gone; nothing on it is held any more.
    pub(crate) fn host_down(&mut self) {
        self.hosts -= 1;
    }

    /// A host is back.
    pub(crate) fn host_up(&mut self) {
        self.hosts += 1;
    }

    /// So many GPUs of a host were taken by a job with instances of this size.
    pub(crate) fn take(&mut self, host: HostId, gpus: usize, instance_gpus: usize) {
        let pool = self.change(host, |held| held + gpus);
        sizes(gpus, instance_gpus).for_each(|size| pool.census.add(size));
    }

    /// They were given back.
    pub(crate) fn give(&mut self, host: HostId, gpus: usize, instance_gpus: usize) {
        let pool = self.change(host, |held| held - gpus);
        sizes(gpus, instance_gpus).for_each(|size| pool.census.remove(size));
    }

    fn change(&mut self, host: HostId, held: impl Fn(usize) -> usize) -> &mut Pool {
        let (at, gpus, before) = self.of_host[host.index()];
        let after = held(before);
        self.of_host[host.index()].2 = after;
        let pool = &mut self.pools[at];
        if !pool.changed {
            pool.changed = true;
            self.changed.push(at);
        }
        pool.partial += usize::from(0 < after && after < gpus);
        pool.partial -= usize::from(0 < before && before < gpus);
        pool.full += usize::from(0 < after && after == gpus);
        pool.full -= usize::from(0 < before && before == gpus);
        pool
    }

    /// How the hosts stand now.
    pub(crate) fn standing(&mut self) -> Standing {
        for pool in self.changed.drain(..) {
            self.pools[pool].judge();
        }
        let nothing = Standing { hosts: self.hosts, lost: Some(0), ..Standing::default() };
        self.pools.iter().fold(nothing, |all, pool| Standing {
            hosts: all.hosts,
            partial: all.partial + pool.partial,
            full: all.full + pool.full,
            avoidable: all.avoidable + pool.avoidable,
            bound: all.bound || pool.bound,
            lost: all.lost.zip(pool.lost).map(|(all, of_pool)| all + of_pool),
        })
    }
}

impl Pool {
    fn new(host_gpus: usize) -> Self {
        Self {
            census: Census::of(host_gpus, []),
            partial: 0,
            full: 0,
            avoidable: 0,
            bound: false,
            lost: Some(0),
            changed: false,
        }
    }

    fn judge(&mut self) {
        self.changed = false;
        let least = least_partial(&self.census);
        self.avoidable = self.partial.saturating_sub(least.partial);
        self.bound = least.proof == Proof::Bound && self.avoidable > 0;
        let host_gpus = self.census.host_gpus();
        let in_use = self.partial + self.full;
        // Slots are powers of two wide: they fill no host of another size.
        let packs = in_use == 0 || host_gpus.is_power_of_two() && self.census.slack() >= 0;
        self.lost = packs.then(|| in_use - self.census.gpus().div_ceil(host_gpus.max(1)));
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
        let idle = Standing { hosts: 5, lost: Some(0), ..Standing::default() };
        assert_eq!(account.standing(), idle);
        account.take(HostId(0), 4, 4);
        account.take(HostId(1), 6, 2);
        let two = Standing { partial: 2, avoidable: 1, ..idle };
        assert_eq!(account.standing(), two, "10 GPUs need one partial host and two hosts");
        account.take(HostId(2), 2, 2);
        assert_eq!(
            account.standing(),
            Standing { partial: 3, avoidable: 2, lost: Some(1), ..idle }
        );
        // The other model has its own least number.
        account.take(HostId(3), 2, 2);
        account.take(HostId(4), 2, 2);
        let lost = Standing { partial: 5, avoidable: 4, lost: Some(2), ..idle };
        assert_eq!(account.standing(), lost);
        account.give(HostId(4), 2, 2);
        account.take(HostId(3), 2, 2);
        assert_eq!(
            account.standing(),
            Standing { partial: 3, full: 1, avoidable: 2, lost: Some(1), ..idle }
        );
        // A host with a broken GPU is none of the whole ones: seven single GPUs fill it.
        cluster.hosts[1].unhealthy_gpus = bandpilot_core::GpuMask::single(3);
        let mut account = self::account(&cluster);
        account.take(HostId(1), 7, 1);
        let full = Standing { full: 1, lost: None, ..idle };
        assert_eq!(account.standing(), full);
        account.host_down();
        assert_eq!(account.standing(), Standing { hosts: 4, ..full });
    }

    #[test]
    fn without_room_for_odd_sizes_nothing_is_said_of_hosts_lost() {
        let cluster =
            ClusterBuilder::new("c").host_type("a", "", 8).nvswitch().hosts("h", 1, 3).build();
        let mut account = account(&cluster);
        for host in 0..2 {
            account.take(HostId(host), 5, 5);
        }
        let standing = account.standing();
        assert_eq!((standing.partial, standing.avoidable, standing.lost), (2, 0, None));
        // An instance that is split is two: 5 as 3 + 2 lets the hosts be full.
        account.give(HostId(1), 5, 5);
        account.take(HostId(0), 3, 5);
        account.take(HostId(1), 2, 5);
        assert_eq!((account.standing().partial, account.standing().full), (1, 1));
        for _ in 0..3 {
            account.take(HostId(1), 1, 1);
        }
        let standing = account.standing();
        assert_eq!((standing.avoidable, standing.lost), (0, None));
        account.take(HostId(1), 1, 1);
        assert_eq!(account.standing().lost, Some(0), "5 and 3 take four single GPUs beside them");
    }
}
