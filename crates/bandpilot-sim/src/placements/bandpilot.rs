//! The GPUs of the exact search.

use std::collections::BTreeMap;

use bandpilot_core::{GpuMask, HostId, Placement, Request};
use bandpilot_dispatch::classes;
use bandpilot_dispatch::{Scene, Scope, SearchOptions, least_fragmentation, search};

use super::fewest_hosts::{FewestHosts, host_for_rest};
use super::filling::Filling;
use super::inside::{Inside, Kind, request};
use super::{PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::reference::{References, rate};
use crate::setting::{Network, Setting, demand_of};
use crate::shape::{ModelSet, Shape};

/// The set with the greatest effective bandwidth beside the running jobs, as the dispatcher searches it; among equals the one
/// that takes least from them, then the one on the fewest hosts; inside a host the one with the fewest idle GPUs. A smaller
/// instance is placed after the others, like [`FewestHosts`] does.
///
/// * `bandpilot` keeps instances whole where the trace names them; else any split over hosts is allowed, as with `compact`,
///   and the search decides. A job that would get from it less than the share [`Options::least_rate`](crate::Options::least_rate) of
///   the rate that the best GPUs of the same models give on an idle cluster waits instead: on a busy cluster the GPUs that a slow job holds
///   for longer are dearer than the wait.
/// * `bandpilot-whole` also keeps the instances whole that follow from a total, whole hosts and a rest: a job waits for as many
///   whole hosts as with `best-fit`, and leaves whole hosts to others.
/// * `bandpilot-tradeoff` is `bandpilot` but for the sets that it chooses among: those within the share [`Options::tradeoff`](crate::Options::tradeoff)
///   of the best. Of these it takes the one that leaves the least fragmentation.
pub struct Bandpilot<'a> {
    units: FewestHosts,
    most_steps: u64,
    /// Sets on which a job would be slower are not taken.
    least_rate: f64,
    references: References<'a>,
    /// The running jobs that span hosts, as they were when a set was last searched.
    scene: Scene<'a>,
    /// What is in the scene.
    live: BTreeMap<JobId, Placement>,
    inside: Inside<'a>,
    trade: Option<Trade>,
}

/// Bandwidth is given up for less fragmentation.
struct Trade {
    /// So much of the best, a share.
    share: f64,
    filling: Filling,
}

impl<'a> Bandpilot<'a> {
    /// `bandpilot`; `None` without bandwidths of these hosts.
    pub fn splitting(setting: &Setting<'a>) -> Option<Self> {
        Self::new(setting, FewestHosts::compact(), setting.options.least_rate)
    }

    /// `bandpilot-whole`; `None` without bandwidths of these hosts.
    pub fn whole(setting: &Setting<'a>) -> Option<Self> {
        Self::new(setting, FewestHosts::packed(), 0.0)
    }

    /// `bandpilot-tradeoff`; `None` without bandwidths of these hosts.
    pub fn trading(setting: &Setting<'a>) -> Option<Self> {
        let filling = Filling::new(setting.hosts);
        let trade = Some(Trade { share: setting.options.tradeoff, filling });
        Some(Self { trade, ..Self::splitting(setting)? })
    }

    fn new(setting: &Setting<'a>, units: FewestHosts, least_rate: f64) -> Option<Self> {
        let of_hosts = |network: &Network<'a>| network.cluster().hosts.len() == setting.hosts.len();
        let network = setting.network.filter(of_hosts)?;
        Some(Self {
            units,
            most_steps: setting.options.search_steps,
            least_rate,
            // As long a search as for a placement, so that on the idle cluster every job is fast enough.
            references: References::new(network, setting.hosts, setting.options.search_steps),
            scene: Scene::empty(network.predictor, network.contention),
            live: BTreeMap::new(),
            inside: Inside::new(network, setting.hosts),
            trade: None,
        })
    }

    /// Brings the scene up to date. What runs depends on who asks: a plan suspends jobs, and a reservation is for a later
    /// time; so it is compared, not told.
    fn refresh(&mut self, room: &Room<'_>) {
        let Self { scene, live, .. } = self;
        let runs: BTreeMap<JobId, &Placement> = room.spanning().collect();
        live.retain(|job, placement| {
            let stays = runs.get(job).is_some_and(|now| *now == placement);
            if !stays {
                scene.remove(job.index());
            }
            stays
        });
        for (job, placement) in runs {
            live.entry(job).or_insert_with(|| {
                scene.add(job.index(), placement, demand_of(f64::from(room.jobs.comm_share(job))));
                placement.clone()
            });
        }
    }

    /// The set to choose of so many GPUs in units of `unit`. With `job`, nothing if that would be too slow even on the best set.
    fn chosen(
        &mut self,
        (gpus, unit): (usize, usize),
        models: ModelSet,
        job: Option<JobId>,
        room: &Room<'_>,
    ) -> Option<Placement> {
        let (best, effective) = self.best(gpus, unit, models, room)?;
        let fast_enough = |rule: &mut Self, set: &Placement, effective| {
            job.is_none_or(|job| rule.is_fast_enough(job, set, effective, room))
        };
        // What was not searched across hosts is inside one.
        if let Some(effective) = effective
            && !fast_enough(self, &best, effective)
        {
            return None;
        }
        if self.trade.is_none() {
            return Some(best);
        }
        let most = effective.unwrap_or_else(|| self.scene.predictor().isolated(&best));
        let (set, effective) = self.traded(&best, most, Kind { gpus, unit, models }, room)?;
        Some(if fast_enough(self, &set, effective) { set } else { best })
    }

