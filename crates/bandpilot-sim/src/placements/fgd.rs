//! Descent of fragmentation.

use std::collections::BTreeMap;

use bandpilot_core::HostId;
use rustc_hash::FxHashMap;

use super::instances::{instances_fit, place_each};
use super::{PlacementRule, Room, shares};
use crate::fill::{PodShape, Target};
use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::shape::{ModelSet, Shape};
use crate::workload::Workload;

/// States whose fragmentation is remembered; then all are forgotten.
const MAX_REMEMBERED: usize = 1 << 20;

/// `fgd`: instance by instance, full ones first, the host (and for a share the GPU) where fragmentation falls the most, or grows the
/// least; among equals the first in the order of the cluster, on it the GPUs with the lowest indexes (FGD, ATC'23; [`fill`](crate::fill) has
/// the definition).
///
/// The target workload is the mix of the trace: for each job the shape of its full instances, as far as they make up 95 % of the jobs.
/// CPU is not looked at, and the fall is compared exactly, not cut to whole scores.
#[derive(Debug)]
pub struct Fgd {
    target: Target,
    /// Fragmentation by what is free on each GPU and, behind it, the model; only looked up.
    known: FxHashMap<Vec<u16>, i64>,
}

/// A place for an instance or a share, and how much fragmentation falls there. The best is the greatest.
type Candidate = (i64, std::cmp::Reverse<(HostId, usize)>);

impl Fgd {
    /// For the mix of a workload.
    pub fn new(workload: &Workload) -> Self {
        Self { target: Self::target(workload), known: FxHashMap::default() }
    }

    /// The target workload of a mix.
    pub fn target(workload: &Workload) -> Target {
        let mut counts: BTreeMap<PodShape, u64> = BTreeMap::new();
        for job in (0..workload.len() as u32).map(JobId) {
            *counts.entry(target_shape(workload.shape(job))).or_default() += 1;
        }
        Target::of_counts(counts.into_iter().collect())
    }

    /// The fragmentation of a host with so much free on its GPUs, times the jobs of the target.
    fn lost(&mut self, model: usize, mut free: Vec<u16>) -> i64 {
        // Neither the order of GPUs nor full ones make a difference.
        free.retain(|milli| *milli > 0);
        free.sort_unstable();
        free.push(model as u16);
        if let Some(known) = self.known.get(&free) {
            return *known;
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
        let gpus = &free[..free.len() - 1];
        let lost = self.target.weighted(0, model, gpus).cast_signed();
        self.known.insert(free, lost);
        lost
    }

    /// How much fragmentation falls on a host if `taken` is taken of each of `count` GPUs that have `from` free.
    fn fall(&mut self, idle: &Idle, host: HostId, from: u16, taken: u16, count: usize) -> i64 {
        let shared = idle.shared_on(host).map(|(_, free)| free);
        let free: Vec<u16> =
            std::iter::repeat_n(1000, idle.on(host).count()).chain(shared).collect();
        let mut after = free.clone();
        let gpus = after.iter_mut().filter(|free| **free == from);
        gpus.take(count).for_each(|free| *free -= taken);
        self.lost(idle.model(host), free) - self.lost(idle.model(host), after)
    }

    fn whole(&mut self, idle: &Idle, models: ModelSet, size: usize) -> Option<HostId> {
        let mut best: Option<Candidate> = None;
        for host in candidates(idle, models) {
            let mask = idle.on(host);
            if mask.count() >= size {
                let fall = self.fall(idle, host, 1000, 1000, size);
                best = best.max(Some((fall, std::cmp::Reverse((host, 0)))));
            }
        }
        best.map(|(_, std::cmp::Reverse((host, _)))| host)
    }

    fn share(&mut self, idle: &Idle, shape: &Shape) -> Option<(HostId, usize)> {
        let mut best: Option<Candidate> = None;
        for host in candidates(idle, shape.models) {
            let opened = idle.on(host).iter().next().map(|gpu| (gpu, 1000));
            let mut last = 0;
            let mut gpus: Vec<(u16, usize)> =
                idle.shared_on(host).chain(opened).map(|(gpu, free)| (free, gpu)).collect();
            gpus.sort_unstable();
            for (free, gpu) in gpus.into_iter().filter(|(free, _)| *free >= shape.milli) {
                // The first of those with as much free.
                if free != last {
                    let fall = self.fall(idle, host, free, shape.milli, 1);
                    best = best.max(Some((fall, std::cmp::Reverse((host, gpu)))));
                }
                last = free;
            }
        }
        best.map(|(_, std::cmp::Reverse(at))| at)
    }
}

/// What counts of a job in the target workload.
fn target_shape(shape: &Shape) -> PodShape {
    let gpus = if shape.instances > 0 { shape.instance_gpus } else { shape.rest_gpus };
    PodShape { cpu_milli: 0, gpu_milli: shape.milli, gpus, models: shape.models, memory_mib: 0 }
}

/// The hosts that need to be looked at: all with something free on a shared GPU, and of the others the first of each model and
/// number of idle GPUs.
fn candidates(idle: &Idle, models: ModelSet) -> Vec<HostId> {
    let mut hosts: Vec<HostId> = idle.shared().map(|(host, ..)| host).collect();
    hosts.dedup();
    hosts.retain(|host| models.has(idle.model(*host)));
    hosts.extend(idle.first_unshared(models));
    hosts
}

impl PlacementRule for Fgd {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        place_each(shape, room.idle, |idle, size| {
            let host = self.whole(idle, shape.models, size)?;
            Some((host, idle.on(host).lowest(size)))
        })
    }

    fn place_share(&mut self, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        shares::take(shape, room.idle, |idle, shape| self.share(idle, shape))
    }
}

