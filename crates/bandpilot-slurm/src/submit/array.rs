//! Arrays: every task has a set of its own.
//!
//! A task of an array cannot be a heterogeneous job, so all hosts of a task give the same GPUs. Tasks that fit now start now,
//! on sets that have no GPU in common; the others wait for the sets of the first ones in turn.

use std::cmp::Reverse;

use bandpilot_core::{ClusterState, GpuMask, HostId, Request, RunningJob, counted};
use bandpilot_dispatch::{Answer, AnswerOptions, Impossible, Scene, classes, dispatch, scope};
use bandpilot_model::VirtualMerge;

use super::admit::{Room, Taken, When};
use super::ask::Ask;
use super::clock::{self, Clock};
use super::ground::{Candidate, Ground};
use super::plan::{Given, Planned, Start, earliest, planned};
use super::refused::Refused;
use super::shape::Shape;

/// Plans every task of an array: its index and its plan, by index.
///
/// # Errors
/// If no task can ever be met, or only by GPUs that differ from host to host.
pub fn plan_array(given: &Given<'_>, ask: &Ask) -> Result<Vec<(u32, Planned)>, Refused> {
    let Some(array) = ask.array.as_ref().filter(|array| !array.indexes.is_empty()) else {
        return Err(Refused::options("array", "no task of an array was asked for", "-a 0-9"));
    };
    let clock = Clock::new(given.snapshot, given.site);
    let ground = Ground::new(given, ask, &clock)?;
    let most = array.at_once.unwrap_or(usize::MAX).clamp(1, array.indexes.len());
    let (sets, when) = sets(&ground, most)?;
    let mut tasks = Vec::with_capacity(array.indexes.len());
    for (at, index) in array.indexes.iter().enumerate() {
        let (round, set) = (at / sets.len(), at % sets.len());
        let id = format!("{}_{index}", given.plan_id);
        let mut task = planned(&ground, &sets[set], when, &id);
        if round > 0 {
            let before = array.indexes[at - sets.len()];
            let limit = ground.variants[sets[set].variant].gate.limit;
            let later = |limit: i64| {
                clock::known(when.from)?.checked_add(limit.checked_mul(i64::try_from(round).ok()?)?)
            };
            task.start = Start::After { jobs: Vec::new(), at_s: limit.and_then(later) };
            task.remarks.push(format!("waits for task {before} of the array"));
        }
        tasks.push((*index, task));
    }
    Ok(tasks)
}

/// Up to so many sets that have no GPU in common, at the earliest time at which there is one.
fn sets(ground: &Ground<'_>, most: usize) -> Result<(Vec<Candidate>, When), Refused> {
    let now = When { from: ground.clock.now, yields: true };
    let (found, mut refusal) = sets_at(ground, most, now);
    if !found.is_empty() {
        return Ok((found, now));
    }
    // Any set at all has to be there first; this also says so if there never is one.
    let (_, first) = earliest(ground)?;
    let moments = ground.clock.moments(&ground.given.snapshot.reservations);
    for from in std::iter::once(now.from).chain(moments).filter(|from| *from >= first.from) {
        let when = When { from, yields: false };
        let (found, why) = sets_at(ground, most, when);
        if !found.is_empty() {
            return Ok((found, when));
        }
        refusal = why.or(refusal);
    }
    let why = refusal.unwrap_or_else(|| uneven("no host gives what another one gives"));
    Err(ground.refuse(why, now))
}

fn uneven(message: &str) -> Impossible {
    Impossible {
        constraint: "array",
        message: format!("a task of an array has the same GPUs on all its hosts: {message}"),
        possible: "as many GPUs as one host has, or single jobs instead of an array".to_owned(),
    }
}

fn sets_at(ground: &Ground<'_>, most: usize, when: When) -> (Vec<Candidate>, Option<Impossible>) {
    let hosts = ground.given.snapshot.hosts.len();
    let mut taken = vec![Taken::default(); hosts];
    let mut jobs = ground.jobs_at(when.from);
    let mut found: Vec<Candidate> = Vec::new();
    let mut refusal = None;
    while found.len() < most {
        match next(ground, when, &taken, &jobs) {
            Ok(candidate) => {
                take(ground, &candidate, &mut taken);
                let placement = candidate.answer.chosen.placement.clone();
                if placement.is_cross_host() {
                    let name = format!("task {}", found.len());
                    let demand = bandpilot_core::Demand::Fraction(1.0);
                    jobs.push(RunningJob::new(name, placement, demand));
                }
                found.push(candidate);
            }
            Err(why) => {
                refusal = Some(why);
                break;
            }
        }
    }
    (found, refusal)
}