    /// Of the sets within the share of the best, which reaches `most`, the one that leaves the least, and what it gets, GB/s.
    fn traded(
        &mut self,
        best: &Placement,
        most: f64,
        kind: Kind,
        room: &Room<'_>,
    ) -> Option<(Placement, f64)> {
        let trade = self.trade.as_mut()?;
        let floor = (1.0 - trade.share) * most;
        let fill = trade.filling.of(room);
        let mut request = request(kind.gpus, kind.unit);
        if kind.gpus == 1 || floor > self.inside.most_across(kind, room.hosts) {
            request = Request { hosts: Some(1), ..request };
        } else {
            self.refresh(room);
        }
        let scope = Scope::of(usable(kind.models, room), kind.unit);
        let options = SearchOptions { most_steps: self.most_steps, ..SearchOptions::default() };
        let known = Some(best);
        let least =
            least_fragmentation(&self.scene, &scope, &request, &fill, floor, known, &options);
        // The best set is worth enough itself.
        let or_best = |_| (best.clone(), most);
        Some(least.map_or_else(or_best, |least| (least.found.placement, least.found.effective)))
    }

    /// The best set of so many GPUs in units of `unit`, and what it gets beside the running jobs if it was searched across
    /// hosts, GB/s.
    fn best(
        &mut self,
        gpus: usize,
        unit: usize,
        models: ModelSet,
        room: &Room<'_>,
    ) -> Option<(Placement, Option<f64>)> {
        if let Some(inside) = self.inside.best(gpus, unit, models, room) {
            return Some((inside, None));
        }
        self.refresh(room);
        let scope = Scope::of(usable(models, room), unit);
        let options = SearchOptions { most_steps: self.most_steps, ..SearchOptions::default() };
        let found = search(&self.scene, &scope, &request(gpus, unit), &options);
        found.ok().map(|outcome| (outcome.best.placement, Some(outcome.best.effective)))
    }

    /// True if a job would run fast enough on a set that spans hosts at this bandwidth, GB/s.
    fn is_fast_enough(
        &mut self,
        job: JobId,
        set: &Placement,
        effective: f64,
        room: &Room<'_>,
    ) -> bool {
        let share = f64::from(room.jobs.comm_share(job));
        // Where nobody else runs there is nothing to wait for, even if a short search has found no better set.
        let alone = room.idle.total() == room.hosts.gpus();
        if !set.is_cross_host() || share == 0.0 || self.least_rate == 0.0 || alone {
            return true;
        }
        // Against the best of these very models: a slow model is no reason to wait, to be split or mixed is.
        let models = set.shares().iter().map(|(host, _)| room.hosts.model(*host));
        let models = ModelSet(models.fold(0, |models, model| models | 1 << model));
        rate(share, self.references.of(set.gpus(), models), effective) >= self.least_rate
    }

    /// The set with a smaller instance besides.
    fn with_rest(
        &mut self,
        set: &Placement,
        rest: usize,
        models: ModelSet,
        room: &mut Room<'_>,
    ) -> Option<Placement> {
        let taken = Grant::Gpus(set.clone());
        room.idle.take(&taken);
        let own = set.shares().iter().map(|(host, _)| *host);
        let host = host_for_rest(own, room.idle, models, rest);
        let free = host.map(|host| (host, room.idle.on(host)));
        room.idle.give(&taken);
        let (host, free) = free?;
        if classes::all_alike(&self.scene, host) {
            return Some(with_share(set, host, free.lowest(rest)));
        }
        self.refresh(room);
        let (masks, _) = classes::subsets(&self.scene, host, free, rest);
        let sets = masks.into_iter().map(|mask| with_share(set, host, mask));
        let valued = sets.map(|set| (self.scene.effective(&set).effective, set));
        let best = valued.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, set)| set)
    }
}

fn with_share(set: &Placement, host: HostId, mask: GpuMask) -> Placement {
    Placement::new(set.shares().iter().copied().chain([(host, mask)]))
}

/// The idle GPUs of these models.
fn usable(models: ModelSet, room: &Room<'_>) -> Vec<GpuMask> {
    let hosts = (0..room.hosts.len() as u32).map(HostId);
    let accepted = |host| models.has(room.hosts.model(host));
    hosts.map(|host| if accepted(host) { room.idle.on(host) } else { GpuMask::EMPTY }).collect()
}

impl PlacementRule for Bandpilot<'_> {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        self.units.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let units = self.units.units(shape);
        let (size, rest) = (units.instance_gpus as usize, units.rest_gpus as usize);
        let full = size * units.instances as usize;
        // Only a split of its own choice may be too slow, and that has no rest.
        let own = (!shape.stated).then_some(job);
        let set = match (full, rest) {
            (0, rest) => self.chosen((rest, rest), units.models, own, room)?,
            (full, 0) => self.chosen((full, size), units.models, own, room)?,
            (full, rest) => {
                let set = self.chosen((full, size), units.models, None, room)?;
                self.with_rest(&set, rest, units.models, room)?
            }
        };
        let grant = Grant::Gpus(set);
        room.idle.take(&grant).then_some(grant)
    }
}

#[cfg(test)]
mod tests;
