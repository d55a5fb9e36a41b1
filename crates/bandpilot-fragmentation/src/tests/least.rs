//! The least numbers against packers that share nothing with the program.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{
    Census, Hosts, OtherHosts, Proof, least_hosts, least_hosts_on, least_partial, least_partial_on,
};

/// A bin of the exhaustive packer: its size, what is in it, and whether something stays on it in any case.
#[derive(Clone, Copy, PartialEq)]
struct Bin {
    cells: usize,
    used: usize,
    held: bool,
}

/// Puts every item into every bin with room, one after the other, and gives the least of `cost`. Bins that look alike are tried once.
fn pack(items: &[usize], bins: &mut Vec<Bin>, cost: &dyn Fn(&[Bin]) -> usize) -> usize {
    let Some((item, rest)) = items.split_first() else { return cost(bins) };
    let mut best = usize::MAX;
    for at in 0..bins.len() {
        if bins[at].used + item > bins[at].cells || bins[..at].contains(&bins[at]) {
            continue;
        }
        bins[at].used += item;
        best = best.min(pack(rest, bins, cost));
        bins[at].used -= item;
    }
    best
}

fn partial(bins: &[Bin]) -> usize {
    bins.iter().filter(|bin| (bin.held || bin.used > 0) && bin.used < bin.cells).count()
}

fn in_use(bins: &[Bin]) -> usize {
    bins.iter().filter(|bin| bin.held || bin.used > 0).count()
}

fn whole(host: usize, count: usize) -> Vec<Bin> {
    vec![Bin { cells: host, used: 0, held: false }; count]
}

/// The least partial hosts by dynamic programming over counts: the largest instance that is left opens a host, and every content of
/// that host is tried.
fn by_counts(
    host: usize,
    counts: &mut Vec<usize>,
    known: &mut HashMap<Vec<usize>, usize>,
) -> usize {
    let Some(largest) = (1..=host).rev().find(|gpus| counts[*gpus] > 0) else { return 0 };
    if let Some(least) = known.get(counts) {
        return *least;
    }
    counts[largest] -= 1;
    let least = fill(host, host - largest, largest, counts, known);
    counts[largest] += 1;
    known.insert(counts.clone(), least);
    least
}

/// The same, with a host open that has `room` left, to be filled by sizes up to `up_to`.
fn fill(
    host: usize,
    room: usize,
    up_to: usize,
    counts: &mut Vec<usize>,
    known: &mut HashMap<Vec<usize>, usize>,
) -> usize {
    let mut best = usize::from(room > 0) + by_counts(host, counts, known);
    for gpus in 1..=up_to.min(room) {
        if counts[gpus] > 0 {
            counts[gpus] -= 1;
            best = best.min(fill(host, room - gpus, gpus, counts, known));
            counts[gpus] += 1;
        }
    }
    best
}

/// Instances of a few sizes, some sizes more likely than others.
fn instances(random: &mut Pcg64Mcg, host: usize, most: usize) -> Vec<usize> {
    let kinds: Vec<usize> =
        (0..random.random_range(1..=4)).map(|_| random.random_range(1..=host)).collect();
    let ones = random.random_range(0..3);
    let count = random.random_range(0..=most);
    let mut sizes: Vec<usize> = (0..count)
        .map(|_| {
            let one = random.random_range(0..4) < ones;
            if one { 1 } else { kinds[random.random_range(0..kinds.len())] }
        })
        .collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

#[test]
fn the_least_is_that_of_an_exhaustive_packer_on_5000_lists() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let (mut holds, mut fails) = (0, 0);
    for round in 0..5_000 {
        let host = [8, 8, 8, 4, 2, 3, 5, 6, 7, 9, 10, 12, 16, 1][round % 14];
        let sizes = instances(&mut random, host, 9);
        let census = Census::of(host, sizes.iter().copied());
        if census.slack() >= 0 {
            holds += 1;
        } else {
            fails += 1;
        }
        let least = least_partial(&census);
        let expected = pack(&sizes, &mut whole(host, sizes.len()), &partial);
        assert_eq!((least.partial, least.proof), (expected, Proof::Exact), "{host}: {sizes:?}");
        let hosts = least_hosts(&census);
        let expected = pack(&sizes, &mut whole(host, sizes.len()), &in_use);
        assert_eq!((hosts.hosts, hosts.proof), (expected, Proof::Exact), "{host}: {sizes:?}");
    }
    assert!(holds > 1_000 && fails > 1_000, "{holds} {fails}");
}

