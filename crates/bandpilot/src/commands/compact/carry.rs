//! Moves with concrete GPUs, and the state after them.

use std::collections::BTreeMap;

use bandpilot_core::{Cluster, ClusterState, Collective, GpuMask, HostId, Links, Placement};
use bandpilot_fragmentation::Shift;
use bandpilot_model::local;
use bandpilot_readers::Diagnostic;

use crate::commands::fragmentation::Stand;
use crate::commands::fragmentation::picture::name;

/// Sets of GPUs of a host that are compared at most.
const MOST_SETS: u64 = 20_000;

/// An instance that goes elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The job, by place in the state.
    pub job: usize,
    /// Where it is.
    pub from: (HostId, GpuMask),
    /// Where it goes.
    pub to: (HostId, GpuMask),
}

/// Moves that were carried out on a copy of the state.
#[derive(Debug, Clone)]
pub struct Carried {
    /// The moves.
    pub moves: Vec<Moved>,
    /// The state after them.
    pub after: ClusterState,
    /// What the state after them does not tell.
    pub remarks: Vec<Diagnostic>,
}

/// Gives every move its GPUs.
pub fn carry(stand: &Stand, shifts: &[Shift]) -> Carried {
    let (cluster, state) = (&stand.cluster, &stand.state);
    let mut after = state.clone();
    let mut instances: BTreeMap<usize, Vec<(HostId, GpuMask)>> = BTreeMap::new();
    let left: Vec<(&Shift, GpuMask)> = shifts
        .iter()
        .filter_map(|shift| {
            let job = shift.job as usize;
            let of_job =
                instances.entry(job).or_insert_with(|| state.jobs[job].instances().collect());
            let leaves = |(host, mask): &(HostId, GpuMask)| {
                *host == shift.from && mask.count() == shift.gpus
            };
            let (host, mask) = of_job.remove(of_job.iter().rposition(leaves)?);
            let free = &mut after.free[host.index()];
            *free = free.union(mask);
            Some((shift, mask))
        })
        .collect();
    let mut moves = Vec::new();
    for (shift, mask) in left {
        let job = shift.job as usize;
        let gpus = take(cluster, &mut after, shift.to, shift.gpus);
        instances.entry(job).or_default().push((shift.to, gpus));
        moves.push(Moved { job, from: (shift.from, mask), to: (shift.to, gpus) });
    }
    let mut remarks = Vec::new();
    for (job, instances) in instances {
        remarks.extend(renew(cluster, &mut after, job, &instances));
    }
    Carried { moves, after, remarks }
}

/// Takes so many free GPUs of a host: those that reach each other best, of these the lowest.
fn take(cluster: &Cluster, state: &mut ClusterState, host: HostId, gpus: usize) -> GpuMask {
    let free = &mut state.free[host.index()];
    let kind = cluster.type_of(host);
    let best = if kind.links == Links::NvSwitch || gpus < 2 || free.subset_count(gpus) > MOST_SETS {
        free.lowest(gpus)
    } else {
        let worth = |set: &GpuMask| local::physics_plateau(kind, *set, Collective::AllReduce);
        // The first of the best.
        let better =
            |best: GpuMask, set: GpuMask| if worth(&set) > worth(&best) { set } else { best };
        free.subsets(gpus).reduce(better).unwrap_or_default()
    };
    *free = free.without(best);
    best
}

/// The job where its instances are now. A remark if the state cannot say which instances these are.
fn renew(
    cluster: &Cluster,
    state: &mut ClusterState,
    job: usize,
    instances: &[(HostId, GpuMask)],
) -> Option<Diagnostic> {
    let mut hosts: BTreeMap<HostId, GpuMask> = BTreeMap::new();
    for (host, mask) in instances {
        let held = hosts.entry(*host).or_default();
        *held = held.union(*mask);
    }
    let job = &mut state.jobs[job];
    let size = instances.first().map_or(0, |(_, mask)| mask.count());
    let apart = hosts.len() == instances.len();
    job.placement = Placement::new(hosts);
    if job.instance_gpus.is_some() || apart {
        return None;
    }
    if instances.iter().all(|(_, mask)| mask.count() == size) {
        job.instance_gpus = Some(size);
        return None;
    }
    let set = job.placement.display(cluster);
    let message = format!(
        "job '{}' has instances of several sizes, two of them on one host of {set}; the state after the moves counts these as one",
        name(&job.name)
    );
    Some(Diagnostic::note("", message))
}
