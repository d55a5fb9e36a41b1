//! Jobs whose ranks form groups: tensor-parallel groups inside hosts, pipelines, and data-parallel rings across hosts.
//!
//! A job with tensor groups of `tp` GPUs runs `tp` data-parallel rings side by side, one for each tensor rank. On a
//! host that holds `m` groups each ring has `m` ranks and its share of the host's NICs. So a set in *units* of
//! one group looks to the cross-host level just like a set of `m` ranks on each host with 1/`tp` of the NICs:
//! search and model stay the same, and all bandwidths are those of one ring.

use bandpilot_core::{Collective, GpuMask, HostId};

use crate::predictor::Predictor;

/// Above this many ways to split a host's GPUs into groups they are built greedily.
const MOST_SPLITS: u64 = 3_000;

/// How often a collective runs in a step, and on how much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Messages a step.
    pub messages: f64,
    /// Bytes of each.
    pub bytes: u64,
}

impl Traffic {
    /// Seconds a step at this bus bandwidth (GB/s); 0 where nothing is exchanged.
    pub fn seconds(&self, collective: Collective, ranks: usize, busbw: f64) -> f64 {
        let moved = self.messages * self.bytes as f64 * collective.busbw_factor(ranks);
        if ranks < 2 || moved <= 0.0 { 0.0 } else { moved / (busbw.max(1e-9) * 1e9) }
    }
}

/// What a step of a job with groups consists of, as one host's part of it sees it.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// GPUs of a tensor-parallel group.
    pub tensor: usize,
    /// Tensor traffic (`all_reduce`), and the predictor for its message size.
    pub tensor_traffic: Traffic,
    /// See `tensor_traffic`.
    pub tensor_predictor: &'a Predictor<'a>,
    /// Pipeline stages that stand side by side in a host; 1 if pipelines cross hosts or there are none.
    pub stages: usize,
    /// Traffic between neighbouring stages (`sendrecv`), and the predictor for its message size.
    pub stage_traffic: Traffic,
    /// See `stage_traffic`.
    pub stage_predictor: &'a Predictor<'a>,
    /// Ranks of a data-parallel ring.
    pub ring_ranks: usize,
    /// Traffic of a data-parallel ring (`all_reduce`).
    pub ring_traffic: Traffic,
    /// Seconds a step of what does not depend on the set, such as pipelines that cross hosts anyway.
    pub outside_seconds: f64,
}

impl Groups<'_> {
    /// GPUs that stay together in a host.
    pub fn unit(&self) -> usize {
        self.tensor * self.stages
    }

    /// Seconds a step with rings at this bus bandwidth.
    pub fn step_seconds(&self, ring_busbw: f64, inner_seconds: f64) -> f64 {
        let ring = self.ring_traffic.seconds(Collective::AllReduce, self.ring_ranks, ring_busbw);
        inner_seconds + self.outside_seconds + ring
    }

    /// Splits a host's part of a set into tensor groups, the stages of a pipeline one after the other: the slowest
    /// group is as fast as can be (where there are very many ways, greedily).
    pub fn split(&self, host: HostId, mask: GpuMask) -> Vec<GpuMask> {
        let groups = mask.count() / self.tensor;
        if self.tensor == 1 || !self.tensor_predictor.subsets_differ(host) {
            return in_order(mask, self.tensor);
        }
        let mut search = Splits {
            groups: self,
            host,
            chosen: Vec::with_capacity(groups),
            best: Vec::new(),
            best_seconds: f64::INFINITY,
        };
        if ways(mask.count(), self.tensor) <= MOST_SPLITS {
            search.visit(mask, 0.0);
        } else {
            search.greedy(mask);
        }
        search.best
    }

    /// Seconds a step of tensor groups and pipelines inside a host, given its groups.
    pub fn inner_seconds(&self, host: HostId, groups: &[GpuMask]) -> f64 {
        let tensor =
            groups.iter().map(|group| self.tensor_seconds(host, *group)).fold(0.0, f64::max);
        if self.stages < 2 {
            return tensor;
        }
        let neighbours = groups.chunks(self.stages).flat_map(|stages| stages.windows(2));
        let stage = neighbours
            .flat_map(|pair| pair[0].iter().zip(pair[1].iter()))
            .map(|(a, b)| {
                let link = GpuMask::single(a).union(GpuMask::single(b));
                let busbw = self.stage_predictor.inside(host, link);
                self.stage_traffic.seconds(Collective::SendRecv, 2, busbw)
            })
            .fold(0.0, f64::max);
        tensor + stage
    }

    /// Seconds a step of one tensor group.
    fn tensor_seconds(&self, host: HostId, group: GpuMask) -> f64 {
        let busbw = self.tensor_predictor.inside(host, group);
        self.tensor_traffic.seconds(Collective::AllReduce, self.tensor, busbw)
    }

    /// The ranks that each ring has on a host, given its groups.
    pub fn rings(&self, groups: &[GpuMask]) -> Vec<GpuMask> {
        let mut rings = vec![GpuMask::EMPTY; self.unit()];
        for (at, group) in groups.iter().enumerate() {
            for (rank, gpu) in group.iter().enumerate() {
                let ring = &mut rings[at % self.stages * self.tensor + rank];
                *ring = ring.union(GpuMask::single(gpu));
            }
        }
        rings
    }
}

