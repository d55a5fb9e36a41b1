//! Who holds which GPU: the world's own account, kept apart from the scheduler's.

use bandpilot_core::{GpuMask, HostId};
use rustc_hash::FxHashMap;

use crate::fragmentation::{Fragmentation, Standing};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::outcome::Broken;
use crate::shape::{Hosts, Shape};

/// The grants of running jobs.
#[derive(Debug)]
pub(crate) struct Ledger {
    capacity_milli: usize,
    busy_milli: usize,
    healthy: Vec<GpuMask>,
    free: Vec<GpuMask>,
    /// Thousandths taken of shared GPUs; only looked up.
    shared: FxHashMap<(HostId, usize), u16>,
    /// Never iterated without sorting.
    held: FxHashMap<JobId, Grant>,
    fragmentation: Fragmentation,
    /// A grant without hosts was given: how hosts stand is not known.
    counted: bool,
}

impl Ledger {
    pub(crate) fn new(hosts: &Hosts) -> Self {
        let healthy = (0..hosts.len() as u32).map(|host| hosts.healthy(HostId(host)));
        let healthy: Vec<GpuMask> = healthy.collect();
        Self {
            capacity_milli: 1000 * hosts.gpus(),
            busy_milli: 0,
            shared: FxHashMap::default(),
            free: healthy.clone(),
            healthy,
            held: FxHashMap::default(),
            fragmentation: Fragmentation::new(hosts),
            counted: false,
        }
    }

    /// The jobs that cannot go on when a host goes: those that hold GPUs of it; and where GPUs are only counted, the last
    /// to arrive, until the others fit.
    pub(crate) fn victims(&self, host: HostId) -> Vec<JobId> {
        let holds = |grant: &Grant| match grant {
            Grant::Gpus(placement) => !placement.on(host).is_empty(),
            Grant::Share { host: of, .. } => *of == host,
            Grant::Count(_) | Grant::Part(_) => false,
        };
        let mut there: Vec<JobId> =
            self.held.iter().filter(|(_, grant)| holds(grant)).map(|(job, _)| *job).collect();
        there.sort_unstable();
        let left = self.capacity_milli - 1000 * self.healthy[host.index()].count();
        let is_counted = |grant: &Grant| matches!(grant, Grant::Count(_) | Grant::Part(_));
        let counted = self.held.iter().filter(|(_, grant)| is_counted(grant));
        let mut counted: Vec<(JobId, usize)> =
            counted.map(|(job, grant)| (*job, grant.total_milli())).collect();
        counted.sort_unstable();
        let mut busy: usize = counted.iter().map(|(_, milli)| milli).sum();
        while busy > left
            && let Some((job, milli)) = counted.pop()
        {
            busy -= milli;
            there.push(job);
        }
        there
    }

    /// A host goes; nobody holds its GPUs any more.
    pub(crate) fn host_down(&mut self, host: HostId) {
        self.capacity_milli -= 1000 * self.healthy[host.index()].count();
        self.free[host.index()] = GpuMask::EMPTY;
        self.fragmentation.set(host, 0);
    }

    /// A host is back.
    pub(crate) fn host_up(&mut self, host: HostId) {
        self.capacity_milli += 1000 * self.healthy[host.index()].count();
        self.free[host.index()] = self.healthy[host.index()];
        self.fragmentation.set(host, self.healthy[host.index()].count());
    }

    /// GPUs that there are.
    pub(crate) fn capacity(&self) -> f64 {
        self.capacity_milli as f64 / 1000.0
    }

    /// GPUs that are held, shares as parts.
    pub(crate) fn busy(&self) -> f64 {
        self.busy_milli as f64 / 1000.0
    }

    /// Thousandths that nobody holds.
    pub(crate) fn idle_milli(&self) -> usize {
        self.capacity_milli - self.busy_milli
    }

    /// How the hosts stand; nothing once GPUs were only counted.
    pub(crate) fn standing(&mut self) -> Option<Standing> {
        (!self.counted).then(|| self.fragmentation.standing())
    }

    pub(crate) fn running(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn claim(&mut self, job: JobId, grant: Grant, shape: &Shape) -> Result<(), Broken> {
        let (given_milli, asked_milli) = (grant.total_milli(), shape.total_milli());
        if given_milli != asked_milli {
            return Err(Broken::OtherCount { job: job.0, asked_milli, given_milli });
        }
        self.busy_milli += asked_milli;
        if self.busy_milli > self.capacity_milli {
            let (busy, capacity) = (self.busy(), self.capacity());
            return Err(Broken::TooMany { busy, capacity });
        }
        let twice = Broken::Twice { job: job.0 };
        match &grant {
            Grant::Gpus(placement) => {
                for (host, mask) in placement.shares() {
                    let free = self.free.get_mut(host.index()).ok_or_else(|| twice.clone())?;
                    if !mask.is_subset_of(*free) {
                        return Err(twice);
                    }
                    *free = free.without(*mask);
                    self.fragmentation.take(*host, mask.count(), shape.instance_gpus as usize);
                }
            }
            Grant::Share { host, gpu, milli } => self.claim_share(job, (*host, *gpu), *milli)?,
            Grant::Count(_) | Grant::Part(_) => self.counted = true,
        }
        match self.held.insert(job, grant) {
            None => Ok(()),
            Some(_) => Err(twice),
        }
    }

    fn claim_share(&mut self, job: JobId, at: (HostId, usize), milli: u16) -> Result<(), Broken> {
        if let Some(taken) = self.shared.get_mut(&at) {
            *taken += milli;
            let milli = *taken;
            return if milli > 1000 { Err(Broken::Overfull { job: job.0, milli }) } else { Ok(()) };
        }
        let free = self.free.get_mut(at.0.index());
        let free = free.filter(|free| free.contains(at.1)).ok_or(Broken::Twice { job: job.0 })?;
        *free = free.without(GpuMask::single(at.1));
        self.shared.insert(at, milli);
        self.fragmentation.take(at.0, 1, 1);
        Ok(())
    }

    pub(crate) fn release(&mut self, job: JobId, shape: &Shape) -> Result<Grant, Broken> {
        let grant = self.held.remove(&job).ok_or(Broken::NotRunning { job: job.0 })?;
        self.busy_milli -= grant.total_milli();
        match &grant {
            Grant::Gpus(placement) => {
                for (host, mask) in placement.shares() {
                    let free = &mut self.free[host.index()];
                    *free = free.union(*mask);
                    self.fragmentation.give(*host, mask.count(), shape.instance_gpus as usize);
                }
            }
            Grant::Share { host, gpu, milli } => {
                let left = self.shared.get(&(*host, *gpu)).map_or(0, |taken| taken - milli);
                if left > 0 {
                    self.shared.insert((*host, *gpu), left);
                } else {
                    self.shared.remove(&(*host, *gpu));
                    let free = &mut self.free[host.index()];
                    *free = free.union(GpuMask::single(*gpu));
                    self.fragmentation.give(*host, 1, 1);
                }
            }
            Grant::Count(_) | Grant::Part(_) => {}
        }
        Ok(grant)
    }
}
