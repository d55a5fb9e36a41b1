//! How full each host is, and the host for an instance.

use bandpilot_core::{GpuMask, HostId};
use bandpilot_fragmentation::Census;
use bandpilot_fragmentation::space::{Kind, Tally, slot_width};

use super::super::Room;
use super::super::instances::place_each;
use crate::idle::Grant;
use crate::ids::JobId;
use crate::shape::{ModelSet, Shape};

/// What running jobs leave of each host, in terms of the space. Only whoever's GPUs are not idle counts: plans suspend jobs and look at
/// later times. GPUs that are neither idle nor a running job's are taken for broken.
pub(super) struct Layer {
    tallies: Vec<Tally>,
    models: Vec<usize>,
}

/// Hosts that are neither empty nor full; a GPU that is not idle is held.
pub(super) fn partial(room: &Room<'_>) -> usize {
    let ids = (0..room.hosts.len() as u32).map(HostId);
    let partial = |host: &HostId| {
        let idle = room.idle.on(*host);
        !idle.is_empty() && idle != room.hosts.healthy(*host)
    };
    ids.filter(partial).count()
}

/// How many instances of each size run on the hosts of each model.
pub(super) fn censuses(room: &Room<'_>) -> Vec<Census> {
    let models = 0..room.hosts.models();
    let largest = |model| room.hosts.largest(ModelSet(1_u64 << model)) as usize;
    let empty = models.map(|model| Census::of(largest(model).next_power_of_two(), []));
    let mut censuses: Vec<Census> = empty.collect();
    for (host, job, mask) in held(room) {
        let census = &mut censuses[room.hosts.model(host)];
        instances(room, job, mask.count()).for_each(|gpus| census.add(gpus));
    }
    censuses
}

/// Instances of running jobs on hosts: host, job, GPUs. Of the jobs that share a GPU one instance without a job.
pub(super) fn held(room: &Room<'_>) -> Vec<(HostId, Option<JobId>, GpuMask)> {
    let mut held = Vec::new();
    let mut shared: Vec<(HostId, usize)> = Vec::new();
    for (job, grant) in room.jobs.running() {
        match grant {
            Grant::Gpus(placement) => {
                let shares = placement.shares();
                // A grant is idle as a whole or not at all.
                let first = shares.first();
                if first.is_some_and(|(host, mask)| !mask.is_subset_of(room.idle.on(*host))) {
                    held.extend(shares.iter().map(|(host, mask)| (*host, Some(job), *mask)));
                }
            }
            Grant::Share { host, gpu, .. } if !room.idle.on(*host).contains(*gpu) => {
                shared.push((*host, *gpu));
            }
            Grant::Share { .. } | Grant::Count(_) | Grant::Part(_) => {}
        }
    }
    shared.sort_unstable();
    shared.dedup();
    held.extend(shared.into_iter().map(|(host, gpu)| (host, None, GpuMask::single(gpu))));
    held
}

/// Sizes of a job's instances on a host.
pub(super) fn instances(
    room: &Room<'_>,
    job: Option<JobId>,
    gpus: usize,
) -> impl Iterator<Item = usize> + use<> {
    let of_job = |job| room.jobs.shape(room.jobs.shape_of(job)).instance_gpus as usize;
    let size = job.map_or(1, of_job).max(1);
    let rest = Some(gpus % size).filter(|rest| *rest > 0);
    std::iter::repeat_n(size, gpus / size).chain(rest)
}

impl Layer {
    pub(super) fn new(room: &Room<'_>) -> Self {
        let ids = || (0..room.hosts.len() as u32).map(HostId);
        let mut cells: Vec<usize> = ids().map(|host| room.idle.on(host).count()).collect();
        let held = held(room);
        for (host, _, mask) in &held {
            cells[host.index()] += mask.count();
        }
        let mut tallies: Vec<Tally> = cells.into_iter().map(Tally::new).collect();
        for (host, job, mask) in held {
            let tally = &mut tallies[host.index()];
            instances(room, job, mask.count()).for_each(|gpus| tally.add(gpus));
        }
        Self { tallies, models: ids().map(|host| room.hosts.model(host)).collect() }
    }

    /// False if no rule of the space would move anybody: no filler has a better place, and of each kind at most one host has room.
    pub(super) fn may_move(&self) -> bool {
        let (mut open, mut orphans, mut pools, mut roomy, mut residual) = (0, 0, 0, 0, 0);
        for state in self.tallies.iter().map(Tally::fullness) {
            open += state.open;
            orphans += state.orphans;
            let pool = state.kind == Kind::Pool;
            pools += usize::from(pool);
            roomy += usize::from(pool && state.free > 0);
            residual += usize::from(state.residual > 0);
        }
        open > 0 && pools > 0 || orphans > 0 || roomy > 1 || residual > 1
    }

    /// True if nothing runs on the hosts of some models.
    pub(super) fn is_empty(&self, models: ModelSet) -> bool {
        let hosts = self.tallies.iter().zip(&self.models);
        hosts.filter(|(_, model)| models.has(**model)).all(|(host, _)| host.fullness().used == 0)
    }

    /// Takes GPUs for a job, off the space if `anywhere`.
    pub(super) fn place(
        mut self,
        shape: &Shape,
        anywhere: bool,
        room: &mut Room<'_>,
    ) -> Option<Grant> {
        place_each(shape, room.idle, |idle, gpus| {
            let host = self.host_for(gpus, shape.models, anywhere)?;
            self.tallies[host.index()].add(gpus);
            Some((host, idle.on(host).lowest(gpus)))
        })
    }

    /// The best host by the rules of the space, the tightest of a kind, else the tightest of all.
    fn host_for(&self, gpus: usize, models: ModelSet, anywhere: bool) -> Option<HostId> {
        let hosts = (0..).map(HostId).zip(self.tallies.iter().zip(&self.models));
        let accepted = hosts.filter(|(_, (_, model))| models.has(**model));
        let ranked = accepted.filter_map(|(host, (tally, _))| {
            let rank = rank(tally, gpus).or_else(|| {
                let free = tally.fullness().free;
                (anywhere && free >= gpus).then_some((3, free))
            })?;
            Some((rank, host))
        });
        ranked.min().map(|(_, host)| host)
    }
}

/// How well a host suits an instance by the rules of the space, the least best: the kind of place, then what is left there.
fn rank(tally: &Tally, gpus: usize) -> Option<(usize, usize)> {
    let state = tally.fullness();
    if gpus == 1 {
        return match state.kind {
            _ if state.open > 0 => Some((0, state.open)),
            Kind::Pool if state.free > 0 => Some((1, state.free)),
            Kind::Empty if state.free > 0 => Some((2, state.free)),
            _ => None,
        };
    }
    let width = slot_width(gpus);
    match state.kind {
        Kind::Slotted if state.residual >= width => Some((0, state.residual)),
        Kind::Empty if tally.slot_cells() >= width => Some((1, state.free)),
        _ => None,
    }
}
