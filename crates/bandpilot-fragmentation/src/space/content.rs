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

    /// GPUs that slots can have: an odd cell is for a filler.
    pub(super) const fn slot_cells(&self) -> usize {
        self.cells & !1
    }

    /// GPUs of all slots.
    fn width(&self) -> usize {
        self.anchors.iter().map(|anchor| slot_width(anchor.gpus)).sum()
    }

    /// Places that are a filler's by right while the slots are what they are.
    fn places(&self, width: usize, anchored: usize) -> usize {
        width - anchored + (self.cells & 1)
    }

    pub(super) fn fullness(&self) -> Fullness {
        let anchored: usize = self.anchors.iter().map(|anchor| anchor.gpus).sum();
        let used = anchored + self.fillers.len();
        let free = self.cells.saturating_sub(used);
        let (mut residual, mut open, mut orphans) = (0, 0, 0);
        let width = self.width();
        let kind = if used == 0 {
            Kind::Empty
        } else if self.anchors.is_empty() {
            Kind::Pool
        } else if width > self.slot_cells() {
            open = free;
            Kind::Mixed
        } else {
            let places = self.places(width, anchored);
            open = places.saturating_sub(self.fillers.len());
            orphans = self.fillers.len() - self.fillers.len().min(places);
            residual = self.slot_cells() - width - orphans;
            Kind::Slotted
        };
        Fullness { kind, residual, open, orphans, used, free }
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
