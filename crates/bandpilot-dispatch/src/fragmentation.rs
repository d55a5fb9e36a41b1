//! How full hosts are before a set is placed and after it.

use bandpilot_core::{HostId, Placement};
use bandpilot_fragmentation::{Census, Least, Node, Occupancy, Pool, Proof, least_partial};

/// What is left of a cluster when a set is placed. Less is better: first the avoidable partial hosts, then the partial hosts, then the
/// hosts in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fragmentation {
    /// Partial hosts more than the best packing of all instances has (N*SIF), over all pools.
    pub avoidable: usize,
    /// Hosts with some GPUs held and some free.
    pub partial: usize,
    /// Hosts with a GPU held.
    pub in_use: usize,
    /// False if the best packing is only bounded from below: then fewer may be avoidable.
    pub exact: bool,
}

/// How full a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostFill {
    pub(crate) pool: usize,
    /// GPUs that nobody holds, whether the request may have them or not.
    pub(crate) free: usize,
    /// Somebody holds some.
    pub(crate) used: bool,
}

#[derive(Debug, Clone)]
struct PoolFill {
    census: Census,
    /// All hosts have all their GPUs.
    whole: bool,
    partial: usize,
    in_use: usize,
}

/// How full all hosts are, and what runs on them.
#[derive(Debug, Clone)]
pub struct Fill {
    hosts: Vec<HostFill>,
    pools: Vec<PoolFill>,
}

impl Fill {
    /// How full the hosts of an occupancy are; it has all hosts of the cluster in their order.
    pub fn new(occupancy: &Occupancy) -> Self {
        let pool = |at: usize, kind: &Pool| PoolFill {
            census: occupancy.census(at),
            whole: occupancy.of_pool(at).all(|node| node.cells == kind.host_gpus),
            partial: occupancy.partial(at),
            in_use: occupancy.in_use(at),
        };
        let host =
            |node: &Node| HostFill { pool: node.pool, free: node.free(), used: node.used() > 0 };
        Self {
            hosts: occupancy.nodes.iter().map(host).collect(),
            pools: occupancy.pools.iter().enumerate().map(|(at, kind)| pool(at, kind)).collect(),
        }
    }

    /// The state as it is.
    pub fn now(&self) -> Fragmentation {
        self.after(&Placement::default(), 1)
    }

    /// The state when a job is placed whose instances have `unit` GPUs (at least 1), each inside one host. A job that may be
    /// split freely has instances of one GPU: what its split leaves partial could have been avoided by another.
    pub fn after(&self, set: &Placement, unit: usize) -> Fragmentation {
        let mut instances = vec![0; self.pools.len()];
        let (mut partial, mut in_use) = self.filled();
        for (host, mask) in set.shares() {
            let before = &self.hosts[host.index()];
            instances[before.pool] += mask.count() / unit;
            in_use += usize::from(!before.used);
            partial += usize::from(mask.count() < before.free);
            partial -= usize::from(before.used && before.free > 0);
        }
        let pools = instances.iter().enumerate();
        let least: Vec<Least> =
            pools.map(|(pool, count)| self.least_partial(pool, unit, *count)).collect();
        let unavoidable: usize = least.iter().map(|least| least.partial).sum();
        Fragmentation {
            avoidable: partial.saturating_sub(unavoidable),
            partial,
            in_use,
            exact: least.iter().all(|least| least.proof == Proof::Exact),
        }
    }

    pub(crate) fn host(&self, host: HostId) -> HostFill {
        self.hosts[host.index()]
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = (HostId, HostFill)> {
        (0..).map(HostId).zip(self.hosts.iter().copied())
    }

    /// Partial hosts and hosts in use, as they are.
    pub(crate) fn filled(&self) -> (usize, usize) {
        let pools = self.pools.iter();
        pools.fold((0, 0), |(partial, in_use), pool| (partial + pool.partial, in_use + pool.in_use))
    }

    pub(crate) fn pools(&self) -> usize {
        self.pools.len()
    }

    /// Partial hosts of the best packing of what runs in a pool and so many instances of `unit` GPUs; where hosts lack GPUs only
    /// that there may be none.
    pub(crate) fn least_partial(&self, pool: usize, unit: usize, instances: usize) -> Least {
        let of_pool = &self.pools[pool];
        if !of_pool.whole {
            return Least { partial: 0, proof: Proof::Bound };
        }
        let mut census = of_pool.census.clone();
        (0..instances).for_each(|_| census.add(unit));
        least_partial(&census)
    }
}

#[cfg(test)]
mod tests {
    use bandpilot_core::{ClusterBuilder, ClusterState, Demand, GpuMask, RunningJob};

    use super::*;

    /// Hosts of 8 GPUs; on each so many are held by one job, and so many more are unavailable.
    fn fill(hosts: &[(usize, usize)]) -> Fill {
        let cluster = ClusterBuilder::new("t").host_type("h", "H100", 8).nvswitch();
        let cluster = cluster.hosts("h", 1, hosts.len()).build();
        let mut state = ClusterState::idle(&cluster);
        for (host, (held, gone)) in cluster.host_ids().zip(hosts) {
            let free = &mut state.free[host.index()];
            let mine = free.lowest(*held);
            *free = free.without(free.lowest(held + gone));
            if *held > 0 {
                let placement = Placement::new([(host, mine)]);
                let (name, demand) = (host.index().to_string(), Demand::Fraction(1.0));
                state.jobs.push(RunningJob::new(name, placement, demand));
            }
        }
        Fill::new(&Occupancy::of(&cluster, &state))
    }

    fn numbers(left: Fragmentation) -> (usize, usize, usize, bool) {
        (left.avoidable, left.partial, left.in_use, left.exact)
    }

    #[test]
    fn two_half_full_hosts_are_one_too_many() {
        let fill = fill(&[(4, 0), (4, 0), (0, 0)]);
        assert_eq!(numbers(fill.now()), (2, 2, 2, true));
        let gpus = |mask| GpuMask(mask);
        let set = |shares: &[(u32, u64)]| {
            Placement::new(shares.iter().map(|(host, mask)| (HostId(*host), gpus(*mask))))
        };
        assert_eq!(numbers(fill.after(&set(&[(0, 0xf0)]), 4)), (0, 1, 2, true));
        assert_eq!(numbers(fill.after(&set(&[(2, 0x0f)]), 4)), (2, 3, 3, true));
        assert_eq!(numbers(fill.after(&set(&[(0, 0xf0), (1, 0xf0)]), 1)), (0, 0, 2, true));
    }

    #[test]
    fn a_free_split_may_not_make_partial_hosts_unavoidable() {
        let fill = fill(&[(7, 0), (0, 0), (0, 0)]);
        let split = |a: usize, b: usize| {
            Placement::new([(HostId(1), GpuMask::first(a)), (HostId(2), GpuMask::first(b))])
        };
        // As instances 5 and 4 fit beside nothing, but the job might as well have taken 8 and 1.
        assert_eq!(numbers(fill.after(&split(5, 4), 1)), (3, 3, 3, true));
        assert_eq!(numbers(fill.after(&split(8, 1), 1)), (2, 2, 3, true));
    }

    #[test]
    fn unavailable_gpus_are_as_if_they_were_not_there() {
        let full = fill(&[(6, 2), (0, 0)]);
        assert_eq!(numbers(full.now()), (0, 0, 1, false));
        let on_the_other = Placement::new([(HostId(1), GpuMask::first(2))]);
        assert_eq!(numbers(full.after(&on_the_other, 2)), (1, 1, 2, false));
    }
}
