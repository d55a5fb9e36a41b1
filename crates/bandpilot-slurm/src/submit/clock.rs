//! Until when the GPUs, cores and memory of each host are taken, as far as limits tell.
//!
//! A running job holds what it has until its limit; one without a limit is taken to end after all that have one, the oldest
//! first. A waiting job that names its hosts and GPUs has a claim on them: Slurm starts it there and nowhere else. Claims
//! follow one another by priority, each as early as what it names allows. Who starts on GPUs with a claim has to be over
//! before, or comes after it.

use std::collections::BTreeMap;

use bandpilot_core::GpuMask;
use bandpilot_readers::hostlist;

use crate::site::{Partition, Site};
use crate::{Host, Job, JobState, Limit, Reservation, Snapshot, gres};

/// Later than any time that is known.
const FAR: i64 = i64::MAX / 4;

/// A job on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stay {
    /// Its id.
    pub job: u32,
    /// It has the host from then on, seconds since 1970.
    pub from: i64,
    /// Until then.
    pub to: i64,
    /// It waits for the host.
    pub claim: bool,
    /// Its GPUs.
    pub gpus: GpuMask,
    /// Its CPUs there.
    pub cpus: u32,
    /// Its memory there, MiB.
    pub memory_mib: u64,
}

/// What is left on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// GPUs that Slurm has idle.
    pub gpus: GpuMask,
    /// CPUs.
    pub cpus: usize,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Nobody is on it.
    pub idle: bool,
}

/// The jobs of all hosts over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Clock {
    /// Now, seconds since 1970.
    pub now: i64,
    /// By host of the snapshot.
    stays: Vec<Vec<Stay>>,
    /// GPUs that are taken and nobody knows by whom, by host, and until when.
    strays: Vec<(GpuMask, i64)>,
}

/// A time that stands for none that is known.
pub const fn known(time: i64) -> Option<i64> {
    if time < FAR { Some(time) } else { None }
}

/// The limit of a job, seconds; `None`: it may run for ever, or nobody knows.
pub fn limit_s(asked: Limit, partition: Option<&Partition>) -> Option<i64> {
    let seconds = |limit: Limit| match limit {
        Limit::Seconds(seconds) => Some(i64::try_from(seconds).unwrap_or(i64::MAX)),
        _ => None,
    };
    let default = |partition: &Partition| match partition.default_time {
        Limit::Unset => seconds(partition.max_time),
        limit => seconds(limit),
    };
    match asked {
        Limit::Unset => partition.and_then(default),
        limit => seconds(limit),
    }
}

impl Clock {
    /// Of what runs and waits.
    pub fn new(snapshot: &Snapshot, site: &Site) -> Self {
        let names = snapshot.hosts.iter().enumerate();
        let places: BTreeMap<&str, usize> = names.map(|(at, h)| (h.name.as_str(), at)).collect();
        let now = snapshot.taken_at_s;
        let mut clock = Self {
            now,
            stays: vec![Vec::new(); snapshot.hosts.len()],
            strays: vec![(GpuMask::EMPTY, now); snapshot.hosts.len()],
        };
        clock.run(snapshot, &places);
        clock.find_strays(snapshot);
        clock.claim(snapshot, site, &places);
        clock
    }

    fn run(&mut self, snapshot: &Snapshot, places: &BTreeMap<&str, usize>) {
        let holds = |job: &&Job| !matches!(job.state, JobState::Pending | JobState::Finished);
        let jobs: Vec<&Job> = snapshot.jobs.iter().filter(holds).collect();
        let mut endless: Vec<&Job> = jobs.iter().copied().filter(|j| end(j).is_none()).collect();
        endless.sort_by_key(|job| (job.start_s.unwrap_or(i64::MAX), job.id));
        for job in jobs {
            let rank = endless.iter().position(|other| other.id == job.id).unwrap_or(0);
            let rank = i64::try_from(rank).unwrap_or(i64::MAX);
            let to = end(job).map_or(FAR.saturating_add(rank), |end| end.max(self.now + 1));
            let mut gpus: BTreeMap<&str, GpuMask> = BTreeMap::new();
            for (host, mask) in &job.gpus {
                let of_host = gpus.entry(host).or_default();
                *of_host = of_host.union(*mask);
            }
            for name in &job.hosts {
                gpus.entry(name).or_default();
            }
            let (cpus, memory_mib) = share(job, gpus.len(), false);
            for (name, gpus) in gpus {
                let Some(at) = places.get(name) else { continue };
                let stay =
                    Stay { job: job.id, from: self.now, to, claim: false, gpus, cpus, memory_mib };
                self.stays[*at].push(stay);
            }
        }
    }