#[cfg(test)]
mod tests {
    use bandpilot_core::ClusterBuilder;
    use proptest::prelude::*;

    use super::*;
    use crate::jobs::Jobs;
    use crate::placements::{Random, fits, place};
    use crate::shape::Hosts;

    fn hosts(gpus: &[(usize, bool)]) -> Hosts {
        let one = |builder: ClusterBuilder, (at, (gpus, a100)): (usize, &(usize, bool))| {
            let model = if *a100 { "A100" } else { "T4" };
            builder.host_type(&format!("t{at}"), model, *gpus).nvswitch().host(&format!("h{at}"))
        };
        Hosts::new(&gpus.iter().enumerate().fold(ClusterBuilder::new("c"), one).build()).unwrap()
    }

    /// F of a host times the jobs of the target, by its definition.
    fn by_definition(target: &Target, model: usize, free: &[u16]) -> i64 {
        let all: i64 = free.iter().map(|free| i64::from(*free)).sum();
        let lost = |(shape, count): &(PodShape, u64)| {
            let (too_small, enough): (Vec<&u16>, Vec<&u16>) =
                free.iter().partition(|free| **free < shape.gpu_milli);
            let fits = enough.len() >= shape.gpus as usize && shape.models.has(model);
            let slivers: i64 = too_small.iter().map(|free| i64::from(**free)).sum();
            i64::try_from(*count).unwrap() * if fits { slivers } else { all }
        };
        target.shapes().iter().map(lost).sum()
    }

    /// All places by exhaustion, the one where most falls, the first among equals.
    fn brute_force(
        target: &Target,
        hosts: &Hosts,
        idle: &Idle,
        shape: &Shape,
    ) -> Option<(HostId, usize)> {
        let mut best: Option<(i64, HostId, usize)> = None;
        for host in (0..hosts.len() as u32).map(HostId) {
            let gpus: Vec<usize> = hosts.healthy(host).iter().collect();
            let free: Vec<u16> = gpus.iter().map(|gpu| idle.free_on(host, *gpu)).collect();
            let model = hosts.model(host);
            let size = shape.instance_gpus as usize;
            let whole: Vec<usize> = (0..free.len()).filter(|at| free[*at] == 1000).collect();
            let starts: Vec<Vec<usize>> = if shape.shares() {
                (0..free.len()).filter(|at| free[*at] >= shape.milli).map(|at| vec![at]).collect()
            } else {
                Some(whole)
                    .filter(|whole| whole.len() >= size)
                    .map(|w| w[..size].to_vec())
                    .into_iter()
                    .collect()
            };
            for taken in starts.iter().filter(|_| shape.models.has(model)) {
                let mut after = free.clone();
                for at in taken {
                    after[*at] -= shape.milli;
                }
                let fall =
                    by_definition(target, model, &free) - by_definition(target, model, &after);
                if best.is_none_or(|(most, ..)| fall > most) {
                    best = Some((fall, host, gpus[taken[0]]));
                }
            }
        }
        best.map(|(_, host, gpu)| (host, gpu))
    }

    fn shape() -> impl Strategy<Value = Shape> {
        let size = prop_oneof![
            (1..1000_u16).prop_map(Shape::of_share),
            Just(Shape::of_share(500)),
            (1..5_u32).prop_map(|gpus| Shape::of_instances(gpus, gpus)),
        ];
        (size, 1..4_u64).prop_map(|(shape, models)| shape.on(ModelSet(models)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn takes_what_brute_force_takes(
            gpus in proptest::collection::vec((1..5_usize, any::<bool>()), 1..7),
            target in proptest::collection::btree_map(shape(), 1..30_u64, 1..6),
            before in proptest::collection::vec(shape(), 0..20),
            asked in proptest::collection::vec(shape(), 1..10),
        ) {
            let hosts = hosts(&gpus);
            let counts = target.iter().map(|(shape, count)| (target_shape(shape), *count));
            let target = Target::of_counts(counts.collect());
            let mut fgd = Fgd { target: target.clone(), known: FxHashMap::default() };
            let (mut idle, jobs) = (Idle::new(&hosts), Jobs::default());
            let mut held = Vec::new();
            let mut random = Random::new(1);
            for shape in &before {
                let mut room = Room { hosts: &hosts, idle: &mut idle, jobs: &jobs };
                if fits(&random, shape, &room) {
                    held.extend(place(&mut random, JobId(0), shape, &mut room));
                }
            }
            for shape in &asked {
                let expected = brute_force(&target, &hosts, &idle, shape);
                let mut room = Room { hosts: &hosts, idle: &mut idle, jobs: &jobs };
                let can = fits(&fgd, shape, &room);
                prop_assert_eq!(can, expected.is_some());
                let grant = can.then(|| place(&mut fgd, JobId(0), shape, &mut room)).flatten();
                let found = grant.as_ref().map(|grant| match grant {
                    Grant::Share { host, gpu, .. } => (*host, *gpu),
                    Grant::Gpus(set) => (set.shares()[0].0, set.shares()[0].1.iter().next().unwrap()),
                    Grant::Count(_) | Grant::Part(_) => panic!("counted"),
                });
                prop_assert_eq!(found, expected);
                held.extend(grant);
            }
            // Shares are conserved: when all is given back everything is idle.
            let milli: usize = held.iter().map(Grant::total_milli).sum();
            prop_assert_eq!(idle.free_milli() + milli, 1000 * hosts.gpus());
            held.iter().rev().for_each(|grant| idle.give(grant));
            prop_assert_eq!((idle.free_milli(), idle.shared().count()), (1000 * hosts.gpus(), 0));
            prop_assert!((0..hosts.len() as u32).all(|host| idle.on(HostId(host)) == hosts.healthy(HostId(host))));
        }
    }
}
