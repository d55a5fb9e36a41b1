//! What is on one host, and how full that makes it in the space's terms.

use crate::Instance;

/// What a host is in the space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nothing is on it.
    Empty,
    /// Only instances of one GPU are on it.
    Pool,
    /// Every larger instance is the anchor of a slot.
    Slotted,
    /// Its larger instances do not fit into slots side by side, such as 5 + 3 GPUs.
    Mixed,
}

/// How full a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// What it is.
    pub kind: Kind,
    /// GPUs that new slots can have (D); 0 on hosts that are not slotted.
    pub residual: usize,
    /// GPUs that only fillers may have and that none has: what anchors leave of their slots, the odd cell of a host with
    /// broken GPUs, all that is left of a mixed host. 0 on pools.
    pub open: usize,
    /// Fillers beyond those places. They take of the residual.
    pub orphans: usize,
    /// GPUs held.
    pub used: usize,
    /// GPUs not held.
    pub free: usize,
}

/// Width of the slot that an instance is the anchor of.
pub const fn slot_width(gpus: usize) -> usize {
    gpus.next_power_of_two()
}

/// What is on a host as far as it says how full it is.
///
/// ```
/// use bandpilot_fragmentation::space::{Kind, Tally};
///
/// let mut host = Tally::new(8);
/// host.add(3);
/// host.add(1);
/// let now = host.fullness();
/// assert_eq!((now.kind, now.residual, now.open), (Kind::Slotted, 4, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    cells: usize,
    /// GPUs of all slots.
    width: usize,
    /// GPUs of all anchors.
    anchored: usize,
    fillers: usize,
}

impl Tally {
    /// A host with so many GPUs and nothing on it.
    pub const fn new(cells: usize) -> Self {
        Self { cells, width: 0, anchored: 0, fillers: 0 }
    }

    /// One more instance of so many GPUs.
    pub const fn add(&mut self, gpus: usize) {
        if gpus == 1 {
            self.fillers += 1;
        } else if gpus > 1 {
            self.width += slot_width(gpus);
            self.anchored += gpus;
        }
    }

    /// GPUs that slots can have: an odd one is for a filler.
    pub const fn slot_cells(&self) -> usize {
        self.cells & !1
    }

    /// How full it is.
    pub fn fullness(&self) -> Fullness {
        let used = self.anchored + self.fillers;
        let free = self.cells.saturating_sub(used);
        let (mut residual, mut open, mut orphans) = (0, 0, 0);
        let kind = if used == 0 {
            Kind::Empty
        } else if self.width == 0 {
            Kind::Pool
        } else if self.width > self.slot_cells() {
            open = free;
            Kind::Mixed
        } else {
            // Places that are a filler's by right while the slots are what they are.
            let places = self.width - self.anchored + (self.cells & 1);
            open = places.saturating_sub(self.fillers);
            orphans = self.fillers - self.fillers.min(places);
            residual = (self.slot_cells() - self.width).saturating_sub(orphans);
            Kind::Slotted
        };
        Fullness { kind, residual, open, orphans, used, free }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) cells: usize,
    /// Instances of two GPUs and more, sorted.
    pub(super) anchors: Vec<Instance>,
    /// Instances of one GPU, sorted.
    pub(super) fillers: Vec<Instance>,
}

impl Content {
    pub(super) const fn new(cells: usize) -> Self {
        Self { cells, anchors: Vec::new(), fillers: Vec::new() }
    }

    /// GPUs that slots can have.
    pub(super) const fn slot_cells(&self) -> usize {
        Tally::new(self.cells).slot_cells()
    }

    pub(super) fn fullness(&self) -> Fullness {
        let mut tally = Tally::new(self.cells);
        self.all().for_each(|instance| tally.add(instance.gpus));
        tally.fullness()
    }

    /// Fillers that must go along if this anchor leaves, so that there are no more orphans afterwards than now.
    pub(super) fn along(&self, anchor: &Instance) -> usize {
        let now = self.fullness();
        if now.kind != Kind::Slotted {
            return 0;
        }
        let vacancy = slot_width(anchor.gpus) - anchor.gpus;
        vacancy.saturating_sub(now.open)
    }

    pub(super) fn has_pinned_filler(&self) -> bool {
        self.fillers.iter().any(|filler| filler.pinned)
    }

    pub(super) fn movable_filler(&self) -> Option<Instance> {
        self.fillers.iter().rev().find(|filler| !filler.pinned).copied()
    }

    fn list(&mut self, gpus: usize) -> &mut Vec<Instance> {
        if gpus == 1 { &mut self.fillers } else { &mut self.anchors }
    }

    pub(super) fn put(&mut self, instance: Instance) {
        let list = self.list(instance.gpus);
        let at = list.partition_point(|other| *other < instance);
        list.insert(at, instance);
    }

    /// False if it is not here.
    pub(super) fn take(&mut self, instance: Instance) -> bool {
        let list = self.list(instance.gpus);
        let at = list.binary_search(&instance);
        at.map(|at| list.remove(at)).is_ok()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Instance> {
        self.anchors.iter().chain(&self.fillers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fullness(cells: usize, sizes: &[usize]) -> Fullness {
        let mut content = Content::new(cells);
        let jobs = sizes.iter().zip(0..);
        jobs.for_each(|(gpus, job)| content.put(Instance { job, gpus: *gpus, pinned: false }));
        content.fullness()
    }

    #[test]
    fn follows_from_what_is_on_the_host() {
        use Kind::{Empty, Mixed, Pool, Slotted};
        for (cells, sizes, kind, residual, open, orphans) in [
            (8, &[] as &[usize], Empty, 0, 0, 0),
            (8, &[1, 1], Pool, 0, 0, 0),
            (8, &[3], Slotted, 4, 1, 0),
            (8, &[3, 1], Slotted, 4, 0, 0),
            (8, &[4, 1], Slotted, 3, 0, 1),
            (8, &[4, 1, 1, 1, 1], Slotted, 0, 0, 4),
            (8, &[5, 1], Slotted, 0, 2, 0),
            (8, &[5, 3], Mixed, 0, 0, 0),
            (8, &[5, 2], Mixed, 0, 1, 0),
            (8, &[3, 3, 2], Mixed, 0, 0, 0),
            (7, &[4], Slotted, 2, 1, 0),
            (7, &[4, 2, 1], Slotted, 0, 0, 0),
            (7, &[5], Mixed, 0, 2, 0),
            (6, &[4], Slotted, 2, 0, 0),
            (1, &[1], Pool, 0, 0, 0),
            (16, &[8, 3, 1, 1], Slotted, 3, 0, 1),
        ] {
            let found = fullness(cells, sizes);
            let found = (found.kind, found.residual, found.open, found.orphans);
            assert_eq!(found, (kind, residual, open, orphans), "{sizes:?} on {cells}");
        }
    }
}
