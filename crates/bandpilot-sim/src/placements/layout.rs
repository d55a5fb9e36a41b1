//! Which job is where, and what would be if some went elsewhere.

use std::collections::BTreeMap;

use bandpilot_core::{GpuMask, HostId, Placement};

use super::{Move, Room};
use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::shape::{Hosts, ModelSet};

/// A job's GPUs on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) job: JobId,
    pub(super) mask: GpuMask,
}

/// The running jobs by host. Changes to it are thoughts until they are read off as moves.
pub(super) struct Layout<'a> {
    hosts: &'a Hosts,
    jobs: &'a Jobs,
    idle: Idle,
    /// For each host its parts.
    parts: Vec<Vec<Part>>,
}

impl<'a> Layout<'a> {
    /// As things are.
    pub(super) fn new(room: &Room<'a>) -> Self {
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); room.hosts.len()];
        for (job, grant) in room.jobs.running() {
            if let Grant::Gpus(placement) = grant {
                for (host, mask) in placement.shares() {
                    parts[host.index()].push(Part { job, mask: *mask });
                }
            }
        }
        Self { hosts: room.hosts, jobs: room.jobs, idle: room.idle.clone(), parts }
    }

    /// The GPUs that are idle then.
    pub(super) fn idle(&mut self) -> &mut Idle {
        &mut self.idle
    }

    /// The parts on a host.
    pub(super) fn on(&self, host: HostId) -> &[Part] {
        &self.parts[host.index()]
    }

    /// Hosts that somebody has GPUs of, in the order of the cluster.
    pub(super) fn in_use(&self) -> impl Iterator<Item = HostId> {
        let used = self.parts.iter().enumerate().filter(|(_, parts)| !parts.is_empty());
        used.map(|(at, _)| HostId(at as u32))
    }

    /// GPUs of a host that are held.
    pub(super) fn held(&self, host: HostId) -> usize {
        self.on(host).iter().map(|part| part.mask.count()).sum()
    }

    /// GPUs of a host that jobs can have: those that are idle and those that are held.
    pub(super) fn capacity(&self, host: HostId) -> GpuMask {
        let held = self.on(host).iter().fold(GpuMask::EMPTY, |held, part| held.union(part.mask));
        self.idle.on(host).union(held)
    }

    /// The GPU models that a job accepts.
    pub(super) fn models(&self, job: JobId) -> ModelSet {
        self.jobs.shape(self.jobs.shape_of(job)).models
    }

    /// True if a job accepts the GPUs of a host.
    pub(super) fn accepts(&self, job: JobId, host: HostId) -> bool {
        self.models(job).has(self.hosts.model(host))
    }

    /// Empties a host: each part, the largest first, goes as a whole to the host in use with the fewest idle GPUs that are
    /// enough. False, and nothing is changed, if there is none for one of them.
    pub(super) fn empty(&mut self, host: HostId) -> bool {
        let mut leaving = self.on(host).to_vec();
        leaving.sort_by_key(|part| (std::cmp::Reverse(part.mask.count()), part.job));
        let mut gone: Vec<(HostId, Part)> = Vec::with_capacity(leaving.len());
        for part in &leaving {
            let gpus = part.mask.count();
            let others = self.in_use().filter(|other| *other != host);
            let enough = others.filter(|other| {
                self.idle.on(*other).count() >= gpus && self.accepts(part.job, *other)
            });
            let Some(to) = enough.min_by_key(|other| (self.idle.on(*other).count(), *other)) else {
                for (to, part) in gone {
                    self.idle.give_on(to, part.mask);
                    self.parts[to.index()].pop();
                }
                return false;
            };
            // The host's parts stay in its list until all have found a place.
            let mask = self.idle.on(to).lowest(gpus);
            self.idle.take_on(to, mask);
            self.parts[to.index()].push(Part { job: part.job, mask });
            gone.push((to, Part { job: part.job, mask }));
        }
        for part in std::mem::take(&mut self.parts[host.index()]) {
            self.idle.give_on(host, part.mask);
        }
        true
    }

    /// Empties the host with the fewest GPUs held of those that `may` be, and whose parts find a place; false if there is none.
    pub(super) fn empty_least(&mut self, may: impl Fn(&Self, HostId) -> bool) -> bool {
        let idle = |host: &HostId| self.idle.on(*host).count();
        let room: usize = self.in_use().map(|host| idle(&host)).sum();
        let mut least: Vec<(usize, HostId)> = self
            .in_use()
            .filter(|host| may(self, *host) && self.held(*host) + idle(host) <= room)
            .map(|host| (self.held(host), host))
            .collect();
        least.sort_unstable();
        least.into_iter().any(|(_, host)| self.empty(host))
    }

    /// Puts all jobs where `counts` says: GPUs by host and job. A job keeps what it has there already.
    pub(super) fn arrange(&mut self, counts: &BTreeMap<(HostId, JobId), usize>) {
        for host in 0..self.parts.len() {
            for part in &mut self.parts[host] {
                let host = HostId(host as u32);
                let stays =
                    counts.get(&(host, part.job)).map_or(0, |gpus| part.mask.count().min(*gpus));
                let kept = part.mask.lowest(stays);
                self.idle.give_on(host, part.mask.without(kept));
                part.mask = kept;
            }
        }
        for ((host, job), gpus) in counts {
            let parts = &mut self.parts[host.index()];
            let at = parts.iter().position(|part| part.job == *job).unwrap_or(parts.len());
            if at == parts.len() {
                parts.push(Part { job: *job, mask: GpuMask::EMPTY });
            }
            let more = self.idle.on(*host).lowest(gpus - parts[at].mask.count());
            self.idle.take_on(*host, more);
            parts[at].mask = parts[at].mask.union(more);
        }
        self.parts.iter_mut().for_each(|parts| parts.retain(|part| !part.mask.is_empty()));
    }

    /// What must be moved for it to become true, by job.
    pub(super) fn moves(&self) -> Vec<Move> {
        let mut shares: BTreeMap<JobId, Vec<(HostId, GpuMask)>> = BTreeMap::new();
        for (host, parts) in (0..).map(HostId).zip(&self.parts) {
            for part in parts {
                shares.entry(part.job).or_default().push((host, part.mask));
            }
        }
        let placed = shares.into_iter().map(|(job, shares)| (job, Placement::new(shares)));
        let moved = placed.map(|(job, placement)| Move { job, to: Grant::Gpus(placement) });
        let now = |job| self.jobs.run(job).map(|run| &run.grant);
        moved.filter(|moved| now(moved.job) != Some(&moved.to)).collect()
    }
}
