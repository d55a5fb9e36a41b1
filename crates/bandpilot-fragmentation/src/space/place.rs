//! Where instances go.

use bandpilot_core::HostId;

use super::content::{Kind, slot_width};
use super::index::{Index, weigh};
use super::{Gang, Space};
use crate::Instance;

impl Space {
    /// True if the space has places for all instances of a gang as it is, moving nothing. Looks at no single host, unless one of the
    /// instances is smaller: then it is tried on a copy.
    pub fn admits(&self, gang: &Gang) -> bool {
        // Orphans may take what an anchor leaves of its slot, so that a smaller instance cannot be told by numbers of hosts.
        let tried = |mut copy: Self| copy.place(gang).is_some();
        self.may_admit(gang) && (gang.rest == 0 || gang.gpus == 1 || tried(self.clone()))
    }

    /// False only if there are too few places; exact where no instance is smaller.
    pub(super) fn may_admit(&self, gang: &Gang) -> bool {
        if gang.sizes().any(|gpus| gpus == 0) {
            return false;
        }
        if gang.gpus == 1 {
            return self.filler_places() >= gang.instances + gang.rest;
        }
        self.slots(slot_width(gang.gpus)) >= gang.instances
    }

    /// Places for instances of one GPU.
    fn filler_places(&self) -> usize {
        let index = &self.index;
        let open = weigh(&index.open, |open| open);
        open + weigh(&index.rooms, |room| room) + weigh(&index.empty, |cells| cells)
    }

    /// Slots of a width that could be opened.
    fn slots(&self, width: usize) -> usize {
        let slotted = weigh(&self.index.slotted, |residual| residual / width);
        slotted + weigh(&self.index.empty, |cells| (cells & !1) / width)
    }

    /// Places a gang and moves nothing; `None`, and nothing is changed, if it is not admitted.
    pub fn place(&mut self, gang: &Gang) -> Option<Vec<(HostId, usize)>> {
        if !self.may_admit(gang) {
            return None;
        }
        let start = self.log.len();
        let placed = gang.sizes().all(|gpus| {
            let place = self.place_of(gpus, |_| true);
            place.inspect(|node| self.enter(new(gang, gpus), *node)).is_some()
        });
        self.hand_over(gang, start, placed)
    }

    /// Places a gang wherever it fits, in the space's places as far as there are any, else where the fewest GPUs are left. Hosts may become
    /// mixed. `None`, and nothing is changed, if it fits nowhere.
    pub fn place_off_space(&mut self, gang: &Gang) -> Option<Vec<(HostId, usize)>> {
        if let Some(placed) = self.place(gang) {
            return Some(placed);
        }
        let start = self.log.len();
        let placed = self.physically_fits(gang)
            && gang.sizes().all(|gpus| {
                // The tightest host of all: a host that is left for the space's sake may be the last that takes a larger instance.
                let tightest = Index::least(&self.index.free, gpus, |_| true);
                tightest.inspect(|node| self.enter(new(gang, gpus), *node)).is_some()
            });
        self.hand_over(gang, start, placed)
    }

    /// True if all instances of a gang find enough GPUs on some hosts, in slots or not.
    pub fn physically_fits(&self, gang: &Gang) -> bool {
        if gang.sizes().any(|gpus| gpus == 0) {
            return false;
        }
        let full =
            if gang.gpus == 0 { 0 } else { weigh(&self.index.free, |free| free / gang.gpus) };
        // A smaller instance fits into what is left of any host, or takes the place of a full one.
        let rests = |free: usize| free.checked_rem(gang.gpus).unwrap_or(free) >= gang.rest;
        let spare = self
            .index
            .free
            .iter()
            .enumerate()
            .any(|(free, hosts)| !hosts.is_empty() && rests(free));
        full >= gang.instances + usize::from(gang.rest > 0 && !spare)
    }

    fn hand_over(
        &mut self,
        gang: &Gang,
        start: usize,
        placed: bool,
    ) -> Option<Vec<(HostId, usize)>> {
        if placed {
            self.log.truncate(start);
            return Some(self.of_job(gang.job).collect());
        }
        self.undo(start);
        None
    }

    /// Takes a job out; false if it is not there.
    pub fn remove(&mut self, job: u32) -> bool {
        let Some(places) = self.jobs.remove(&job) else { return false };
        for (node, instance) in places {
            if self.hosts[node as usize].take(instance) {
                self.renew(node);
            }
        }
        true
    }

    /// The host for an instance by the space's rules.
    pub(super) fn place_of(&self, gpus: usize, will_do: impl Fn(u32) -> bool) -> Option<u32> {
        if gpus == 1 {
            return self.filler_place(&will_do);
        }
        let width = slot_width(gpus);
        let slotted = Index::least(&self.index.slotted, width, &will_do);
        slotted.or_else(|| {
            let wide = |node| self.hosts[node as usize].slot_cells() >= width;
            Index::least(&self.index.empty, width, |node| wide(node) && will_do(node))
        })
    }

    fn filler_place(&self, will_do: &impl Fn(u32) -> bool) -> Option<u32> {
        let open = Index::least(&self.index.open, 1, will_do);
        let pool = open.or_else(|| Index::least(&self.index.rooms, 1, will_do));
        pool.or_else(|| Index::least(&self.index.empty, 1, will_do))
    }

    /// Moves fillers from pools, the emptiest first, into the places that a host has open.
    pub(super) fn pull(&mut self, node: u32) {
        for _ in 0..self.state[node as usize].open {
            let Some((from, filler)) = self.pool_filler() else { break };
            self.shift(filler, from, node);
        }
    }

    /// A filler of the emptiest pool that has one which may move.
    pub(super) fn pool_filler(&self) -> Option<(u32, Instance)> {
        let mut pools = self.index.fills.iter().flatten();
        pools.find_map(|node| Some((*node, self.hosts[*node as usize].movable_filler()?)))
    }

    /// True for hosts of this kind.
    pub(super) fn is(&self, node: u32, kind: Kind) -> bool {
        self.state[node as usize].kind == kind
    }
}

pub(super) const fn new(gang: &Gang, gpus: usize) -> Instance {
    Instance { job: gang.job, gpus, pinned: false }
}
