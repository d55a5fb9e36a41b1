//! Jobs that come and go on a cluster that is nearly full.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::Census;

/// Events and what may come.
struct Stream {
    rng: Pcg64,
    host_gpus: usize,
    hosts: usize,
    /// Weights of the sizes 1, 2, ...
    weights: Vec<u32>,
    /// Jobs come and go only where WCC holds afterwards.
    wcc: bool,
    /// No host has broken GPUs, so that the least number of partial hosts is known.
    whole: bool,
    running: BTreeMap<u32, Gang>,
    census: Census,
    next: u32,
}

enum Event {
    Come(Gang),
    Go(u32),
}

impl Stream {
    fn new(seed: u64, host_gpus: usize, hosts: usize, weights: &[u32], wcc: bool) -> Self {
        let rng = Pcg64::seed_from_u64(seed);
        let (running, census) = (BTreeMap::new(), Census::of(host_gpus, []));
        let weights = weights.to_vec();
        Self { rng, host_gpus, hosts, weights, wcc, whole: true, running, census, next: 0 }
    }

    fn gpus(&self) -> usize {
        self.census.gpus()
    }

    fn size(&mut self) -> usize {
        let mut draw = self.rng.random_range(0..self.weights.iter().sum::<u32>());
        for (weight, gpus) in self.weights.iter().zip(1..) {
            if draw < *weight {
                return gpus;
            }
            draw -= weight;
        }
        1
    }

    fn count(&mut self, gang: &Gang, come: bool) {
        for gpus in gang.sizes() {
            if come { self.census.add(gpus) } else { self.census.remove(gpus) }
        }
    }

    /// True if WCC holds when the gang has come or gone, or need not.
    fn allowed(&mut self, gang: &Gang, come: bool) -> bool {
        self.count(gang, come);
        let slack = self.census.slack();
        self.count(gang, !come);
        !self.wcc || slack >= 0
    }

    fn event(&mut self) -> Event {
        loop {
            if self.rng.random_range(0..4) > 0 || self.running.is_empty() {
                let gpus = self.size();
                let most = (self.hosts * self.host_gpus / gpus).clamp(1, 6);
                let instances = if self.rng.random_range(0..3) > 0 {
                    1
                } else {
                    self.rng.random_range(1..=most)
                };
                let rest = if gpus > 1 && self.rng.random_range(0..10) == 0 {
                    self.rng.random_range(1..gpus)
                } else {
                    0
                };
                let gang = Gang { job: self.next, instances, gpus, rest };
                self.next += 1;
                if self.allowed(&gang, true) {
                    return Event::Come(gang);
                }
            } else {
                let from = self.rng.random_range(0..self.next);
                let job = self.running.range(from..).next().or(self.running.iter().next());
                let gang = *job.unwrap().1;
                if self.allowed(&gang, false) {
                    return Event::Go(gang.job);
                }
                // What has to stay for WCC may be all that runs: something else must come.
                self.next += 1;
            }
        }
    }

    fn came(&mut self, gang: Gang) {
        self.count(&gang, true);
        self.running.insert(gang.job, gang);
    }

    fn gone(&mut self, job: u32) {
        let gang = self.running.remove(&job).unwrap();
        self.count(&gang, false);
    }
}

/// Greatest avoidable partial hosts and empty-host loss that occurred, and the share of the GPUs that were held.
#[derive(Debug, Default)]
struct Worst {
    avoidable: usize,
    empty_loss: usize,
    held: f64,
}

/// Plays events; `each` looks at the space after each of them.
fn play(stream: &mut Stream, space: &mut Space, events: usize, each: impl Fn(&Space)) -> Worst {
    let mut worst = Worst::default();
    let mut held = 0;
    for at in 0..events {
        match stream.event() {
            Event::Come(gang) => {
                let before = (at % 64 == 0).then(|| space.clone());
                if let Some(arrival) = space.arrive(&gang) {
                    let sizes: usize = arrival.hosts.iter().map(|(_, gpus)| gpus).sum();
                    assert_eq!(sizes, gang.total_gpus());
                    stream.came(gang);
                } else if let Some(before) = before {
                    assert!(*space == before, "a refused gang leaves no trace");
                }
            }
            Event::Go(job) => {
                space.depart(job);
                stream.gone(job);
            }
        }
        held += space.used();
        each(space);
        if at % 97 == 0 {
            sound(space, stream.gpus());
        }
        assert_eq!(space.used(), stream.gpus());
        if stream.whole && stream.census.slack() >= 0 {
            let (gpus, host_gpus) = (stream.gpus(), stream.host_gpus);
            let least = usize::from(!gpus.is_multiple_of(host_gpus));
            worst.avoidable = worst.avoidable.max(space.partial() - least);
            worst.empty_loss = worst.empty_loss.max(space.in_use() - gpus.div_ceil(host_gpus));
        }
    }
    sound(space, stream.gpus());
    worst.held = held as f64 / (events * stream.hosts * stream.host_gpus) as f64;
    worst
}

/// At most one slotted host with a residual, one pool with room, none mixed.
fn in_order(space: &Space) {
    let (slotted, pools, mixed) = loose(space);
    assert!(slotted <= 1 && pools <= 1 && mixed == 0, "{:?}", picture(space));
}

