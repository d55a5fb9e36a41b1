//! Moves in the space as moves of jobs.

use std::collections::BTreeMap;

use bandpilot_core::HostId;
use bandpilot_fragmentation::{Instance, Node, Pool, Rules, Shift, Space};

use super::super::layout::Layout;
use super::super::{Moves, Room};
use super::layer::{held, instances};
use crate::ids::JobId;

/// The spaces of the GPU models.
pub(super) struct Spaces {
    /// Index of the model, and its space.
    pub(super) pools: Vec<(usize, Space)>,
}

impl Spaces {
    /// As things are.
    pub(super) fn new(room: &Room<'_>, rules: Rules) -> Self {
        let ids = (0..room.hosts.len() as u32).map(HostId);
        let node = |host| Node {
            host,
            pool: room.hosts.model(host),
            cells: room.idle.on(host).count(),
            held: Vec::new(),
        };
        let mut nodes: Vec<Node> = ids.map(node).collect();
        // Whoever shares a GPU has no number of its own, and stays.
        let mut shared = u32::MAX;
        for (host, job, mask) in held(room) {
            let node = &mut nodes[host.index()];
            node.cells += mask.count();
            let number = job.map_or(shared, |job| job.0);
            shared -= u32::from(job.is_none());
            let sizes = instances(room, job, mask.count());
            let pinned = job.is_none();
            node.held.extend(sizes.map(|gpus| Instance { job: number, gpus, pinned }));
        }
        let pools = (0..room.hosts.models()).map(|model| {
            let largest = nodes.iter().filter(|node| node.pool == model).map(|node| node.cells);
            let host_gpus = largest.max().unwrap_or(0).next_power_of_two();
            let pool = Pool { gpu_model: String::new(), host_gpus };
            (model, Space::new(&pool, nodes.iter().filter(|node| node.pool == model), rules))
        });
        Self { pools: pools.collect() }
    }
}

/// What jobs hold after some shifts. GPUs that a job keeps on a host stay the same.
pub(super) fn moves(shifts: &[Shift], room: &Room<'_>) -> Moves {
    if shifts.is_empty() {
        return Moves::default();
    }
    let mut layout = Layout::new(room);
    let mut counts: BTreeMap<(HostId, JobId), usize> = BTreeMap::new();
    for host in layout.in_use() {
        for part in layout.on(host) {
            *counts.entry((host, part.job)).or_default() += part.mask.count();
        }
    }
    for shift in shifts {
        let job = JobId(shift.job);
        *counts.entry((shift.to, job)).or_default() += shift.gpus;
        if let Some(left) = counts.get_mut(&(shift.from, job)) {
            *left = left.saturating_sub(shift.gpus);
        }
    }
    counts.retain(|_, gpus| *gpus > 0);
    layout.arrange(&counts);
    Moves { moves: layout.moves(), wake_at_s: None }
}
