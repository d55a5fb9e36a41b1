//! The workload that fragmentation is measured against.
//!
//! `F_n(m)` (FGD, ATC'23) is the GPU thousandths free on node `n` that a pod of shape `m` cannot use: all of them if the node
//! cannot host it (CPU, model, or fewer than `gpus` GPUs with `gpu_milli` free) or if it wants no GPU, else those on
//! GPUs with less than `gpu_milli` free. `F = sum over n, m of p_m F_n(m)`.
//!
//! Popularities are kept as counts of pods, so that weighted sums are whole numbers: equal states have equal values
//! whatever the order of summing, which the scores (cut to whole numbers) rest on.

use std::collections::BTreeMap;

use super::cluster::Node;
use super::pods::{PodShape, Pods};
use crate::shape::ModelSet;

/// Shapes are taken, most frequent first, until they make up this share of all pods.
pub const COVERAGE_PCT: u64 = 95;

/// Shapes that differ only in CPU.
#[derive(Debug, Clone)]
struct Group {
    models: ModelSet,
    gpus: u32,
    gpu_milli: u16,
    /// CPU thousandths in rising order, each with the pods that ask for no more.
    up_to: Vec<(u32, u64)>,
}

impl Group {
    /// Pods whose CPU fits into so many thousandths.
    fn within(&self, cpu_milli: u32) -> u64 {
        let at = self.up_to.partition_point(|(cpu, _)| *cpu <= cpu_milli);
        at.checked_sub(1).map_or(0, |at| self.up_to[at].1)
    }
}

/// A mix of shapes.
#[derive(Debug, Clone)]
pub struct Target {
    shapes: Vec<(PodShape, u64)>,
    groups: Vec<Group>,
    total: u64,
}

impl Target {
    /// The most frequent shapes of a list of pods (memory set aside), at least [`COVERAGE_PCT`] of it. Among equally frequent
    /// ones the greater comes first, by CPU, then GPU share, then GPUs, as in the authors' simulator.
    pub fn new(pods: &Pods) -> Self {
        let mut counts: BTreeMap<PodShape, u64> = BTreeMap::new();
        for shape in pods.each() {
            *counts.entry(pods.shapes()[*shape as usize].without_memory()).or_default() += 1;
        }
        Self::of_counts(counts.into_iter().collect())
    }

    /// The most frequent of these shapes, at least [`COVERAGE_PCT`] of all.
    pub fn of_counts(mut counts: Vec<(PodShape, u64)>) -> Self {
        counts.sort_by_key(|(shape, count)| std::cmp::Reverse((*count, *shape)));
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        let mut total = 0;
        let mut shapes = Vec::new();
        for (shape, count) in counts {
            if 100 * total >= COVERAGE_PCT * all {
                break;
            }
            total += count;
            shapes.push((shape, count));
        }
        Self { groups: groups(&shapes), shapes, total }
    }

    /// The shapes and how many pods have them.
    pub fn shapes(&self) -> &[(PodShape, u64)] {
        &self.shapes
    }

    /// Pods of all shapes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The score of a step between two values of [`weighted`](Self::weighted): `floor(100 sigmoid((before - after) / 1000))` in
    /// GPU thousandths, 50 where nothing changes.
    pub fn score(&self, before: u64, after: u64) -> i32 {
        let fall = (before as f64 - after as f64) / (1000.0 * self.total as f64);
        (100.0 / (1.0 + (-fall).exp())) as i32
    }

    /// The fragmentation of a node times [`total`](Self::total).
    pub fn weighted_fragmentation(&self, node: &Node) -> u64 {
        self.weighted(node.cpu_milli, node.model, &node.gpu_milli)
    }

    /// The fragmentation of a node with so much free, times [`total`](Self::total).
    pub fn weighted(&self, cpu_milli: u32, model: usize, gpu_milli: &[u16]) -> u64 {
        let free: u64 = gpu_milli.iter().map(|milli| u64::from(*milli)).sum();
        if free == 0 {
            return 0;
        }
        let usable = |group: &Group| {
            if !group.models.has(model) {
                return 0;
            }
            let (mut enough, mut usable) = (0, 0);
            for milli in gpu_milli.iter().filter(|milli| **milli >= group.gpu_milli) {
                enough += 1;
                usable += u64::from(*milli);
            }
            if enough >= group.gpus { usable * group.within(cpu_milli) } else { 0 }
        };
        self.total * free - self.groups.iter().map(usable).sum::<u64>()
    }
}

/// Groups of the shapes with a GPU; to the others all that is free is lost.
fn groups(shapes: &[(PodShape, u64)]) -> Vec<Group> {
    let mut by_gpus: BTreeMap<(ModelSet, u32, u16), BTreeMap<u32, u64>> = BTreeMap::new();
    for (shape, count) in shapes.iter().filter(|(shape, _)| shape.gpus > 0) {
        let group = by_gpus.entry((shape.models, shape.gpus, shape.gpu_milli)).or_default();
        *group.entry(shape.cpu_milli).or_default() += count;
    }
    let group = |((models, gpus, gpu_milli), by_cpu): ((_, _, _), BTreeMap<u32, u64>)| {
        let mut sum = 0;
        let up_to = by_cpu.into_iter().map(|(cpu, count)| {
            sum += count;
            (cpu, sum)
        });
        let up_to = up_to.collect();
        Group { models, gpus, gpu_milli, up_to }
    };
    by_gpus.into_iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, shape by shape.
    fn by_definition(target: &Target, node: &Node) -> u64 {
        let lost = |(shape, count): &(PodShape, u64)| {
            let too_small = node.gpu_milli.iter().filter(|milli| **milli < shape.gpu_milli);
            let slivers: u64 = too_small.map(|milli| u64::from(*milli)).sum();
            let hosts = node.fits(shape) && shape.gpus > 0;
            count * if hosts { slivers } else { node.free_milli() }
        };
        target.shapes().iter().map(lost).sum()
    }

    fn shape() -> impl Strategy<Value = PodShape> {
        let gpus = prop_oneof![
            Just((0, 0)),
            (1..1000_u16).prop_map(|milli| (1, milli)),
            (1..4_u32).prop_map(|gpus| (gpus, 1000))
        ];
        (0..9_u32, gpus, 1..4_u64).prop_map(|(cpu_milli, (gpus, gpu_milli), models)| PodShape {
            cpu_milli,
            gpus,
            gpu_milli,
            models: ModelSet(models),
            memory_mib: 0,
        })
    }

    proptest! {
        #[test]
        fn groups_give_the_definition(
            counts in proptest::collection::btree_map(shape(), 1..50_u64, 1..20),
            cpu_milli in 0..10_u32,
            model in 0..2_usize,
            gpu_milli in proptest::collection::vec(prop_oneof![Just(1000_u16), 0..=1000_u16], 0..5),
        ) {
            let target = Target::of_counts(counts.clone().into_iter().collect());
            let node = Node { cpu_milli, memory_mib: 0, model, gpu_milli };
            prop_assert_eq!(target.weighted_fragmentation(&node), by_definition(&target, &node));
            let all: u64 = counts.values().sum();
            let least = target.shapes().last().unwrap().1;
            prop_assert!(100 * target.total() >= 95 * all && 100 * (target.total() - least) < 95 * all);
        }
    }
}
