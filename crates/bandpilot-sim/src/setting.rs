//! What a policy is made for.

use bandpilot_core::{Cluster, Demand};
use bandpilot_model::{ContentionModel, Predictor, VirtualMerge};

use crate::options::Options;
use crate::shape::Hosts;
use crate::workload::Workload;

/// Bandwidths of a cluster: what GPUs reach alone, and beside others.
#[derive(Clone, Copy)]
pub struct Network<'a> {
    /// Alone.
    pub predictor: &'a Predictor<'a>,
    /// Beside others.
    pub contention: &'a dyn ContentionModel,
}

impl<'a> Network<'a> {
    /// Contention by virtual merge.
    pub fn new(predictor: &'a Predictor<'a>) -> Self {
        Self { predictor, contention: &VirtualMerge }
    }

    /// The cluster that it is of.
    pub fn cluster(&self) -> &'a Cluster {
        self.predictor.cluster()
    }
}

/// What a job with this share of communication asks of the network. While it communicates it takes all that it could
/// reach, and nothing is known of when that is: the phases of jobs are taken to coincide.
pub fn demand_of(comm_share: f64) -> Demand {
    Demand::Fraction(if comm_share > 0.0 { 1.0 } else { 0.0 })
}

/// What a policy is made for, and what holds in a run.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The hosts.
    pub hosts: &'a Hosts,
    /// The jobs that will come. Units may look at what a site knows of its jobs as a whole, never at what comes next.
    pub workload: &'a Workload,
    /// Numbers that units and the world take.
    pub options: &'a Options,
    /// Where random units, and faults, draw from.
    pub seed: u64,
    /// Bandwidths; without them all jobs run at rate 1, and rules that look at bandwidth cannot be made.
    pub network: Option<Network<'a>>,
}

impl<'a> Setting<'a> {
    /// Without bandwidths.
    pub const fn new(
        hosts: &'a Hosts,
        workload: &'a Workload,
        options: &'a Options,
        seed: u64,
    ) -> Self {
        Self { hosts, workload, options, seed, network: None }
    }

    /// The same with bandwidths.
    #[must_use]
    pub const fn with_network(mut self, network: Network<'a>) -> Self {
        self.network = Some(network);
        self
    }
}