/// Sizes as in the GFS trace, somewhat more of the rare ones.
const MIXED: [u32; 8] = [50, 8, 4, 8, 3, 3, 3, 20];
/// Mostly sizes that are no power of two.
const UNFRIENDLY: [u32; 8] = [20, 3, 20, 3, 15, 10, 10, 3];

const EVENTS: usize = 100_000;

fn bounds_hold(host_gpus: usize, hosts: usize, weights: &[u32], least_held: f64) {
    let mut stream = Stream::new(hosts as u64, host_gpus, hosts, weights, true);
    let mut space = space(host_gpus, &vec![host_gpus; hosts], Rules::Repaired);
    let worst = play(&mut stream, &mut space, EVENTS, |space| {
        in_order(space);
        assert!(space.partial() <= 2, "{:?}", picture(space));
    });
    assert!(worst.avoidable <= 2 && worst.empty_loss <= 1, "{worst:?}");
    assert!(worst.held > least_held, "{worst:?}");
}

#[test]
fn one_host_of_eight() {
    bounds_hold(8, 1, &MIXED, 0.6);
}

#[test]
fn two_hosts_of_eight() {
    bounds_hold(8, 2, &MIXED, 0.6);
}

#[test]
fn four_hosts_of_eight() {
    bounds_hold(8, 4, &MIXED, 0.7);
}

#[test]
fn forty_hosts_of_eight() {
    bounds_hold(8, 40, &MIXED, 0.9);
}

#[test]
fn forty_hosts_of_eight_with_unfriendly_sizes_under_wcc() {
    bounds_hold(8, 40, &[60, 3, 15, 3, 8, 8, 8, 3], 0.9);
}

#[test]
fn ten_hosts_of_four() {
    bounds_hold(4, 10, &[50, 10, 5, 20], 0.8);
}

#[test]
fn ten_hosts_of_sixteen() {
    let mut weights = [2; 16];
    for (gpus, weight) in [(1, 90), (2, 8), (4, 8), (8, 10), (16, 15)] {
        weights[gpus - 1] = weight;
    }
    bounds_hold(16, 10, &weights, 0.8);
}

#[test]
fn ten_hosts_of_two_and_three_of_sixty_four() {
    bounds_hold(2, 10, &[5, 5], 0.8);
    let mut weights = [1; 64];
    for gpus in [1, 2, 4, 8, 16, 32, 64] {
        weights[gpus - 1] = 40;
    }
    weights[0] = 400;
    bounds_hold(64, 3, &weights, 0.5);
}

#[test]
fn unfriendly_sizes_without_wcc_leave_one_host_with_a_residual_and_one_pool() {
    for (host_gpus, hosts) in [(8, 4), (8, 40)] {
        let mut stream = Stream::new(7, host_gpus, hosts, &UNFRIENDLY, false);
        let mut space = space(host_gpus, &vec![host_gpus; hosts], Rules::Repaired);
        let worst = play(&mut stream, &mut space, EVENTS, in_order);
        assert!(worst.avoidable <= 2 && worst.empty_loss <= 1, "{worst:?}");
    }
}

#[test]
fn hosts_with_broken_gpus_add_no_more_partial_hosts_than_they_are() {
    let mut cells = vec![8; 20];
    cells[3] = 7;
    cells[8] = 6;
    cells[15] = 5;
    let mut stream = Stream { whole: false, ..Stream::new(9, 8, 20, &MIXED, true) };
    let mut space = space(8, &cells, Rules::Repaired);
    play(&mut stream, &mut space, EVENTS, |space| {
        let (_, pools, mixed) = loose(space);
        assert!(space.partial() <= 2 + 3 && pools <= 1 && mixed == 0, "{:?}", picture(space));
    });
}

#[test]
fn the_printed_rules_leave_the_bound() {
    let mut stream = Stream::new(1, 8, 40, &MIXED, true);
    let mut space = space(8, &[8; 40], Rules::Printed);
    let worst = play(&mut stream, &mut space, EVENTS, |_| ());
    assert!(worst.avoidable > 2, "{worst:?}");
}

#[test]
fn a_space_that_is_placed_in_at_will_is_in_order_after_one_compaction() {
    let mut stream = Stream::new(3, 8, 20, &MIXED, true);
    let mut space = space(8, &[8; 20], Rules::Repaired);
    for at in 0..20_000 {
        match stream.event() {
            Event::Come(gang) => {
                if space.place_off_space(&gang).is_some() {
                    stream.came(gang);
                }
            }
            Event::Go(job) => {
                space.remove(job);
                stream.gone(job);
            }
        }
        if at % 50 == 0 {
            sound(&space, stream.gpus());
            let mut compact = space.clone();
            let shifts = compact.compact();
            sound(&compact, stream.gpus());
            assert!(loose(&compact).0 <= 1 && loose(&compact).1 <= 1, "{:?}", picture(&compact));
            let full =
                |state: &&super::super::Fullness| state.free > 0 && state.kind == Kind::Mixed;
            assert!(compact.partial() <= 2 + compact.state.iter().filter(full).count());
            assert_eq!(compact.compact(), [], "once is enough, after {shifts:?}");
        }
    }
}
