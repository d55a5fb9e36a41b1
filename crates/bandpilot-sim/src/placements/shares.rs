//! A share of one GPU.

use bandpilot_core::HostId;

use super::instances::tightest as tightest_host;
use crate::idle::{Grant, Idle};
use crate::shape::Shape;

/// Takes a share of the GPU that `choose` names.
pub(super) fn take(
    shape: &Shape,
    idle: &mut Idle,
    choose: impl FnOnce(&Idle, &Shape) -> Option<(HostId, usize)>,
) -> Option<Grant> {
    let (host, gpu) = choose(idle, shape)?;
    let milli = shape.milli;
    idle.take_share(host, gpu, milli).then_some(Grant::Share { host, gpu, milli })
}

/// The shared GPU with the least free that is enough; else the first GPU of the host with the fewest idle ones.
pub(super) fn tightest(idle: &Idle, shape: &Shape) -> Option<(HostId, usize)> {
    idle.tightest_share(shape.models, shape.milli).or_else(|| {
        let host = tightest_host(idle, shape.models, 1)?;
        Some((host, idle.on(host).iter().next()?))
    })
}

/// The first shared GPU with room in the order of the cluster; else the first idle one.
pub(super) fn first(idle: &Idle, shape: &Shape) -> Option<(HostId, usize)> {
    let roomy = idle.roomy(shape.models, shape.milli).map(|(_, host, gpu)| (host, gpu)).min();
    roomy.or_else(|| {
        let counts = 1..=idle.most();
        let host = counts.filter_map(|count| idle.lowest_with(shape.models, count)).min()?;
        Some((host, idle.on(host).iter().next()?))
    })
}