fn take(ground: &Ground<'_>, candidate: &Candidate, taken: &mut [Taken]) {
    let gate = &ground.variants[candidate.variant].gate;
    for (at, id) in gate.hosts.iter().enumerate() {
        let gpus =
            id.as_ref().map_or(GpuMask::EMPTY, |id| candidate.answer.chosen.placement.on(*id));
        if gpus.is_empty() {
            continue;
        }
        let host = &ground.given.snapshot.hosts[at];
        let load = gate.need.on(host, gpus.count(), candidate.shape.tasks.on(gpus.count()));
        taken[at].gpus = taken[at].gpus.union(gpus);
        taken[at].cpus += load.cpus;
        taken[at].memory_mib += load.memory_mib;
    }
}

/// The best further set of all variants.
fn next(
    ground: &Ground<'_>,
    when: When,
    taken: &[Taken],
    jobs: &[RunningJob],
) -> Result<Candidate, Impossible> {
    let mut best: Option<Candidate> = None;
    let mut refusal = None;
    for (variant, way) in ground.variants.iter().enumerate() {
        for shape in &way.shapes {
            let room = |at: usize| way.gate.room_beside(at, shape, when, &taken[at]);
            let rooms: Vec<Room> = (0..taken.len()).map(room).collect();
            let (state, request) = ground.request(way, shape, &rooms);
            let state = ClusterState { jobs: jobs.to_vec(), ..state };
            let set = Uniform { ground, variant, shape, rooms: &rooms, state, request };
            match set.best() {
                Ok(answer) => {
                    let worth = answer.chosen.effective;
                    let least = |best: &Candidate| best.answer.chosen.effective * (1.0 + 1e-9);
                    if best.as_ref().is_none_or(|best| worth > least(best)) {
                        best = Some(Candidate { variant, shape: *shape, answer });
                    }
                    break;
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
    }
    best.ok_or_else(|| refusal.unwrap_or_else(|| uneven("no host can give a GPU")))
}

/// The search for a set with the same GPUs on every host.
struct Uniform<'s, 'a> {
    ground: &'s Ground<'a>,
    variant: usize,
    shape: &'s Shape,
    rooms: &'s [Room],
    state: ClusterState,
    request: Request,
}

/// GPUs that some hosts could all give.
struct Offer {
    gpus: GpuMask,
    hosts: Vec<HostId>,
}

impl Uniform<'_, '_> {
    /// Sets with as many GPUs on each host bound those with the same; most often the best of them has the same.
    fn best(&self) -> Result<Answer, Impossible> {
        let shape = self.shape;
        let request = Request { uniform: true, ..self.request.clone() };
        let cluster = self.ground.given.predictor.cluster();
        scope::check(cluster, &self.state, &request)
            .map_err(|why| Impossible { possible: why.possible.clone(), ..uneven(&why.message) })?;
        let first = self.dispatch(&self.state, &request);
        if let Ok(answer) = &first
            && self.is_same(answer)
            && answer.chosen.placement.hosts() >= shape.least_hosts
        {
            return first;
        }
        let bound = first.as_ref().ok().and_then(|answer| answer.upper_bound);
        let mut best: Option<Answer> = None;
        for hosts in shape.least_hosts..=shape.most_hosts.min(self.rooms.len()) {
            let each = shape.gpus / hosts;
            let allowed = shape.gpus.is_multiple_of(hosts)
                && each.is_multiple_of(self.request.multiple_of)
                && self.request.hosts.is_none_or(|exact| exact == hosts)
                && self.request.max_hosts.is_none_or(|most| hosts <= most);
            if !allowed {
                continue;
            }
            for offer in self.offers(each, hosts) {
                let done = |best: &Answer| {
                    bound.is_some_and(|b| best.chosen.effective >= b * (1.0 - 1e-9))
                };
                if best.as_ref().is_some_and(done) {
                    break;
                }
                let mut state = ClusterState {
                    free: vec![GpuMask::EMPTY; cluster.hosts.len()],
                    jobs: self.state.jobs.clone(),
                };
                for host in &offer.hosts {
                    state.free[host.index()] = offer.gpus;
                }
                let request = Request { hosts: Some(hosts), max_hosts: None, ..request.clone() };
                if let Ok(answer) = self.dispatch(&state, &request) {
                    let least = |best: &Answer| best.chosen.effective * (1.0 + 1e-9);
                    if best.as_ref().is_none_or(|best| answer.chosen.effective > least(best)) {
                        best = Some(answer);
                    }
                }
            }
        }
        let none = || {
            let gpus = counted(shape.gpus, "GPU");
            match first {
                Err(why) => why,
                Ok(_) => uneven(&format!("no hosts have the same ones free for {gpus}")),
            }
        };
        best.ok_or_else(none)
    }

    fn dispatch(&self, state: &ClusterState, request: &Request) -> Result<Answer, Impossible> {
        let given = self.ground.given;
        let options = AnswerOptions { should_stop: given.should_stop, ..AnswerOptions::default() };
        dispatch(given.predictor, state, request, options)
    }

    /// True if all hosts give the same GPUs with the same gres types.
    fn is_same(&self, answer: &Answer) -> bool {
        let shares = answer.chosen.placement.shares();
        let first = shares.first();
        let kinds = |host: HostId, gpus: GpuMask| self.kinds(host, gpus);
        first.is_none_or(|(host, gpus)| {
            let of_first = kinds(*host, *gpus);
            shares.iter().all(|(other, mask)| mask == gpus && kinds(*other, *mask) == of_first)
        })
    }

    fn kinds(&self, host: HostId, gpus: GpuMask) -> Vec<Option<&str>> {
        let name = &self.ground.given.predictor.cluster().host(host).name;
        let known = self.ground.given.snapshot.host(name);
        let kind = |at: usize| known.and_then(|host| host.gpus.get(at)?.kind.as_deref());
        gpus.iter().map(kind).collect()
    }

    /// Every set of so many indexes that enough hosts could give, most hosts first. Where it does not matter which GPUs
    /// they are, sets of the same hosts are one.
    fn offers(&self, each: usize, hosts: usize) -> Vec<Offer> {
        let scene = Scene::new(self.ground.given.predictor, &VirtualMerge, &self.state);
        let gate = &self.ground.variants[self.variant].gate;
        let able: Vec<(HostId, GpuMask)> = self
            .rooms
            .iter()
            .zip(&gate.hosts)
            .filter(|(room, _)| room.most >= each)
            .filter_map(|(room, id)| Some((*id.as_ref().ok()?, room.usable)))
            .collect();
        let alike = able.iter().all(|(host, _)| classes::all_alike(&scene, *host));
        let mut masks: Vec<GpuMask> = Vec::new();
        for (_, usable) in &able {
            if usable.subset_count(each) <= MOST_MASKS {
                masks.extend(usable.subsets(each));
            } else {
                masks.push(usable.lowest(each));
            }
            masks.sort_unstable();
            masks.dedup();
        }
        let mut offers: Vec<Offer> = Vec::new();
        for gpus in masks {
            let mut by_kind: Vec<(Vec<Option<&str>>, Vec<HostId>)> = Vec::new();
            for (host, usable) in &able {
                if !gpus.is_subset_of(*usable) {
                    continue;
                }
                let kinds = self.kinds(*host, gpus);
                match by_kind.iter_mut().find(|(other, _)| *other == kinds) {
                    Some((_, of_kind)) => of_kind.push(*host),
                    None => by_kind.push((kinds, vec![*host])),
                }
            }
            let enough = by_kind.into_iter().map(|(_, of_kind)| of_kind);
            for of_kind in enough.filter(|of_kind| of_kind.len() >= hosts) {
                let known = alike && offers.iter().any(|offer| offer.hosts == of_kind);
                if !known {
                    offers.push(Offer { gpus, hosts: of_kind });
                }
            }
        }
        offers.sort_by_key(|offer| (Reverse(offer.hosts.len()), offer.gpus));
        offers
    }
}

/// Hosts with more subsets of a size are only looked at for the lowest GPUs.
const MOST_MASKS: u64 = 13_000;

#[cfg(test)]
#[path = "../tests/array.rs"]
mod tests;
