//! Who holds how much of which host.

use bandpilot_core::{Cluster, ClusterState, HostId};

use crate::Census;

/// Hosts that can stand in for each other: those of one GPU model and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// GPU model.
    pub gpu_model: String,
    /// GPUs of a host that has all of them.
    pub host_gpus: usize,
}

/// A part of a job that must stay inside one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instance {
    /// The job, by its place in a list of the caller's.
    pub job: u32,
    /// Its GPUs.
    pub gpus: usize,
    /// It must stay where it is.
    pub pinned: bool,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The host.
    pub host: HostId,
    /// Its pool, by place in [`Occupancy::pools`].
    pub pool: usize,
    /// GPUs that jobs can have: those that it has without the broken and the unavailable ones.
    pub cells: usize,
    /// What is on it.
    pub held: Vec<Instance>,
}

/// Who holds how much of which host, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Occupancy {
    /// Pools.
    pub pools: Vec<Pool>,
    /// All hosts, in the order of the cluster.
    pub nodes: Vec<Node>,
}

impl Node {
    /// GPUs that are held.
    pub fn used(&self) -> usize {
        self.held.iter().map(|instance| instance.gpus).sum()
    }

    /// GPUs that are not held.
    pub fn free(&self) -> usize {
        self.cells - self.used().min(self.cells)
    }

    /// Some of its GPUs are held and some are not.
    pub fn is_partial(&self) -> bool {
        self.used() > 0 && self.free() > 0
    }
}

impl Occupancy {
    /// Who holds how much of which host of a cluster. Jobs are numbered as in the state. GPUs that are neither free nor held are left out, as if
    /// the host did not have them.
    ///
    /// ```
    /// use bandpilot_core::{ClusterBuilder, ClusterState};
    /// use bandpilot_fragmentation::Occupancy;
    ///
    /// let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 3).build();
    /// let occupancy = Occupancy::of(&cluster, &ClusterState::idle(&cluster));
    /// assert_eq!((occupancy.pools.len(), occupancy.nodes.len(), occupancy.nodes[0].free()), (1, 3, 8));
    /// ```
    pub fn of(cluster: &Cluster, state: &ClusterState) -> Self {
        let mut occupancy = Self::default();
        for host in cluster.host_ids() {
            let kind = cluster.type_of(host);
            let same = |pool: &Pool| {
                pool.host_gpus == kind.gpus && pool.gpu_model.eq_ignore_ascii_case(&kind.gpu_model)
            };
            let pool = occupancy.pools.iter().position(same).unwrap_or_else(|| {
                let (gpu_model, host_gpus) = (kind.gpu_model.clone(), kind.gpus);
                occupancy.pools.push(Pool { gpu_model, host_gpus });
                occupancy.pools.len() - 1
            });
            let cells = state.free.get(host.index()).map_or(0, |free| free.count());
            occupancy.nodes.push(Node { host, pool, cells, held: Vec::new() });
        }
        for (job, running) in (0..).zip(&state.jobs) {
            for (host, mask) in running.instances() {
                let node = &mut occupancy.nodes[host.index()];
                node.held.push(Instance { job, gpus: mask.count(), pinned: running.pinned });
                node.cells += mask.count();
            }
        }
        occupancy
    }

    /// The hosts of a pool.
    pub fn of_pool(&self, pool: usize) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.pool == pool)
    }

    /// How many instances of each size run in a pool.
    pub fn census(&self, pool: usize) -> Census {
        let sizes = self.of_pool(pool).flat_map(|node| &node.held).map(|instance| instance.gpus);
        Census::of(self.pools[pool].host_gpus, sizes)
    }

    /// Hosts of a pool that are partial (nu).
    pub fn partial(&self, pool: usize) -> usize {
        self.of_pool(pool).filter(|node| node.is_partial()).count()
    }

    /// Hosts of a pool with a GPU held.
    pub fn in_use(&self, pool: usize) -> usize {
        self.of_pool(pool).filter(|node| node.used() > 0).count()
    }
}