/// Groups of the lowest GPUs, the next lowest and so on; what is left over is in none.
fn in_order(mask: GpuMask, size: usize) -> Vec<GpuMask> {
    let mut rest = mask;
    (0..mask.count() / size)
        .map(|_| {
            let group = rest.lowest(size);
            rest = rest.without(group);
            group
        })
        .collect()
}

/// Number of ways to split `gpus` into groups of `size`.
fn ways(gpus: usize, size: usize) -> u64 {
    let mut ways = 1_u64;
    let mut left = gpus;
    while left >= 2 * size {
        // The lowest GPU with any others.
        let choose = GpuMask::first(left - 1).subset_count(size - 1);
        ways = ways.saturating_mul(choose);
        left -= size;
    }
    ways
}

struct Splits<'g> {
    groups: &'g Groups<'g>,
    host: HostId,
    chosen: Vec<GpuMask>,
    best: Vec<GpuMask>,
    best_seconds: f64,
}

impl Splits<'_> {
    /// Tries every group that has the lowest of the remaining GPUs.
    fn visit(&mut self, rest: GpuMask, worst: f64) {
        let size = self.groups.tensor;
        if rest.count() < size {
            let seconds = self.groups.inner_seconds(self.host, &self.chosen);
            if seconds < self.best_seconds {
                self.best_seconds = seconds;
                self.best.clone_from(&self.chosen);
            }
            return;
        }
        for group in groups_of_lowest(rest, size) {
            let worst = worst.max(self.groups.tensor_seconds(self.host, group));
            if worst < self.best_seconds {
                self.chosen.push(group);
                self.visit(rest.without(group), worst);
                self.chosen.pop();
            }
        }
    }

    fn greedy(&mut self, mask: GpuMask) {
        let size = self.groups.tensor;
        let mut rest = mask;
        while rest.count() >= size {
            let seconds = |group: &GpuMask| self.groups.tensor_seconds(self.host, *group);
            // So many candidates at most: all where they are few, else those of close indexes.
            let near = rest.lowest(size.saturating_add(8).min(rest.count()));
            let group = groups_of_lowest(near, size)
                .min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
                .unwrap_or(rest.lowest(size));
            self.best.push(group);
            rest = rest.without(group);
        }
    }
}

/// The groups of a size that have the lowest of these GPUs.
fn groups_of_lowest(rest: GpuMask, size: usize) -> impl Iterator<Item = GpuMask> {
    let lowest = rest.lowest(1);
    rest.without(lowest).subsets(size - 1).map(move |others| others.union(lowest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_ways_to_split() {
        assert_eq!(ways(8, 4), 35);
        assert_eq!(ways(8, 2), 105);
        assert_eq!(ways(8, 8), 1);
        assert_eq!(ways(64, 2), u64::MAX);
    }

    #[test]
    fn time_of_traffic() {
        let traffic = Traffic { messages: 2.0, bytes: 1_000_000_000 };
        assert_eq!(traffic.seconds(Collective::AllReduce, 2, 10.0), 0.2);
        assert_eq!(traffic.seconds(Collective::AllReduce, 1, 10.0), 0.0);
    }
}
