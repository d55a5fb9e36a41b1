//! Speed by bandwidth and contention.

use bandpilot_core::{ClusterState, Demand, GpuMask, HostId, Placement, Request};
use bandpilot_dispatch::{Scene, Scope, SearchOptions, search};
use bandpilot_model::host_share;
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
/// Contention is virtual merge host by host ([`host_share`]). The `bandpilot` placement believes in that of the paper, so it is
/// not judged by its own belief.
///
/// Where NICs of a host are down, what spans that host gets the share of its bandwidth that the host's other NICs are
/// of all: across hosts bandwidth grows with the NICs that take part.
pub struct BandwidthSpeed<'a> {
    network: Network<'a>,
    hosts: &'a Hosts,
    /// The jobs that ask something of the network, by host.
    on_host: Vec<Vec<JobId>>,
    /// The share of their demands that those get there.
    shares: Vec<f64>,
    /// Hosts on which others run than before.
    stirred: Vec<HostId>,
    /// Never iterated without sorting.
    running: FxHashMap<JobId, Running>,
    /// Those whose pace may be another one.
    touched: Vec<JobId>,
    nics: Vec<f64>,
    /// By number of GPUs and models.
    best: FxHashMap<(usize, ModelSet), f64>,
}

struct Running {
    placement: Placement,
    /// Share of communication.
    share: f64,
    /// What it asks of the network across hosts, GB/s.
    demand: f64,
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
            on_host: vec![Vec::new(); hosts.len()],
            shares: vec![1.0; hosts.len()],
            stirred: Vec::new(),
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
                *free = GpuMask::EMPTY;
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

    /// Computes anew what jobs get on the hosts on which others run than before.
    fn settle(&mut self) {
        self.stirred.sort_unstable();
        self.stirred.dedup();
        for host in self.stirred.drain(..) {
            let here = &self.on_host[host.index()];
            let running = here.iter().filter_map(|job| self.running.get(job));
            let jobs: Vec<(&Placement, f64)> =
                running.map(|job| (&job.placement, job.demand)).collect();
            self.shares[host.index()] = host_share(self.network.predictor, host, &jobs);
            self.touched.extend(here);
        }
    }

    /// The pace of a running job.
    fn pace(&self, job: &Running) -> Pace {
        let hosts = job.placement.shares().iter().map(|(host, _)| host.index());
        let least = |values: &[f64]| hosts.clone().map(|host| values[host]).fold(1.0, f64::min);
        let across = job.placement.is_cross_host();
        let nics = if across { least(&self.nics).max(LEAST_NICS) } else { 1.0 };
        let alone = job.isolated * nics;
        let effective = if job.demand > 0.0 { alone * least(&self.shares) } else { alone };
        let rate = |bandwidth: f64| {
            if job.share == 0.0 || bandwidth >= job.reference {
                return 1.0;
            }
            1.0 / ((1.0 - job.share) + job.share * job.reference / bandwidth)
        };
        Pace { rate: rate(effective), alone: rate(alone), busbw_gbytes_per_s: Some(effective) }
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
        let mut demand = 0.0;
        // One that asks for nothing meets nobody.
        if placement.is_cross_host()
            && let Demand::Fraction(fraction) = demand_of(share)
            && fraction > 0.0
        {
            demand = fraction * isolated;
            for (host, _) in placement.shares() {
                self.on_host[host.index()].push(job);
                self.stirred.push(*host);
            }
        }
        let placement = placement.clone();
        let running = Running { placement, share, demand, isolated, reference, told: None };
        self.running.insert(job, running);
        self.touched.push(job);
    }

    fn stopped(&mut self, job: JobId, _grant: &Grant) {
        let Some(gone) = self.running.remove(&job) else { return };
        if gone.demand > 0.0 {
            for (host, _) in gone.placement.shares() {
                self.on_host[host.index()].retain(|other| *other != job);
                self.stirred.push(*host);
            }
        }
    }

    fn nics(&mut self, host: HostId, share: f64) {
        self.nics[host.index()] = share;
        let spans = self.running.iter().filter(|(_, job)| !job.placement.on(host).is_empty());
        self.touched.extend(spans.map(|(job, _)| *job));
    }

    fn changes(&mut self, changes: &mut Vec<(JobId, Pace)>) {
        self.settle();
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        for job in touched.drain(..) {
            let Some(running) = self.running.get(&job) else { continue };
            let pace = self.pace(running);
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