    /// GPUs that a host counts as taken and no job is known to hold are free when all jobs of the host are over whose GPUs
    /// are not told. If there is none, their job ended while Slurm was asked, for hosts are asked for before jobs.
    fn find_strays(&mut self, snapshot: &Snapshot) {
        let unnamed = |stay: &&Stay| snapshot.job(stay.job).is_some_and(|job| job.unnamed_gpus > 0);
        for (at, host) in snapshot.hosts.iter().enumerate() {
            let held = self.stays[at].iter().fold(GpuMask::EMPTY, |all, s| all.union(s.gpus));
            let strays = host.gpus_in_use().without(held);
            let until = self.stays[at].iter().filter(unnamed).map(|stay| stay.to).max();
            self.strays[at] = (strays, until.unwrap_or(self.now + 1));
        }
    }

    fn claim(&mut self, snapshot: &Snapshot, site: &Site, places: &BTreeMap<&str, usize>) {
        // A held job starts when its owner wants it to: nobody can wait for that.
        let waits = |job: &&Job| job.state == JobState::Pending && job.priority > 0;
        let mut jobs: Vec<&Job> = snapshot.jobs.iter().filter(waits).collect();
        jobs.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
        // Claims without a limit come one after another, behind all running jobs without one.
        let mut endless = FAR.saturating_add_unsigned(snapshot.jobs.len() as u64);
        for job in jobs {
            let Some(named) = named(job, snapshot, places) else { continue };
            let first = job.partition.split(',').next().unwrap_or("");
            let limit = limit_s(job.request.time_limit, site.partition(first));
            let from = named.iter().map(|(at, gpus)| self.released(*at, *gpus)).max();
            let from = from.unwrap_or(self.now).max(job.eligible_s.unwrap_or(self.now));
            let to = limit.map_or_else(
                || {
                    endless = endless.max(from).saturating_add(1);
                    endless
                },
                |limit| from.saturating_add(limit),
            );
            let (cpus, memory_mib) = share(job, named.len(), true);
            for (at, gpus) in named {
                let stay = Stay { job: job.id, from, to, claim: true, gpus, cpus, memory_mib };
                self.stays[at].push(stay);
            }
        }
    }

    /// When all of these GPUs are free.
    fn released(&self, host: usize, gpus: GpuMask) -> i64 {
        let (strays, until) = self.strays[host];
        let of_strays = if strays.intersection(gpus).is_empty() { self.now } else { until };
        let stays = self.stays[host].iter();
        let meets = stays.filter(|stay| !stay.gpus.intersection(gpus).is_empty());
        meets.map(|stay| stay.to).fold(of_strays, i64::max)
    }

