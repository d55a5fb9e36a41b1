//! As few hosts as possible.

use bandpilot_core::{GpuMask, HostId, Placement};

use super::instances::{instances_fit, tightest};
use super::{PlacementRule, Room};
use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::shape::{ModelSet, Shape};

/// Hosts in turn: the one that takes the most of the instances that are left; among those that take equally many the
/// one with the fewest idle GPUs, then the first in the order of the cluster; on it the GPUs with the lowest indexes. A smaller instance
/// goes last: to a host that the job already has, the one with the fewest idle GPUs, else to the host with the fewest that are enough.
///
/// * `packed` keeps instances whole. Where a trace only has totals, its instances are whole hosts and a rest, and on
///   hosts of one size this is `best-fit`.
/// * `compact` keeps instances whole only where the trace names them; else GPUs are taken one by one, so a job waits
///   for nothing but the total, and may be spread over what is left on many hosts. On GPUs that are all alike jobs
///   start and end as with `counting`.
#[derive(Debug)]
pub struct FewestHosts {
    split: bool,
}

impl FewestHosts {
    /// `packed`.
    pub const fn packed() -> Self {
        Self { split: false }
    }

    /// `compact`.
    pub const fn compact() -> Self {
        Self { split: true }
    }

    /// The instances that this rule keeps whole.
    pub(super) fn units(&self, shape: &Shape) -> Shape {
        if self.split && !shape.stated {
            Shape::of_instances(shape.gpus() as u32, 1).on(shape.models)
        } else {
            *shape
        }
    }
}

/// The host that takes the most of `left` instances, and how many.
fn roomiest(idle: &Idle, models: ModelSet, size: usize, left: usize) -> Option<(HostId, usize)> {
    let most = (size..=idle.most()).rev().find(|count| idle.hosts_with(models, *count) > 0)?;
    let takes = (most / size).min(left);
    tightest(idle, models, takes * size).map(|host| (host, takes))
}

/// Where the smaller instance goes of a job that has these hosts: to the one of them with the fewest idle GPUs that are enough, else to
/// any such host.
pub(super) fn host_for_rest(
    own: impl Iterator<Item = HostId>,
    idle: &Idle,
    models: ModelSet,
    rest: usize,
) -> Option<HostId> {
    let own = own.filter(|host| idle.on(*host).count() >= rest);
    let own = own.min_by_key(|host| (idle.on(*host).count(), *host));
    own.or_else(|| tightest(idle, models, rest))
}

impl PlacementRule for FewestHosts {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(&self.units(shape), room.idle)
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let units = self.units(shape);
        let (size, idle) = (units.instance_gpus as usize, &mut *room.idle);
        let mut shares: Vec<(HostId, GpuMask)> = Vec::new();
        let mut left = units.instances as usize;
        while left > 0
            && let Some((host, takes)) = roomiest(idle, units.models, size, left)
        {
            let mask = idle.on(host).lowest(takes * size);
            idle.take_on(host, mask);
            shares.push((host, mask));
            left -= takes;
        }
        let rest = units.rest_gpus as usize;
        if left == 0 && rest > 0 {
            let own = shares.iter().map(|(host, _)| *host);
            if let Some(host) = host_for_rest(own, idle, units.models, rest) {
                let mask = idle.on(host).lowest(rest);
                idle.take_on(host, mask);
                shares.push((host, mask));
            }
        }
        let placement = Placement::new(shares);
        if placement.gpus() == shape.gpus() {
            return Some(Grant::Gpus(placement));
        }
        idle.give(&Grant::Gpus(placement));
        None
    }
}
