//! Who holds which GPU: the world's own account, kept apart from the scheduler's.

use bandpilot_core::{GpuMask, HostId};
use rustc_hash::FxHashMap;

use crate::idle::Grant;
use crate::ids::JobId;
use crate::shape::Hosts;
use crate::world::Broken;

/// The grants of running jobs.
#[derive(Debug)]
pub(crate) struct Ledger {
    capacity: usize,
    busy: usize,
    free: Vec<GpuMask>,
    /// Only looked up, never iterated.
    held: FxHashMap<JobId, Grant>,
}

impl Ledger {
    pub(crate) fn new(hosts: &Hosts) -> Self {
        let free = (0..hosts.len() as u32).map(|host| hosts.healthy(HostId(host))).collect();
        Self { capacity: hosts.gpus(), busy: 0, free, held: FxHashMap::default() }
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