    /// What is left on a host for a job that starts `from` then and lasts `to` then. `yields`: it keeps off all claims,
    /// also those that begin later.
    pub fn left(&self, at: usize, host: &Host, from: i64, to: i64, yields: bool) -> Left {
        let mut gpus = host.all_gpus();
        let (strays, until) = self.strays[at];
        if until > from {
            gpus = gpus.without(strays);
        }
        let (mut ended_cpus, mut ended_mib, mut running) = (0, 0, 0);
        let (mut claimed_cpus, mut claimed_mib, mut idle) = (0_u32, 0_u64, true);
        for stay in &self.stays[at] {
            let met = stay.from < to || (yields && stay.claim);
            let there = met && stay.to > from;
            if there {
                gpus = gpus.without(stay.gpus);
                idle = false;
            }
            match (stay.claim, there) {
                (true, true) => {
                    claimed_cpus = claimed_cpus.saturating_add(stay.cpus);
                    claimed_mib = claimed_mib.saturating_add(stay.memory_mib);
                }
                (false, false) => {
                    ended_cpus += u64::from(stay.cpus);
                    ended_mib += stay.memory_mib;
                }
                (false, true) => running += 1,
                (true, false) => {}
            }
        }
        let known = self.stays[at].iter().any(|stay| !stay.claim);
        // What is in use and of no job is not free yet, and will be: see the GPUs of that kind.
        let all_over = running == 0 && (known || from > self.now);
        let cpus_used =
            if all_over { 0 } else { u64::from(host.cpus_in_use).saturating_sub(ended_cpus) };
        let memory_used =
            if all_over { 0 } else { host.memory_in_use_mib.saturating_sub(ended_mib) };
        let cpus = u64::from(host.cpus).saturating_sub(cpus_used + u64::from(claimed_cpus));
        Left {
            gpus,
            cpus: cpus as usize,
            memory_mib: host.memory_mib.saturating_sub(memory_used.saturating_add(claimed_mib)),
            idle: idle && cpus_used == 0 && gpus == host.all_gpus(),
        }
    }

    /// Jobs on a host, claims too.
    pub fn stays(&self, at: usize) -> &[Stay] {
        &self.stays[at]
    }

    /// Times at which something is released, ascending, each once; what never is, is left out.
    pub fn moments(&self, reservations: &[Reservation]) -> Vec<i64> {
        let strays = self.strays.iter().filter(|(gpus, _)| !gpus.is_empty()).map(|(_, to)| *to);
        let stays = self.stays.iter().flatten().map(|stay| stay.to).chain(strays);
        let reserved = reservations.iter().flat_map(|r| [r.start_s, r.end_s]).flatten();
        let mut all: Vec<i64> = stays.chain(reserved).collect();
        all.retain(|time| *time > self.now && *time < i64::MAX);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// When a running job is over at the latest.
fn end(job: &Job) -> Option<i64> {
    match job.state {
        JobState::Completing => Some(0),
        JobState::Suspended => None,
        // JSON of some versions has an end far away for jobs without limit.
        _ if job.request.time_limit == Limit::Unlimited => None,
        _ => job.end_s,
    }
}

/// CPUs and memory (MiB) of a job on each of its hosts. `most`: rather too many than too few.
fn share(job: &Job, hosts: usize, most: bool) -> (u32, u64) {
    let hosts = u32::try_from(hosts.max(1)).unwrap_or(u32::MAX);
    let cpus = if most { job.request.cpus.div_ceil(hosts) } else { job.request.cpus / hosts };
    let of_cpus = job.request.memory_mib_per_cpu.map(|each| each.saturating_mul(u64::from(cpus)));
    (cpus, job.request.memory_mib_per_host.or(of_cpus).unwrap_or(0))
}

/// The GPUs by host that a waiting job names; `None` if it leaves any choice to Slurm.
fn named(
    job: &Job,
    snapshot: &Snapshot,
    places: &BTreeMap<&str, usize>,
) -> Option<Vec<(usize, GpuMask)>> {
    let kinds = gres::gpus(&job.request.tres_per_host).ok()?;
    if kinds.is_empty() || job.request.named_hosts.is_empty() {
        return None;
    }
    let hosts = hostlist::expand(&job.request.named_hosts).ok()?;
    hosts
        .iter()
        .map(|name| {
            let at = *places.get(name.as_str())?;
            let host = &snapshot.hosts[at];
            kinds
                .iter()
                .try_fold(GpuMask::EMPTY, |mask, entry| {
                    let of_kind = host.gpus_of_kind(entry.kind.as_deref()?);
                    (of_kind.count() == entry.count).then(|| mask.union(of_kind))
                })
                .map(|mask| (at, mask))
        })
        .collect()
}

#[cfg(test)]
#[path = "../tests/clock.rs"]
mod tests;
