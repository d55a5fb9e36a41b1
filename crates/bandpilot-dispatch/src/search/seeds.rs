//! Good sets to begin a hard search with, so that cutting begins at once and a search that is stopped has something to show.

use bandpilot_core::{GpuMask, HostId, Placement, Request};

use crate::classes::{HostClass, Member};
use crate::search::state::Incumbents;

/// So many numbers of hosts are tried.
const MOST_HOST_COUNTS: usize = 24;

/// A host with its class.
type Candidate<'c> = (&'c HostClass, Member);

/// Offers even splits over the quietest, the largest, and the locally fastest hosts, for the fewest hosts that suffice and
/// some more numbers.
pub(super) fn offer(
    classes: &[HostClass],
    request: &Request,
    host_counts: &[usize],
    found: &mut Incumbents<'_, '_>,
) {
    // Classes come quietest first.
    let quietest: Vec<Candidate<'_>> = classes
        .iter()
        .flat_map(|class| class.hosts.iter().rev().map(move |member| (class, *member)))
        .collect();
    let mut largest = quietest.clone();
    largest.sort_by_key(|(_, member)| std::cmp::Reverse(member.most));
    let stride = host_counts.len().div_ceil(MOST_HOST_COUNTS).max(1);
    // The fewest hosts are the likeliest to be good: all of the first few.
    let dense = host_counts.iter().take(MOST_HOST_COUNTS / 2);
    let sparse = host_counts.iter().skip(MOST_HOST_COUNTS / 2).step_by(stride);
    for &hosts in dense.chain(sparse) {
        let share = request.gpus.div_ceil(hosts * request.multiple_of) * request.multiple_of;
        let mut fastest = quietest.clone();
        let local = |candidate: &Candidate<'_>| best_choice(candidate, share).map_or(0.0, |c| c.1);
        fastest.sort_by(|a, b| local(b).total_cmp(&local(a)));
        for order in [&quietest, &largest, &fastest] {
            if let Some(set) = even_split(order, hosts, request) {
                found.offer(set);
            }
        }
    }
}

/// The best subset of that many GPUs of a host, and its local bandwidth.
fn best_choice(candidate: &Candidate<'_>, count: usize) -> Option<(GpuMask, f64)> {
    let (class, Member { free, most, .. }) = candidate;
    if count > *most {
        return None;
    }
    let of_count = class.groups.iter().filter(|group| group.count == count);
    of_count
        .flat_map(|group| &group.choices)
        .map(|choice| (choice.mask.unwrap_or(free.lowest(count)), choice.share.local_cap))
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
}

/// The first hosts of the order that can give an even share; what is left over goes to those with room.
fn even_split(order: &[Candidate<'_>], hosts: usize, request: &Request) -> Option<Placement> {
    let unit = request.multiple_of;
    let share = request.gpus / hosts / unit * unit;
    let mut taken: Vec<(&Candidate<'_>, usize)> = order
        .iter()
        .filter(|(_, member)| member.most >= share.max(unit))
        .take(hosts)
        .map(|candidate| (candidate, share.max(unit)))
        .collect();
    if taken.len() < hosts {
        return None;
    }
    let mut left = request.gpus.checked_sub(taken.iter().map(|(_, count)| count).sum())?;
    while left > 0 {
        let before = left;
        for (candidate, count) in &mut taken {
            if left >= unit && *count + unit <= candidate.1.most {
                *count += unit;
                left -= unit;
            }
        }
        if left == before {
            return None;
        }
    }
    if request.uniform && taken.iter().any(|(_, count)| *count != taken[0].1) {
        return None;
    }
    let shares: Option<Vec<(HostId, GpuMask)>> = taken
        .into_iter()
        .map(|(candidate, count)| Some((candidate.1.host, best_choice(candidate, count)?.0)))
        .collect();
    Some(Placement::new(shares?))
}
