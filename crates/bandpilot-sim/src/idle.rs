//! Which GPUs nobody holds, and what a job holds.

use bandpilot_core::{GpuMask, HostId, Placement};

use crate::host_set::HostSet;
use crate::shape::{Hosts, ModelSet};

/// What a job holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// So many GPUs, whichever.
    Count(usize),
    /// These GPUs.
    Gpus(Placement),
}

impl Grant {
    /// Number of GPUs.
    pub fn gpus(&self) -> usize {
        match self {
            Self::Count(gpus) => *gpus,
            Self::Gpus(placement) => placement.gpus(),
        }
    }
}

/// The idle GPUs. Hosts are in one set for each GPU model and number of idle GPUs, so that none has to be looked for.
#[derive(Debug, Clone)]
pub struct Idle {
    masks: Vec<GpuMask>,
    models: Vec<u8>,
    /// `sets[model][count]`.
    sets: Vec<Vec<HostSet>>,
    total: usize,
}

impl Idle {
    /// Every healthy GPU.
    pub fn new(hosts: &Hosts) -> Self {
        let most = hosts.largest(ModelSet::ANY) as usize;
        let ids = || (0..hosts.len() as u32).map(HostId);
        let mut sets = vec![vec![HostSet::new(hosts.len()); most + 1]; hosts.models()];
        for host in ids() {
            sets[hosts.model(host)][hosts.healthy(host).count()].insert(host);
        }
        Self {
            masks: ids().map(|host| hosts.healthy(host)).collect(),
            models: ids().map(|host| hosts.model(host) as u8).collect(),
            sets,
            total: hosts.gpus(),
        }
    }

    /// Number of idle GPUs.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Idle GPUs of a host. Grants of [`Grant::Count`] are of no host and do not show here.
    pub fn on(&self, host: HostId) -> GpuMask {
        self.masks[host.index()]
    }

    /// The most GPUs that a host may have idle.
    pub(crate) fn most(&self) -> usize {
        self.sets.first().map_or(0, |counts| counts.len() - 1)
    }

    /// The sets of these models with `count` idle GPUs.
    fn of(&self, models: ModelSet, count: usize) -> impl Iterator<Item = &HostSet> {
        let allowed = self.sets.iter().enumerate().filter(move |(model, _)| models.has(*model));
        allowed.filter_map(move |(_, counts)| counts.get(count))
    }

    /// Number of hosts with exactly `count` idle GPUs.
    pub fn hosts_with(&self, models: ModelSet, count: usize) -> usize {
        self.of(models, count).map(HostSet::len).sum()
    }

    /// The lowest host with exactly `count` idle GPUs.
    pub fn lowest_with(&self, models: ModelSet, count: usize) -> Option<HostId> {
        self.of(models, count).filter_map(HostSet::first).min()
    }

    /// Of the hosts with exactly `count` idle GPUs the `n`-th, model by model.
    pub fn nth_with(&self, models: ModelSet, count: usize, mut n: usize) -> Option<HostId> {
        for set in self.of(models, count) {
            if n < set.len() {
                return set.nth(n);
            }
            n -= set.len();
        }
        None
    }

    /// Takes GPUs of a host; false, and nothing is taken, if one of them is not idle.
    pub fn take_on(&mut self, host: HostId, mask: GpuMask) -> bool {
        let idle = self.masks[host.index()];
        let can = mask.is_subset_of(idle);
        if can {
            self.set(host, idle.without(mask));
        }
        can
    }

    /// Gives GPUs of a host back.
    pub fn give_on(&mut self, host: HostId, mask: GpuMask) {
        self.set(host, self.masks[host.index()].union(mask));
    }

    fn set(&mut self, host: HostId, mask: GpuMask) {
        let before = std::mem::replace(&mut self.masks[host.index()], mask).count();
        let counts = &mut self.sets[usize::from(self.models[host.index()])];
        counts[before].remove(host);
        counts[mask.count()].insert(host);
        self.total = self.total + mask.count() - before;
    }

    /// Takes what a grant names; false, and nothing is taken, if not all of it is idle.
    pub fn take(&mut self, grant: &Grant) -> bool {
        match grant {
            Grant::Count(gpus) => {
                let can = *gpus <= self.total;
                self.total -= if can { *gpus } else { 0 };
                can
            }
            Grant::Gpus(placement) => {
                let shares = placement.shares();
                let can = shares.iter().all(|(host, mask)| mask.is_subset_of(self.on(*host)));
                can && shares.iter().all(|(host, mask)| self.take_on(*host, *mask))
            }
        }
    }

    /// Gives back what a grant names.
    pub fn give(&mut self, grant: &Grant) {
        match grant {
            Grant::Count(gpus) => self.total += gpus,
            Grant::Gpus(placement) => {
                for (host, mask) in placement.shares() {
                    self.give_on(*host, *mask);
                }
            }
        }
    }

    /// The part of a grant that is idle now.
    #[must_use]
    pub fn part_of(&self, grant: &Grant) -> Grant {
        match grant {
            Grant::Count(gpus) => Grant::Count((*gpus).min(self.total)),
            Grant::Gpus(placement) => {
                let shares = placement.shares().iter();
                let idle = shares.map(|(host, mask)| (*host, mask.intersection(self.on(*host))));
                Grant::Gpus(Placement::new(idle))
            }
        }
    }
}
