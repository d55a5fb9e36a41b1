//! How full the hosts are, as what is left fragmented is judged by it.

use std::collections::BTreeSet;

use bandpilot_core::{GpuMask, HostId};
use bandpilot_dispatch::Fill;
use bandpilot_fragmentation::{Instance, Node, Occupancy, Pool};

use super::Room;
use crate::idle::Grant;
use crate::shape::{Hosts, ModelSet};

/// Kept from job to job to save the memory; what it holds is made anew each time.
pub(super) struct Filling {
    occupancy: Occupancy,
}

impl Filling {
    /// One pool for each GPU model; a host that has fewer GPUs than others of the model lacks some.
    pub(super) fn new(hosts: &Hosts) -> Self {
        let pool = |model: usize| Pool {
            gpu_model: model.to_string(),
            host_gpus: hosts.largest(ModelSet(1 << model)) as usize,
        };
        let node = |host| Node {
            host,
            pool: hosts.model(host),
            cells: hosts.healthy(host).count(),
            held: Vec::new(),
        };
        let ids = (0..hosts.len() as u32).map(HostId);
        let occupancy = Occupancy {
            pools: (0..hosts.models()).map(pool).collect(),
            nodes: ids.map(node).collect(),
        };
        Self { occupancy }
    }

    /// How full they are now: what a job has on a host is one instance, as is every shared GPU. What is kept for other jobs
    /// is free.
    pub(super) fn of(&mut self, room: &Room<'_>) -> Fill {
        let nodes = &mut self.occupancy.nodes;
        for node in &mut *nodes {
            node.held.clear();
        }
        let mut shared = BTreeSet::new();
        for (job, grant) in room.jobs.running() {
            let suspended = room.jobs.run(job).is_none_or(|run| run.suspended);
            let mut hold = |host: HostId, gpus: GpuMask| {
                // The idle GPUs may be those of a later time.
                if !suspended && gpus.intersection(room.idle.on(host)).is_empty() {
                    let instance = Instance { job: job.0, gpus: gpus.count(), pinned: false };
                    nodes[host.index()].held.push(instance);
                }
            };
            match grant {
                Grant::Gpus(placement) => {
                    placement.shares().iter().for_each(|(host, mask)| hold(*host, *mask));
                }
                Grant::Share { host, gpu, .. } if shared.insert((*host, *gpu)) => {
                    hold(*host, GpuMask::single(*gpu));
                }
                _ => {}
            }
        }
        Fill::new(&self.occupancy)
    }
}
