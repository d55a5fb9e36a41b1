//! Rules that place instance by instance.

use bandpilot_core::{GpuMask, HostId, Placement};

use super::{PlacementRule, Room, shares};
use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::shape::{ModelSet, Shape};

/// True if all instances find a host, on whichever they are put.
///
/// A host with `i` idle GPUs takes `floor(i / g)` full instances, wherever the others are. The smaller one fits into what an
/// unused full instance would have taken, or, if there is none left over, into the rest of some host.
pub(super) fn instances_fit(shape: &Shape, idle: &Idle) -> bool {
    let size = shape.instance_gpus as usize;
    let (mut room, mut rest) = (0, 0);
    for count in 1..=idle.most() {
        let hosts = idle.hosts_with(shape.models, count);
        if hosts > 0 {
            room += hosts * (count / size);
            rest = rest.max(count % size);
        }
    }
    let wanted = shape.instances as usize;
    room > wanted || room == wanted && rest >= shape.rest_gpus as usize
}

/// GPUs of the instances, full ones first.
pub(super) fn sizes(shape: &Shape) -> impl Iterator<Item = usize> + use<> {
    let full = std::iter::repeat_n(shape.instance_gpus as usize, shape.instances as usize);
    full.chain(Some(shape.rest_gpus as usize).filter(|rest| *rest > 0))
}

/// Takes for each instance the GPUs that `choose` names on one host; gives all back if it finds none for one of them.
pub(super) fn place_each(
    shape: &Shape,
    idle: &mut Idle,
    mut choose: impl FnMut(&Idle, usize) -> Option<(HostId, GpuMask)>,
) -> Option<Grant> {
    let mut shares: Vec<(HostId, GpuMask)> = Vec::with_capacity(shape.instances as usize + 1);
    for size in sizes(shape) {
        match choose(idle, size) {
            Some((host, mask)) if mask.count() == size && idle.take_on(host, mask) => {
                shares.push((host, mask));
            }
            _ => {
                for (host, mask) in shares {
                    idle.give_on(host, mask);
                }
                return None;
            }
        }
    }
    Some(Grant::Gpus(Placement::new(shares)))
}

/// The lowest host of those with the fewest idle GPUs that are enough.
pub(super) fn tightest(idle: &Idle, models: ModelSet, least: usize) -> Option<HostId> {
    (least..=idle.most()).find_map(|count| idle.lowest_with(models, count))
}

/// `first-fit`: instance by instance, full ones first, the first host in the order of the cluster that has enough idle GPUs; on
/// it those with the lowest indexes; for a share the first shared GPU with room, else the first idle one. On hosts of one size `fifo/first-fit` gives the digits of the consolidated ("yarn") placement of the
/// Tiresias simulator.
#[derive(Debug, Default)]
pub struct FirstFit;

impl PlacementRule for FirstFit {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        place_each(shape, room.idle, |idle, size| {
            let enough = size..=idle.most();
            let host = enough.filter_map(|count| idle.lowest_with(shape.models, count)).min()?;
            Some((host, idle.on(host).lowest(size)))
        })
    }

    fn place_share(&mut self, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        shares::take(shape, room.idle, shares::first)
    }
}

/// `best-fit`: instance by instance, full ones first, the host with the fewest idle GPUs that are enough, among equals the
/// first in the order of the cluster; on it those with the lowest indexes.
#[derive(Debug, Default)]
pub struct BestFit;

impl PlacementRule for BestFit {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        place_each(shape, room.idle, |idle, size| {
            let host = tightest(idle, shape.models, size)?;
            Some((host, idle.on(host).lowest(size)))
        })
    }
}
