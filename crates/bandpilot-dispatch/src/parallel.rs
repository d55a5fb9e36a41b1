//! Jobs whose ranks form groups: `--parallel tp=8,pp=2,dp=4`.
//!
//! # The problem
//!
//! *Constants*: those of the flat problem, and for each step of the job how many messages of what size each kind of
//! group exchanges. *Variables*: tensor groups of `tp` free GPUs of one host each, `pp` x `dp` of them, and which
//! pipeline stage and data-parallel replica each one is. *Objective*: the least communication time of a step:
//! the slowest tensor group's `all_reduce`s, plus the slowest data-parallel ring's, plus the slowest pair of
//! pipeline neighbours. All `tp` x `pp` rings run at the same time and share the NICs.
//!
//! Either every pipeline stays inside one host (then whole pipelines are placed, and each ring meets each host
//! in proportion to its pipelines), or some pipeline crosses hosts and its crossing is paid for; then each stage
//! is placed by itself. The first is searched exactly. For the second the best set that any one stage could
//! have bounds all of them. Without pipelines the first is all there is.

mod ranks;
mod solve;

use bandpilot_core::{ClusterState, Placement, Request};
use bandpilot_model::{BandwidthModel, Evidence, Traffic};

pub use ranks::{Coordinates, RankOrder};
pub use solve::dispatch_parallel;

use crate::answer::{Harm, Valued};
use crate::launch::Launch;

/// Sizes of the groups, and what they exchange in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parallel {
    /// GPUs of a tensor-parallel group, at least 1.
    pub tensor: usize,
    /// Stages of a pipeline, at least 1.
    pub pipeline: usize,
    /// Data-parallel replicas, at least 1.
    pub data: usize,
    /// `all_reduce` inside each tensor group.
    pub tensor_traffic: Traffic,
    /// `sendrecv` between the same ranks of neighbouring stages.
    pub pipeline_traffic: Traffic,
    /// `all_reduce` over the replicas of each rank.
    pub data_traffic: Traffic,
}

impl Parallel {
    /// Number of GPUs.
    pub fn gpus(&self) -> usize {
        self.tensor * self.pipeline * self.data
    }
}

/// The models of the two collectives that such jobs use.
#[derive(Debug, Clone, Copy)]
pub struct Models<'a> {
    /// Model of `all_reduce`.
    pub all_reduce: &'a BandwidthModel,
    /// Model of `sendrecv`.
    pub send_recv: &'a BandwidthModel,
}

/// Communication time of a step, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepTime {
    /// Tensor groups.
    pub tensor: f64,
    /// Pipeline neighbours.
    pub pipeline: f64,
    /// Data-parallel rings.
    pub data: f64,
}

impl ParallelAnswer {
    /// Shortest and longest step that the error bands of the groups' bandwidths allow, seconds.
    pub fn range(&self) -> (f64, f64) {
        let at = |sign: f64| {
            [
                (self.step.tensor, &self.tensor),
                (self.step.pipeline, &self.pipeline),
                (self.step.data, &self.data),
            ]
            .iter()
            .map(|(seconds, group)| seconds / (1.0 + sign * group.band).max(0.01))
            .sum()
        };
        (at(1.0), at(-1.0))
    }
}

impl StepTime {
    /// All of it.
    pub fn total(&self) -> f64 {
        self.tensor + self.pipeline + self.data
    }
}

/// What one kind of group reaches.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupBandwidth {
    /// busbw of the slowest group alone, GB/s; `None` where nothing is exchanged.
    pub isolated: Option<f64>,
    /// The same beside the running jobs.
    pub effective: Option<f64>,
    /// Relative error to expect of them.
    pub band: f64,
    /// What it rests on.
    pub evidence: Evidence,
    /// What holds it back, for people.
    pub bottleneck: String,
}

/// The flat view: what plain dispatch would have chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatView {
    /// Its set with its `all_reduce` bandwidth over all ranks.
    pub set: Valued,
    /// The job's step on that set, if its groups fit into it.
    pub step: Option<StepTime>,
}

/// The answer to a request for a job with groups.
#[derive(Debug, Clone, PartialEq)]
pub struct ParallelAnswer {
    /// The GPUs.
    pub placement: Placement,
    /// Communication time of a step.
    pub step: StepTime,
    /// Tensor groups.
    pub tensor: GroupBandwidth,
    /// Pipeline neighbours.
    pub pipeline: GroupBandwidth,
    /// Data-parallel rings, each with its share of the NICs.
    pub data: GroupBandwidth,
    /// Some pipeline crosses hosts.
    pub pipelines_cross_hosts: bool,
    /// No placement has a shorter step under the model, seconds; `None`: no certificate.
    pub lower_bound: Option<f64>,
    /// (step - lower bound) / step.
    pub gap: Option<f64>,
    /// How ranks are numbered.
    pub order: RankOrder,
    /// For each rank its place in the groups.
    pub coordinates: Vec<Coordinates>,
    /// What running jobs lose.
    pub harm: Vec<Harm>,
    /// Hosts that could take over.
    pub spares: Placement,
    /// What plain dispatch would have chosen, if it finds a set.
    pub flat: Option<FlatView>,
    /// What to paste.
    pub launch: Launch,
    /// Steps of all searches.
    pub steps: u64,
}

/// What is decided on.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The snapshot.
    pub state: &'a ClusterState,
    /// Constraints; its number of GPUs is that of the groups.
    pub request: &'a Request,
    /// The groups.
    pub parallel: &'a Parallel,
}
