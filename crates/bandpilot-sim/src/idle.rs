//! Which GPUs nobody holds, and what a job holds.

use std::collections::{BTreeMap, BTreeSet};

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
    /// So many thousandths of a GPU, whichever.
    Part(u16),
    /// A share of this GPU.
    Share {
        /// The host.
        host: HostId,
        /// Index of the GPU on it.
        gpu: usize,
        /// Thousandths.
        milli: u16,
    },
}

impl Grant {
    /// Number of GPUs; a share counts as one.
    pub fn gpus(&self) -> usize {
        match self {
            Self::Count(gpus) => *gpus,
            Self::Gpus(placement) => placement.gpus(),
            Self::Part(_) | Self::Share { .. } => 1,
        }
    }

    /// Thousandths of a GPU.
    pub fn total_milli(&self) -> usize {
        match self {
            Self::Part(milli) | Self::Share { milli, .. } => usize::from(*milli),
            Self::Count(_) | Self::Gpus(_) => 1000 * self.gpus(),
        }
    }
}

/// A GPU of a host.
type At = (HostId, usize);

/// The idle GPUs, and what is free on those that jobs share. Hosts are in one set for each GPU model and number of idle GPUs,
/// so that none has to be looked for. A GPU with a share taken is not idle.
#[derive(Debug, Clone)]
pub struct Idle {
    masks: Vec<GpuMask>,
    models: Vec<u8>,
    /// `sets[model][count]`.
    sets: Vec<Vec<HostSet>>,
    /// Thousandths (1 to 999) free on shared GPUs.
    shared: BTreeMap<At, u16>,
    /// The same for each model, least first.
    rooms: Vec<BTreeSet<(u16, At)>>,
    /// Thousandths free on all GPUs.
    free_milli: usize,
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
            shared: BTreeMap::new(),
            rooms: vec![BTreeSet::new(); hosts.models()],
            free_milli: 1000 * hosts.gpus(),
        }
    }

    /// Number of idle GPUs; what is free on shared ones is added up and the sum rounded up, so that no job fits that asks for
    /// more.
    pub fn total(&self) -> usize {
        self.free_milli.div_ceil(1000)
    }

    /// Thousandths free on all GPUs.
    pub fn free_milli(&self) -> usize {
        self.free_milli
    }

    /// Thousandths free on a GPU.
    pub fn free_on(&self, host: HostId, gpu: usize) -> u16 {
        let idle = self.on(host).contains(gpu);
        if idle { 1000 } else { self.shared.get(&(host, gpu)).copied().unwrap_or(0) }
    }

    /// The shared GPUs with something free, by host and index.
    pub fn shared(&self) -> impl Iterator<Item = (HostId, usize, u16)> {
        self.shared.iter().map(|((host, gpu), milli)| (*host, *gpu, *milli))
    }

    /// The shared GPUs of a host with something free.
    pub fn shared_on(&self, host: HostId) -> impl Iterator<Item = (usize, u16)> {
        let of_host = self.shared.range((host, 0)..=(host, usize::MAX));
        of_host.map(|((_, gpu), milli)| (*gpu, *milli))
    }

    /// Of the shared GPUs of these models with at least `milli` free those with the least free first, by model.
    pub fn roomy(
        &self,
        models: ModelSet,
        milli: u16,
    ) -> impl Iterator<Item = (u16, HostId, usize)> {
        let allowed = self.rooms.iter().enumerate().filter(move |(model, _)| models.has(*model));
        let enough = allowed.flat_map(move |(_, rooms)| rooms.range((milli, (HostId(0), 0))..));
        enough.map(|(free, (host, gpu))| (*free, *host, *gpu))
    }

    /// The shared GPU of these models with the least free that is enough; among equals the first.
    pub fn tightest_share(&self, models: ModelSet, milli: u16) -> Option<(HostId, usize)> {
        let allowed = self.rooms.iter().enumerate().filter(|(model, _)| models.has(*model));
        let best = allowed.filter_map(|(_, rooms)| rooms.range((milli, (HostId(0), 0))..).next());
        best.min().map(|(_, at)| *at)
    }

    /// True if a share of so many thousandths has room on a shared or an idle GPU.
    pub fn share_fits(&self, models: ModelSet, milli: u16) -> bool {
        let idle = (1..=self.most()).any(|count| self.hosts_with(models, count) > 0);
        idle || self.tightest_share(models, milli).is_some()
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

    /// Index of a host's GPU model.
    pub fn model(&self, host: HostId) -> usize {
        usize::from(self.models[host.index()])
    }

    /// Of the hosts with idle GPUs and nothing free on shared ones the first of each model and number of idle GPUs.
    pub fn first_unshared(&self, models: ModelSet) -> impl Iterator<Item = HostId> {
        let sets = (1..=self.most()).flat_map(move |count| self.of(models, count));
        sets.filter_map(|set| set.iter().find(|host| self.shared_on(*host).next().is_none()))
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
        self.free_milli = self.free_milli + 1000 * mask.count() - 1000 * before;
    }

    /// Takes a share of a GPU; false, and nothing is taken, if less is free there.
    pub fn take_share(&mut self, host: HostId, gpu: usize, milli: u16) -> bool {
        let left = self.free_on(host, gpu).checked_sub(milli);
        if let Some(left) = left {
            self.set_free(host, gpu, left);
        }
        left.is_some()
    }

    /// Gives a share of a GPU back; when the last one is back the GPU is idle.
    pub fn give_share(&mut self, host: HostId, gpu: usize, milli: u16) {
        self.set_free(host, gpu, self.free_on(host, gpu) + milli);
    }

    fn set_free(&mut self, host: HostId, gpu: usize, milli: u16) {
        let (at, mask) = ((host, gpu), GpuMask::single(gpu));
        let rooms = usize::from(self.models[host.index()]);
        if let Some(before) = self.shared.remove(&at) {
            self.rooms[rooms].remove(&(before, at));
            self.free_milli -= usize::from(before);
        }
        let idle = self.on(host);
        match (milli, idle.contains(gpu)) {
            (1000.., false) => self.set(host, idle.union(mask)),
            (..1000, true) => self.set(host, idle.without(mask)),
            _ => {}
        }
        if (1..1000).contains(&milli) {
            self.shared.insert(at, milli);
            self.rooms[rooms].insert((milli, at));
            self.free_milli += usize::from(milli);
        }
    }

    fn take_milli(&mut self, milli: usize) -> bool {
        let can = milli <= self.free_milli;
        self.free_milli -= if can { milli } else { 0 };
        can
    }

    /// Takes what a grant names; false, and nothing is taken, if not all of it is idle.
    pub fn take(&mut self, grant: &Grant) -> bool {
        match grant {
            Grant::Count(_) | Grant::Part(_) => self.take_milli(grant.total_milli()),
            Grant::Share { host, gpu, milli } => self.take_share(*host, *gpu, *milli),
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
            Grant::Count(_) | Grant::Part(_) => self.free_milli += grant.total_milli(),
            Grant::Share { host, gpu, milli } => self.give_share(*host, *gpu, *milli),
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
            Grant::Count(gpus) => Grant::Count((*gpus).min(self.free_milli / 1000)),
            Grant::Part(milli) => Grant::Part((*milli).min(self.free_milli.min(1000) as u16)),
            Grant::Share { host, gpu, milli } => {
                let milli = (*milli).min(self.free_on(*host, *gpu));
                Grant::Share { host: *host, gpu: *gpu, milli }
            }
            Grant::Gpus(placement) => {
                let shares = placement.shares().iter();
                let idle = shares.map(|(host, mask)| (*host, mask.intersection(self.on(*host))));
                Grant::Gpus(Placement::new(idle))
            }
        }
    }
}
