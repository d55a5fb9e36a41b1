//! The least number of hosts that must be partial (Phi*), and that must be in use.

mod corner;
mod program;
mod simplex;
mod uneven;

use self::program::{Class, Cost, MOST_WORK, Program};
pub use self::uneven::{Hosts, OtherHosts, least_hosts_on, least_partial_on};
use crate::Census;

/// How sure a least number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// It is the least number.
    Exact,
    /// No packing has less than this; whether one has so few is not known.
    Bound,
}

/// The least number of partial hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Least {
    /// Partial hosts of the best packing, or a number below which there is none.
    pub partial: usize,
    /// Which of the two.
    pub proof: Proof,
}

/// The least number of hosts in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeastHosts {
    /// Hosts of the best packing, or a number below which there is none.
    pub hosts: usize,
    /// Which of the two.
    pub proof: Proof,
}

/// The least number of partial hosts over all packings of these instances into hosts of [`Census::host_gpus`] GPUs, as many as it
/// takes (Phi*).
///
/// In constant time if the condition WCC holds ([`Census::slack`]): at most one host is partial. Otherwise by an exact program, whose work
/// does not grow with the number of instances (some tens of microseconds on hosts of 8 GPUs). On hosts of up to 16 GPUs it ended in
/// everything that was tried; where it does not, the least is a bound and is labelled as one.
///
/// ```
/// use bandpilot_fragmentation::{Census, Proof, least_partial};
///
/// let least = least_partial(&Census::of(8, [4, 5, 5]));
/// assert_eq!((least.partial, least.proof), (3, Proof::Exact));
/// assert_eq!(least_partial(&Census::of(8, [4, 4])).partial, 0);
/// ```
pub fn least_partial(census: &Census) -> Least {
    least_partial_within(census, MOST_WORK)
}

/// The same, with so much work at most.
pub(crate) fn least_partial_within(census: &Census, work: usize) -> Least {
    let uneven = uneven(census);
    if census.is_wide() {
        return Least { partial: uneven, proof: Proof::Exact };
    }
    let left = left_after_pairs(census);
    let bound = uneven.max(large_left_alone(census));
    let class = Class { size: census.host_gpus(), full: 0, part: 1, limit: None };
    let known = left.iter().map(|(_, count)| count).sum();
    least(&left, &[class], (bound, known), work)
}

/// The least number of hosts that these instances fit on.
///
/// ```
/// use bandpilot_fragmentation::{Census, least_hosts};
///
/// assert_eq!(least_hosts(&Census::of(8, [4, 5, 5, 3])).hosts, 3);
/// ```
pub fn least_hosts(census: &Census) -> LeastHosts {
    let host = census.host_gpus().max(1);
    let even = census.gpus().div_ceil(host);
    if census.is_wide() {
        return LeastHosts { hosts: even, proof: Proof::Exact };
    }
    let left = left_after_pairs(census);
    let gpus: usize = left.iter().map(|(gpus, count)| gpus * count).sum();
    let paired = (census.gpus() - gpus) / host;
    let class = Class { size: host, full: 1, part: 1, limit: None };
    let known = left.iter().map(|(_, count)| count).sum();
    let rest = least(&left, &[class], (even - paired, known), MOST_WORK);
    LeastHosts { hosts: paired + rest.partial, proof: rest.proof }
}

fn least(
    items: &[(usize, usize)],
    classes: &[Class],
    (bound, known): (usize, usize),
    work: usize,
) -> Least {
    let program = Program::new(items, classes);
    let solved = program.map(|program| program.solve(signed(bound), signed(known), work));
    labelled(solved, bound, known)
}

fn labelled(solved: Option<Cost>, bound: usize, known: usize) -> Least {
    let solved = solved.unwrap_or(Cost { least: 0, exact: false });
    let partial = usize::try_from(solved.least).unwrap_or(0).max(bound.min(known));
    let proof = if solved.exact || partial >= known { Proof::Exact } else { Proof::Bound };
    Least { partial, proof }
}

/// Counts of hosts and instances are far below 2^63.
fn signed(count: usize) -> i64 {
    count.cast_signed() as i64
}

/// Whole hosts cannot all be full.
fn uneven(census: &Census) -> usize {
    usize::from(!census.gpus().is_multiple_of(census.host_gpus().max(1)))
}

/// The sizes below a whole host, largest first, with their counts.
fn items(census: &Census) -> Vec<(usize, usize)> {
    let sizes = (1..census.host_gpus()).rev().map(|gpus| (gpus, census.count(gpus)));
    sizes.filter(|(_, count)| *count > 0).collect()
}

/// What is left when instances that fill a host together are taken out, as many as there are.
///
/// Nothing is lost by that. Let `a` and `G - a` stand apart in a best packing. What stands beside `a`, at most `G - a`, changes places
/// with the `G - a`: the host with `a` is full now, and the other one holds what it held, less the `G - a`, and what stood beside `a`. If the host
/// with `a` was full, the other one holds as much as before; if it was partial, there is one partial host less here and
/// at most one more there.
fn left_after_pairs(census: &Census) -> Vec<(usize, usize)> {
    let host = census.host_gpus();
    let left = |(gpus, count): (usize, usize)| {
        let others = if 2 * gpus == host { count - count % 2 } else { census.count(host - gpus) };
        (gpus, count - count.min(others))
    };
    items(census).into_iter().map(left).filter(|(_, count)| *count > 0).collect()
}

/// Instances of more than half a host that small ones cannot all complete. No two of them share a host, what lacks `gpus` is completed by
/// instances of at most so many, and what lacks least is completed first, which completes most.
fn large_left_alone(census: &Census) -> usize {
    let host = census.host_gpus();
    let (mut small, mut alone) = (0, 0);
    for gpus in (1..host).take_while(|gpus| 2 * gpus < host) {
        small += gpus * census.count(gpus);
        let large = census.count(host - gpus);
        let completed = large.min(small / gpus);
        small -= completed * gpus;
        alone += large - completed;
    }
    alone
}
