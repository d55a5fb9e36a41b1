//! Speed by bandwidth and contention.

use bandpilot_core::{ClusterState, HostId, Placement, Request};
use bandpilot_dispatch::{Scene, Scope, SearchOptions, search};
use rustc_hash::FxHashMap;

use super::{Pace, Speed};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::setting::{Network, demand_of};
use crate::shape::{Hosts, ModelSet};
use crate::workload::Workload;

/// The share of its NICs that a host keeps at least: with all of them gone, its jobs creep on over some other network.
const LEAST_NICS: f64 = 0.01;

/// A job with the share `c` of communication works at rate `1 / ((1 - c) + c * B_ref / B)`. `B` is its effective bandwidth
/// now, beside the others that run, and `B_ref` the isolated bandwidth of the best set of as many GPUs (of the models that it
/// accepts) on the idle cluster. Jobs of one GPU, and those whose GPUs are only counted, work at rate 1.
///
/// Where NICs of a host are down, what spans that host gets the share of its bandwidth that the host's other NICs are
/// of all: across hosts bandwidth grows with the NICs that take part.
pub struct BandwidthSpeed<'a> {
    network: Network<'a>,
    hosts: &'a Hosts,
    scene: Scene<'a>,
    /// Only looked up, never iterated.
    running: FxHashMap<JobId, Running>,
    /// Those whose pace may be another one.
    touched: Vec<JobId>,
    nics: Vec<f64>,
    /// By number of GPUs and models.
    best: FxHashMap<(usize, ModelSet), f64>,
}

struct Running {
    placement: Placement,
    share: f64,
    isolated: f64,
    reference: f64,
    told: Option<Pace>,
}

impl<'a> BandwidthSpeed<'a> {
    /// Nothing runs.
    pub fn new(network: Network<'a>, hosts: &'a Hosts) -> Self {
        Self {
            network,
            hosts,
            scene: Scene::empty(network.predictor, network.contention),
            running: FxHashMap::default(),
            touched: Vec::new(),
            nics: vec![1.0; hosts.len()],
            best: FxHashMap::default(),
        }
    }

    /// `B_ref`: the isolated bandwidth of the best set of `gpus` GPUs on the idle cluster, GB/s.
    fn reference(&mut self, gpus: usize, models: ModelSet) -> f64 {
        if let Some(known) = self.best.get(&(gpus, models)) {
            return *known;
        }
        let predictor = self.network.predictor;
        let mut state = ClusterState::idle(predictor.cluster());
        for (host, free) in state.free.iter_mut().enumerate() {
            if !models.has(self.hosts.model(HostId(host as u32))) {
                *free = bandpilot_core::GpuMask::EMPTY;
            }
        }
        let request = Request::gpus(gpus);
        let scope = Scope::new(predictor.cluster(), &state, &request);
        let idle = Scene::empty(predictor, self.network.contention);
        let found = search(&idle, &scope, &request, &SearchOptions::default());
        let best = found.map_or(0.0, |outcome| outcome.best.isolated);
        self.best.insert((gpus, models), best);
        best
    }

    /// Marks the jobs that meet a set on a host.
    fn touch_neighbours(&mut self, set: &Placement) {
        for (host, _) in set.shares() {
            let met = self.scene.jobs_on(*host).iter();
            self.touched.extend(met.map(|job| JobId(self.scene.jobs()[*job].index as u32)));
        }
    }

    /// The pace of a running job.
    fn pace(&self, job: &Running, effective: f64) -> Pace {
        let across = job.placement.is_cross_host();
        let nics = job.placement.shares().iter().map(|(host, _)| self.nics[host.index()]);
        let nics = if across { nics.fold(1.0, f64::min).max(LEAST_NICS) } else { 1.0 };
        let rate = |bandwidth: f64| {
            if job.share == 0.0 || bandwidth >= job.reference {
                return 1.0;
            }
            1.0 / ((1.0 - job.share) + job.share * job.reference / bandwidth)
        };
        Pace {
            rate: rate(effective * nics),
            alone: rate(job.isolated * nics),
            busbw_gbytes_per_s: Some(effective * nics),
        }
    }
}

impl Speed for BandwidthSpeed<'_> {
    fn started(&mut self, job: JobId, grant: &Grant, workload: &Workload) {
        let Grant::Gpus(placement) = grant else { return };
        if placement.gpus() < 2 {
            return;
        }
        let share = workload.comm_share(job);
        let models = workload.shape(job).models;
        let isolated = self.network.predictor.isolated(placement);
        let reference = if share > 0.0 { self.reference(placement.gpus(), models) } else { 0.0 };
        // One that asks for nothing meets nobody.
        if share > 0.0 && self.scene.add(job.index(), placement, demand_of(share)) {
            self.touch_neighbours(placement);
        }
        let placement = placement.clone();
        self.running.insert(job, Running { placement, share, isolated, reference, told: None });
        self.touched.push(job);
    }

    fn stopped(&mut self, job: JobId, _grant: &Grant) {
        let Some(gone) = self.running.remove(&job) else { return };
        if self.scene.remove(job.index()) {
            self.touch_neighbours(&gone.placement);
        }
    }

    fn nics(&mut self, host: HostId, share: f64) {
        self.nics[host.index()] = share;
        self.touched.extend(
            self.scene.jobs_on(host).iter().map(|job| JobId(self.scene.jobs()[*job].index as u32)),
        );
    }

    fn changes(&mut self, changes: &mut Vec<(JobId, Pace)>) {
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for job in touched.drain(..) {
            let Some(running) = self.running.get(&job) else { continue };
            let beside = self.scene.job(job.index()).map(|job| job.before);
            let pace = self.pace(running, beside.unwrap_or(running.isolated));
            if running.told != Some(pace)
                && let Some(running) = self.running.get_mut(&job)
            {
                running.told = Some(pace);
                changes.push((job, pace));
            }
        }
        self.touched = touched;
    }
}
