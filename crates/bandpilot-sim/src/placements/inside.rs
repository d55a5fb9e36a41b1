//! The best set inside one host, without a search.

use bandpilot_core::{GpuMask, HostId, Placement, Request};
use bandpilot_dispatch::classes;
use bandpilot_dispatch::{Outcome, Scene, Scope, SearchOptions, search};
use rustc_hash::FxHashMap;

use super::Room;
use super::instances::tightest;
use crate::setting::Network;
use crate::shape::{Hosts, ModelSet};

/// Differences of this share are noise of the arithmetic, as in the search.
const TIE: f64 = 1e-12;
/// The memory of best subsets is begun anew when it has so many.
const MOST_SUBSETS: usize = 200_000;

/// So many GPUs in units of `unit` on hosts of these models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub(super) gpus: usize,
    pub(super) unit: usize,
    pub(super) models: ModelSet,
}

/// Answers for jobs that one host can hold. What it remembers changes no answer.
pub(super) struct Inside<'a> {
    network: Network<'a>,
    /// One entry a GPU model: its hosts are of one type, and which GPUs of a host are taken changes nothing.
    alike: Vec<bool>,
    /// The best subset of so many of these GPUs of a host, and what it is worth.
    subsets: FxHashMap<(HostId, GpuMask, usize), (GpuMask, f64)>,
    /// No set that spans hosts is worth more, whatever is idle and runs.
    across: FxHashMap<Kind, f64>,
}

impl<'a> Inside<'a> {
    pub(super) fn new(network: Network<'a>, hosts: &Hosts) -> Self {
        let (predictor, cluster) = (network.predictor, network.cluster());
        let alike = |model: usize| {
            let ids = (0..hosts.len() as u32).map(HostId);
            let mut of_model = ids.filter(|host| hosts.model(*host) == model);
            let kind = of_model.clone().next().map(|first| cluster.host(first).host_type);
            of_model.all(|host| {
                Some(cluster.host(host).host_type) == kind && !predictor.subsets_differ(host)
            })
        };
        Self {
            network,
            alike: (0..hosts.models()).map(alike).collect(),
            subsets: FxHashMap::default(),
            across: FxHashMap::default(),
        }
    }

    /// What the search would choose, if that is inside one host for sure: the host with the best set, among equals the one with the
    /// fewest idle GPUs, then the first.
    pub(super) fn best(
        &mut self,
        gpus: usize,
        unit: usize,
        models: ModelSet,
        room: &Room<'_>,
    ) -> Option<Placement> {
        if gpus == 1 {
            // Nothing is exchanged, so all sets are worth the same.
            let host = tightest(room.idle, models, 1)?;
            return Some(Placement::new([(host, room.idle.on(host).lowest(1))]));
        }
        let mut best: Option<(HostId, GpuMask, f64)> = None;
        for (_, host) in self.candidates(gpus, models, room) {
            let (mask, worth) = self.subset(host, room.idle.on(host), gpus);
            if best.is_none_or(|(.., most)| worth > most + TIE * most.abs()) {
                best = Some((host, mask, worth));
            }
        }
        let (host, mask, worth) = best?;
        let kind = Kind { gpus, unit, models };
        (worth >= self.most_across(kind, room.hosts)).then(|| Placement::new([(host, mask)]))
    }

    /// Hosts with enough idle GPUs, tightest first: of hosts that are all alike the first is enough.
    fn candidates(&self, gpus: usize, models: ModelSet, room: &Room<'_>) -> Vec<(usize, HostId)> {
        let mut candidates = Vec::new();
        for (model, alike) in self.alike.iter().enumerate().filter(|(at, _)| models.has(*at)) {
            if *alike {
                let host = tightest(room.idle, ModelSet(1 << model), gpus);
                candidates.extend(host.map(|host| (room.idle.on(host).count(), host)));
                continue;
            }
            let hosts = (0..room.hosts.len() as u32).map(HostId);
            let of_model = hosts.filter(|host| room.hosts.model(*host) == model);
            let counted = of_model.map(|host| (room.idle.on(host).count(), host));
            candidates.extend(counted.filter(|(count, _)| *count >= gpus));
        }
        candidates.sort_unstable();
        candidates
    }

    /// The best subset of so many GPUs of a host, and what it is worth.
    fn subset(&mut self, host: HostId, free: GpuMask, gpus: usize) -> (GpuMask, f64) {
        let predictor = self.network.predictor;
        let worth = |mask: GpuMask| {
            predictor.score(predictor.inside(host, mask), predictor.inner_seconds(host, mask))
        };
        let lowest = free.lowest(gpus);
        if gpus == free.count() || !predictor.subsets_differ(host) {
            return (lowest, worth(lowest));
        }
        if let Some(known) = self.subsets.get(&(host, free, gpus)) {
            return *known;
        }
        let scene = Scene::empty(predictor, self.network.contention);
        let (masks, _) = classes::subsets(&scene, host, free, gpus);
        let valued = masks.into_iter().map(|mask| (mask, worth(mask)));
        let best = valued.reduce(|best, other| if other.1 > best.1 { other } else { best });
        let best = best.unwrap_or_else(|| (lowest, worth(lowest)));
        if self.subsets.len() >= MOST_SUBSETS {
            self.subsets.clear();
        }
        self.subsets.insert((host, free, gpus), best);
        best
    }

    /// The most that a set is worth that spans hosts, on the idle cluster: running jobs only take away.
    pub(super) fn most_across(&mut self, kind: Kind, hosts: &Hosts) -> f64 {
        if let Some(known) = self.across.get(&kind) {
            return *known;
        }
        let ids = (0..hosts.len() as u32).map(HostId);
        let accepted = |host| kind.models.has(hosts.model(host));
        let healthy = |host| if accepted(host) { hosts.healthy(host) } else { GpuMask::EMPTY };
        let scope = Scope::of(ids.map(healthy).collect(), kind.unit);
        let scene = Scene::empty(self.network.predictor, self.network.contention);
        let most = (2..=(kind.gpus / kind.unit).min(hosts.len()))
            .filter_map(|hosts| {
                let request = request(kind.gpus, kind.unit);
                let request = Request { hosts: Some(hosts), ..request };
                match search(&scene, &scope, &request, &SearchOptions::default()) {
                    Ok(Outcome { upper_bound, .. }) => Some(upper_bound.unwrap_or(f64::INFINITY)),
                    Err(not) => (!not.proven).then_some(f64::INFINITY),
                }
            })
            .fold(f64::NEG_INFINITY, f64::max);
        self.across.insert(kind, most);
        most
    }
}

/// GPUs in units that stay inside one host.
pub(super) fn request(gpus: usize, unit: usize) -> Request {
    Request { multiple_of: unit, ..Request::gpus(gpus) }
}
