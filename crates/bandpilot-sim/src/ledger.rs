//! Who holds which GPU: the world's own account, kept apart from the scheduler's.

use bandpilot_core::{GpuMask, HostId};
use rustc_hash::FxHashMap;

use crate::idle::Grant;
use crate::ids::JobId;
use crate::outcome::Broken;
use crate::shape::Hosts;

/// The grants of running jobs.
#[derive(Debug)]
pub(crate) struct Ledger {
    capacity: usize,
    busy: usize,
    healthy: Vec<GpuMask>,
    free: Vec<GpuMask>,
    /// Never iterated without sorting.
    held: FxHashMap<JobId, Grant>,
}

impl Ledger {
    pub(crate) fn new(hosts: &Hosts) -> Self {
        let healthy = (0..hosts.len() as u32).map(|host| hosts.healthy(HostId(host)));
        let healthy: Vec<GpuMask> = healthy.collect();
        Self {
            capacity: hosts.gpus(),
            busy: 0,
            free: healthy.clone(),
            healthy,
            held: FxHashMap::default(),
        }
    }

    /// The jobs that cannot go on when a host goes: those that hold GPUs of it; and where GPUs are only counted, the last
    /// to arrive, until the others fit.
    pub(crate) fn victims(&self, host: HostId) -> Vec<JobId> {
        let holds = |grant: &Grant| match grant {
            Grant::Gpus(placement) => !placement.on(host).is_empty(),
            Grant::Count(_) => false,
        };
        let mut there: Vec<JobId> =
            self.held.iter().filter(|(_, grant)| holds(grant)).map(|(job, _)| *job).collect();
        there.sort_unstable();
        let left = self.capacity - self.healthy[host.index()].count();
        let counted = self.held.iter().filter(|(_, grant)| matches!(grant, Grant::Count(_)));
        let mut counted: Vec<(JobId, usize)> =
            counted.map(|(job, grant)| (*job, grant.gpus())).collect();
        counted.sort_unstable();
        let mut busy: usize = counted.iter().map(|(_, gpus)| gpus).sum();
        while busy > left
            && let Some((job, gpus)) = counted.pop()
        {
            busy -= gpus;
            there.push(job);
        }
        there
    }

    /// A host goes; nobody holds its GPUs any more.
    pub(crate) fn host_down(&mut self, host: HostId) {
        self.capacity -= self.healthy[host.index()].count();
        self.free[host.index()] = GpuMask::EMPTY;
    }

    /// A host is back.
    pub(crate) fn host_up(&mut self, host: HostId) {
        self.capacity += self.healthy[host.index()].count();
        self.free[host.index()] = self.healthy[host.index()];
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn busy(&self) -> usize {
        self.busy
    }

    pub(crate) fn running(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn claim(&mut self, job: JobId, grant: Grant, asked: usize) -> Result<(), Broken> {
        if grant.gpus() != asked {
            return Err(Broken::OtherCount { job: job.0, asked, given: grant.gpus() });
        }
        self.busy += asked;
        if self.busy > self.capacity {
            return Err(Broken::TooMany { busy: self.busy, capacity: self.capacity });
        }
        if let Grant::Gpus(placement) = &grant {
            for (host, mask) in placement.shares() {
                let free = self.free.get_mut(host.index()).ok_or(Broken::Twice { job: job.0 })?;
                if !mask.is_subset_of(*free) {
                    return Err(Broken::Twice { job: job.0 });
                }
                *free = free.without(*mask);
            }
        }
        match self.held.insert(job, grant) {
            None => Ok(()),
            Some(_) => Err(Broken::Twice { job: job.0 }),
        }
    }

    pub(crate) fn release(&mut self, job: JobId) -> Result<Grant, Broken> {
        let grant = self.held.remove(&job).ok_or(Broken::NotRunning { job: job.0 })?;
        self.busy -= grant.gpus();
        if let Grant::Gpus(placement) = &grant {
            for (host, mask) in placement.shares() {
                let free = &mut self.free[host.index()];
                *free = free.union(*mask);
            }
        }
        Ok(grant)
    }
}
