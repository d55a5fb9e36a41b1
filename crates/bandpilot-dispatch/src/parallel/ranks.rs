//! Which rank is what, and where.

use bandpilot_core::{GpuMask, HostId};

use super::Parallel;

/// How ranks are numbered: the first kind of group varies fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankOrder {
    /// Tensor, pipeline, data: pipelines stay inside hosts.
    TensorPipelineData,
    /// Tensor, data, pipeline: the usual order of training frameworks.
    TensorDataPipeline,
}

impl RankOrder {
    /// `tp-pp-dp` or `tp-dp-pp`, as training frameworks write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TensorPipelineData => "tp-pp-dp",
            Self::TensorDataPipeline => "tp-dp-pp",
        }
    }
}

/// A rank's place in the groups, each from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coordinates {
    /// Rank in its tensor group.
    pub tensor: usize,
    /// Stage of its pipeline.
    pub pipeline: usize,
    /// Replica.
    pub data: usize,
}

/// A tensor group: some GPUs of one host.
pub(super) type Group = (HostId, GpuMask);

/// All groups of a job: `stages[stage][replica]`.
pub(super) struct Layout {
    pub(super) order: RankOrder,
    pub(super) stages: Vec<Vec<Group>>,
}

impl Layout {
    /// Pipelines one after the other, each with its stages in order.
    pub(super) fn of_pipelines(pipelines: &[Vec<Group>], parallel: &Parallel) -> Self {
        let stage = |s: usize| pipelines.iter().map(|groups| groups[s]).collect();
        Self {
            order: RankOrder::TensorPipelineData,
            stages: (0..parallel.pipeline).map(stage).collect(),
        }
    }

    /// Stages by themselves; replicas of neighbouring stages are matched so that as many pairs as possible share a host.
    pub(super) fn of_stages(mut stages: Vec<Vec<Group>>) -> Self {
        for at in 1..stages.len() {
            let (before, after) = stages.split_at_mut(at);
            let Some((previous, next)) = before.last().zip(after.first_mut()) else { break };
            let mut left = std::mem::take(next);
            let mut matched: Vec<Option<Group>> = previous
                .iter()
                .map(|(host, _)| {
                    let same = left.iter().position(|(other, _)| other == host)?;
                    Some(left.remove(same))
                })
                .collect();
            let mut rest = left.into_iter();
            for slot in matched.iter_mut().filter(|slot| slot.is_none()) {
                *slot = rest.next();
            }
            *next = matched.into_iter().flatten().collect();
        }
        let mut layout = Self { order: RankOrder::TensorDataPipeline, stages };
        layout.by_host();
        layout
    }

    /// Replicas in the order of the first stage's hosts, so that ranks of a host follow each other.
    fn by_host(&mut self) {
        let Some(first) = self.stages.first() else { return };
        let mut order: Vec<usize> = (0..first.len()).collect();
        order.sort_by_key(|&replica| first[replica]);
        for stage in &mut self.stages {
            *stage = order.iter().map(|&replica| stage[replica]).collect();
        }
    }

    /// Every rank in order, with its host and GPU.
    pub(super) fn ranks(&self) -> Vec<(Coordinates, HostId, usize)> {
        let (stages, replicas) = (self.stages.len(), self.stages.first().map_or(0, Vec::len));
        let groups: Vec<(usize, usize)> = match self.order {
            RankOrder::TensorPipelineData => {
                (0..replicas).flat_map(|d| (0..stages).map(move |p| (p, d))).collect()
            }
            RankOrder::TensorDataPipeline => {
                (0..stages).flat_map(|p| (0..replicas).map(move |d| (p, d))).collect()
            }
        };
        let of_group = |(pipeline, data): (usize, usize)| {
            let (host, mask) = self.stages[pipeline][data];
            mask.iter()
                .enumerate()
                .map(move |(tensor, gpu)| (Coordinates { tensor, pipeline, data }, host, gpu))
        };
        groups.into_iter().flat_map(of_group).collect()
    }
}
