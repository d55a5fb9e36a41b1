//! What a job's bandwidth is measured against.

use bandpilot_core::{ClusterState, GpuMask, HostId, Request};
use bandpilot_dispatch::{Scene, Scope, SearchOptions, search};
use rustc_hash::FxHashMap;

use crate::setting::Network;
use crate::shape::{Hosts, ModelSet};

/// The isolated bandwidths of the best sets on the idle cluster, `B_ref`. What it remembers changes no answer.
pub(crate) struct References<'a> {
    network: Network<'a>,
    hosts: &'a Hosts,
    most_steps: u64,
    /// By number of GPUs and models, GB/s.
    best: FxHashMap<(usize, ModelSet), f64>,
}

impl<'a> References<'a> {
    /// A search takes `most_steps` steps at most.
    pub(crate) fn new(network: Network<'a>, hosts: &'a Hosts, most_steps: u64) -> Self {
        Self { network, hosts, most_steps, best: FxHashMap::default() }
    }

    /// The isolated bandwidth of the best set of `gpus` GPUs of these models on the idle cluster, GB/s.
    pub(crate) fn of(&mut self, gpus: usize, models: ModelSet) -> f64 {
        if let Some(known) = self.best.get(&(gpus, models)) {
            return *known;
        }
        let predictor = self.network.predictor;
        let mut state = ClusterState::idle(predictor.cluster());
        for (host, free) in state.free.iter_mut().enumerate() {
            if !models.has(self.hosts.model(HostId(host as u32))) {
                *free = GpuMask::EMPTY;
            }
        }
        let request = Request::gpus(gpus);
        let scope = Scope::new(predictor.cluster(), &state, &request);
        let idle = Scene::empty(predictor, self.network.contention);
        let options = SearchOptions { most_steps: self.most_steps, ..SearchOptions::default() };
        let found = search(&idle, &scope, &request, &options);
        let best = found.map_or(0.0, |outcome| outcome.best.isolated);
        self.best.insert((gpus, models), best);
        best
    }
}

/// The rate of a job with the share `c` of communication at bandwidth `B`: `1 / ((1 - c) + c * B_ref / B)`, and 1 where it is no
/// slower than the reference.
pub(crate) fn rate(comm_share: f64, reference: f64, bandwidth: f64) -> f64 {
    if comm_share == 0.0 || bandwidth >= reference {
        return 1.0;
    }
    1.0 / ((1.0 - comm_share) + comm_share * reference / bandwidth)
}
