//! Hosts that are not all alike.

use super::program::{Class, Cost, MOST_WORK, Program};
use super::{Least, LeastHosts, Proof, items, labelled, large_left_alone, least_partial, signed};
use crate::Census;

/// The hosts of a pool, where they are not all alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Hosts {
    /// Hosts with all their GPUs.
    pub whole: usize,
    /// The others.
    pub others: Vec<OtherHosts>,
}

/// Hosts that have fewer GPUs to give than the whole ones of their pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OtherHosts {
    /// GPUs of each, fewer than of a whole host.
    pub cells: usize,
    /// Something stays on each: it is partial unless all its `cells` are filled, and in use in any case.
    pub held: bool,
    /// How many there are.
    pub count: usize,
}

/// The least number of partial hosts over all packings into these hosts, if one of `known` exists.
///
/// Instances that complete each other cannot be paired first here: a host of 7 GPUs has a better use for a 4 than to be left to a 3.
pub fn least_partial_on(census: &Census, hosts: &Hosts, known: usize) -> Least {
    let others = || hosts.others.iter().filter(|other| other.cells > 0 && other.count > 0);
    let held: usize = others().filter(|other| other.held).map(|other| other.count).sum();
    let classes = others().map(|other| {
        // One with something on it counts as partial from the start; filled, it no longer is.
        let (full, part) = if other.held { (-1, 0) } else { (0, 1) };
        Class { size: other.cells, full, part, limit: Some(other.count) }
    });
    let whole = Class { size: census.host_gpus(), full: 0, part: 1, limit: None };
    let alone = large_left_alone(census).saturating_sub(others().map(|other| other.count).sum());
    let full = full_others(census, hosts);
    let bound = alone.max(usize::from(full.is_none()));
    let known = if bound < known { known.min(by_filling(census, hosts, full)) } else { known };
    on_limited(census, hosts, whole, classes.collect(), (bound, known, held))
}

/// The least number of hosts in use over all packings into these hosts, those with something on them included, if one of `known` exists.
pub fn least_hosts_on(census: &Census, hosts: &Hosts, known: usize) -> LeastHosts {
    let held: usize = hosts.others.iter().filter(|o| o.held).map(|other| other.count).sum();
    let classes = hosts.others.iter().filter(|other| other.cells > 0 && other.count > 0);
    let classes = classes.map(|other| {
        let cost = i64::from(!other.held);
        Class { size: other.cells, full: cost, part: cost, limit: Some(other.count) }
    });
    let whole = Class { size: census.host_gpus(), full: 1, part: 1, limit: None };
    let even = census.gpus().div_ceil(census.host_gpus().max(1));
    let fits = held == 0 && packs_whole(census, hosts.whole);
    let known = if fits { known.min(even) } else { known };
    let bound = if held == 0 { even } else { held };
    let least = on_limited(census, hosts, whole, classes.collect(), (bound, known, held));
    LeastHosts { hosts: least.partial, proof: least.proof }
}

/// With as many whole hosts as there are. Further ones cost more than what is `known`, so that no least packing has them.
fn on_limited(
    census: &Census,
    hosts: &Hosts,
    whole: Class,
    mut classes: Vec<Class>,
    (bound, known, held): (usize, usize, usize),
) -> Least {
    // What fills a whole host alone has one.
    let filling = census.count(census.host_gpus()).min(hosts.whole);
    let beyond = signed(known + held) + 1;
    if bound >= known {
        return Least { partial: known, proof: Proof::Exact };
    }
    classes.push(Class { limit: Some(hosts.whole - filling), ..whole });
    classes.push(Class { full: beyond, part: beyond, ..whole });
    let fixed = signed(held) + signed(filling) * whole.full;
    let items = items(census);
    let solved = Program::new(&items, &classes).map(|program| {
        let cost = program.solve(signed(bound) - fixed, signed(known) - fixed, MOST_WORK);
        Cost { least: cost.least + fixed, ..cost }
    });
    labelled(solved, bound, known)
}

/// How many of each kind of other hosts can be full so that the rest of the GPUs fills whole hosts; those with something on them are all full. Few
/// rather than many. If there is no answer, some host is partial.
fn full_others(census: &Census, hosts: &Hosts) -> Option<Vec<usize>> {
    let host = census.host_gpus().max(1);
    // What full hosts come to, modulo a whole host, with how many of each kind so far.
    let mut ways: Vec<Option<Vec<usize>>> = vec![None; host];
    ways[0] = Some(Vec::new());
    for other in &hosts.others {
        let fewest = if other.held { other.count } else { 0 };
        let most = if other.held { other.count } else { other.count.min(host) };
        let mut next: Vec<Option<Vec<usize>>> = vec![None; host];
        for count in fewest..=most {
            for (sum, way) in ways.iter().enumerate() {
                let Some(way) = way else { continue };
                let counts = || way.iter().sum::<usize>() + count;
                let at = &mut next[(sum + count * other.cells) % host];
                if at.as_ref().is_none_or(|known| counts() < known.iter().sum()) {
                    *at = Some(way.iter().copied().chain([count]).collect());
                }
            }
        }
        ways = next;
    }
    ways[census.gpus() % host].take()
}

/// Partial hosts when so many of the other hosts are filled, with the largest instances first, and the rest is packed into whole hosts as well as can be;
/// `usize::MAX` if there are not whole hosts enough.
fn by_filling(census: &Census, hosts: &Hosts, full: Option<Vec<usize>>) -> usize {
    let mut rest = census.clone();
    let mut partial = 0;
    let full = full.unwrap_or_else(|| vec![0; hosts.others.len()]);
    for (other, count) in hosts.others.iter().zip(full) {
        for _ in 0..count {
            match filled(&rest, other.cells) {
                Some(less) => rest = less,
                None if other.held => partial += 1,
                None => {}
            }
        }
        partial += if other.held { other.count - count } else { 0 };
    }
    let least = least_partial(&rest);
    let in_use = rest.gpus() / rest.host_gpus().max(1) + least.partial;
    if in_use <= hosts.whole && least.proof == Proof::Exact {
        partial + least.partial
    } else {
        usize::MAX
    }
}

/// What is left when the largest instances that fit fill a host; `None` if they leave room.
fn filled(census: &Census, cells: usize) -> Option<Census> {
    let mut rest = census.clone();
    let mut room = cells;
    for gpus in (1..=cells).rev() {
        while gpus <= room && rest.count(gpus) > 0 {
            rest.remove(gpus);
            room -= gpus;
        }
    }
    (room == 0).then_some(rest)
}

/// So many whole hosts are enough, and at most one of them is partial.
fn packs_whole(census: &Census, whole: usize) -> bool {
    census.is_wide() && census.gpus().div_ceil(census.host_gpus().max(1)) <= whole
}
