//! Which of many equal GPUs: the same indexes on every host.
//!
//! On a rail-optimised fabric GPU `i` of every host hangs on leaf `i`: ranks that talk to the same index on other hosts stay
//! below one leaf. The model does not see the fabric, so this is free of charge: only among GPUs that are all alike.

use bandpilot_core::{GpuMask, HostId, MAX_GPUS_PER_HOST, Placement};

/// The set with as many GPUs on each host, of the same indexes wherever these are usable. `alike` says of which hosts all GPUs
/// are alike; others keep theirs.
pub(super) fn aligned(
    set: &Placement,
    usable: &[GpuMask],
    alike: impl Fn(HostId) -> bool,
) -> Placement {
    if !set.is_cross_host() {
        return set.clone();
    }
    let mut hosts_with = [0_usize; MAX_GPUS_PER_HOST];
    for (host, mask) in set.shares() {
        let candidates = if alike(*host) { usable[host.index()] } else { *mask };
        candidates.iter().for_each(|gpu| hosts_with[gpu] += 1);
    }
    Placement::new(set.shares().iter().map(|(host, mask)| {
        if !alike(*host) {
            return (*host, *mask);
        }
        let mut gpus: Vec<usize> = usable[host.index()].iter().collect();
        gpus.sort_by_key(|&gpu| (std::cmp::Reverse(hosts_with[gpu]), gpu));
        let taken = gpus.into_iter().take(mask.count()).map(GpuMask::single);
        (*host, taken.fold(GpuMask::EMPTY, GpuMask::union))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_indexes_wherever_they_are_free() {
        let usable = [GpuMask(0b1111_0000), GpuMask(0xff), GpuMask(0b1111_1100), GpuMask(0xff)];
        let lowest = |host: usize, count| (HostId(host as u32), usable[host].lowest(count));
        let set = Placement::new([lowest(0, 4), lowest(1, 4), lowest(2, 4)]);
        let high = GpuMask(0b1111_0000);
        let expected = Placement::new((0..3).map(|host| (HostId(host), high)));
        assert_eq!(aligned(&set, &usable, |_| true), expected);
        assert_eq!(aligned(&set, &usable, |_| false), set);
        let alone = Placement::new([lowest(1, 4)]);
        assert_eq!(aligned(&alone, &usable, |_| true), alone);
    }
}