#[test]
fn hosts_that_lack_gpus_or_hold_something_count_as_the_packer_counts_them() {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    for round in 0..2_000 {
        let host = [8, 4, 6, 16][round % 4];
        let sizes = instances(&mut random, host, 7);
        let mut others: Vec<OtherHosts> = Vec::new();
        for _ in 0..random.random_range(1..=2) {
            let cells = random.random_range(1..host);
            let held = random.random_range(0..2) == 0;
            if !others.iter().any(|other| (other.cells, other.held) == (cells, held)) {
                others.push(OtherHosts { cells, held, count: random.random_range(1..=2) });
            }
        }
        let mut bins = whole(host, random.random_range(1..=sizes.len().max(1)));
        let hosts = Hosts { whole: bins.len(), others };
        for other in &hosts.others {
            let bin = Bin { cells: other.cells, used: 0, held: other.held };
            bins.extend(vec![bin; other.count]);
        }
        let census = Census::of(host, sizes.iter().copied());
        let case = format!("{sizes:?} on {hosts:?}");
        let expected = pack(&sizes, &mut bins, &partial);
        if expected == usize::MAX {
            continue;
        }
        for more in [0, 2] {
            let least = least_partial_on(&census, &hosts, expected + more);
            assert_eq!((least.partial, least.proof), (expected, Proof::Exact), "{case}");
        }
        let expected = pack(&sizes, &mut bins, &in_use);
        let least = least_hosts_on(&census, &hosts, expected + 1);
        assert_eq!((least.hosts, least.proof), (expected, Proof::Exact), "{case}");
    }
}

#[test]
fn dozens_of_instances_on_hosts_of_eight_are_exact() {
    let mut random = Pcg64Mcg::seed_from_u64(3);
    let mut known = HashMap::new();
    for _ in 0..400 {
        let mut counts = vec![0; 9];
        for count in &mut counts[1..=7] {
            *count = match random.random_range(0..3) {
                0 => 0,
                1 => random.random_range(0..3),
                _ => random.random_range(0..14),
            };
        }
        // One of each pair that fills a host, or the counts are easy.
        for gpus in 1..=3 {
            let absent = if random.random_range(0..2) == 0 { gpus } else { 8 - gpus };
            counts[absent] = 0;
        }
        let sizes = (1..=7).flat_map(|gpus| vec![gpus; counts[gpus]]);
        let census = Census::of(8, sizes);
        let least = least_partial(&census);
        let expected = by_counts(8, &mut counts, &mut known);
        assert_eq!((least.partial, least.proof), (expected, Proof::Exact), "{counts:?}");
    }
}

#[test]
fn thousands_of_instances_on_hosts_up_to_sixteen_are_exact() {
    let mut random = Pcg64Mcg::seed_from_u64(4);
    for round in 0..200 {
        let host = [8, 8, 12, 16][round % 4];
        let mut sizes = Vec::new();
        for gpus in 1..host {
            let count = match random.random_range(0..3) {
                0 => 0,
                1 => random.random_range(0..4),
                _ => random.random_range(0..3_000),
            };
            sizes.extend(vec![gpus; count]);
        }
        let census = Census::of(host, sizes);
        assert_eq!(least_partial(&census).proof, Proof::Exact, "{census:?}");
        assert_eq!(least_hosts(&census).proof, Proof::Exact, "{census:?}");
    }
}

#[test]
fn large_numbers_follow_the_rules_that_hold_without_ones() {
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let least = |counts: [(usize, usize); 3]| {
        let sizes = counts.iter().flat_map(|(gpus, count)| vec![*gpus; *count]);
        least_partial(&Census::of(8, sizes)).partial
    };
    for _ in 0..100 {
        let mut many = || random.random_range(500..3_000_usize);
        let (a, b, c, four) = (many(), many(), many(), many() % 2);
        // Nothing fits beside a 7, a 6 or a 5.
        assert_eq!(least([(7, a), (6, b), (5, c)]), a + b + c);
        assert_eq!(least([(6, a), (5, b), (4, four)]), a + b + four);
        // Two 3s, or a 3 and the 4, stand together and lack something.
        assert_eq!(least([(6, a), (3, b), (4, four)]), a + (b + four).div_ceil(2));
        // A 2 beside a 5 is welcome, but completes none; all other 2s fill hosts.
        assert_eq!(least([(5, a), (2, b), (4, four)]), a);
    }
}

#[test]
fn what_is_labelled_a_bound_is_never_above_the_least() {
    let mut random = Pcg64Mcg::seed_from_u64(6);
    let mut bounds = 0;
    for round in 0..2_000 {
        let host = [8, 12, 16][round % 3];
        let sizes = instances(&mut random, host, 30);
        let census = Census::of(host, sizes);
        let exact = least_partial(&census);
        for work in [0, 100, 1_000] {
            let least = crate::least::least_partial_within(&census, work);
            match least.proof {
                Proof::Exact => assert_eq!(least, exact, "{census:?}"),
                Proof::Bound => assert!(least.partial <= exact.partial, "{census:?}"),
            }
            bounds += usize::from(least.proof == Proof::Bound);
        }
    }
    assert!(bounds > 50, "{bounds}");
}

#[test]
fn hosts_of_sixty_four_gpus_have_a_bound() {
    let sizes = (2..=62).flat_map(|gpus| vec![gpus; 7 * gpus % 11]);
    let census = Census::of(64, sizes.chain([63; 20]));
    let least = least_partial(&census);
    // Nothing completes a 63.
    assert!(least.partial >= 20 && least.proof == Proof::Bound, "{least:?}");
}
