//! The paper's compaction.

use std::collections::BTreeSet;

use super::Space;
use super::content::{Kind, slot_width};
use super::index::{Index, weigh};
use crate::Instance;

impl Space {
    /// Drains the emptiest host of each class into the others of the class, as long as there is a partial host less each time.
    pub(super) fn compact_printed(&mut self) {
        while self.drain_emptiest_pool() {}
        let mut width = self.pool.host_gpus / 2;
        while width >= 2 {
            while self.drain_width(width) {}
            width /= 2;
        }
    }

    fn drain_emptiest_pool(&mut self) -> bool {
        self.as_one(|space| {
            if weigh(&space.index.rooms, |_| 1) < 2 {
                return false;
            }
            let with_room = |node: &&u32| space.state[**node as usize].free > 0;
            let Some(from) = space.index.fills.iter().flatten().find(with_room).copied() else {
                return false;
            };
            while let Some(filler) = space.hosts[from as usize].movable_filler() {
                let others = |node| node != from;
                let to = Index::least(&space.index.rooms, 1, others);
                let Some(to) = to else { break };
                space.shift(filler, from, to);
            }
            true
        })
    }

    /// Moves the slots of a width from the emptiest of the hosts that have such to the others of them.
    fn drain_width(&mut self, width: usize) -> bool {
        self.as_one(|space| {
            let has = |node: u32| space.slot_of(node, width).is_some();
            let class = space.index.slotted.iter().flatten().copied().filter(|node| has(*node));
            let class: BTreeSet<u32> = class.collect();
            let emptiest = class.iter().min_by_key(|node| space.state[**node as usize].used);
            let Some(from) = emptiest.copied() else { return false };
            while let Some(anchor) = space.slot_of(from, width) {
                let other = |node| node != from && class.contains(&node);
                let to = Index::least(&space.index.slotted, width, other);
                let Some(to) = to else { return false };
                space.move_slot(anchor, from, to);
            }
            true
        })
    }

    /// An anchor of a width on a slotted host that may move, with what must go along.
    pub(super) fn slot_of(&self, node: u32, width: usize) -> Option<Instance> {
        let host = &self.hosts[node as usize];
        let fixed_fillers = host.has_pinned_filler();
        let mut movable = host.anchors.iter().filter(|anchor| {
            slot_width(anchor.gpus) == width
                && !anchor.pinned
                && (anchor.gpus == width || !fixed_fillers)
        });
        movable.next_back().copied().filter(|_| self.is(node, Kind::Slotted))
    }

    /// Moves an anchor and the fillers that its slot takes along.
    pub(super) fn move_slot(&mut self, anchor: Instance, from: u32, to: u32) {
        let along = self.hosts[from as usize].along(&anchor);
        self.shift(anchor, from, to);
        for _ in 0..along {
            let Some(filler) = self.hosts[from as usize].movable_filler() else { break };
            self.shift(filler, from, to);
        }
    }

    /// Takes steps back that leave as many partial hosts as there were.
    fn as_one(&mut self, steps: impl FnOnce(&mut Self) -> bool) -> bool {
        let (start, before) = (self.log.len(), self.index.partial);
        let progress = steps(self) && self.index.partial < before;
        if !progress {
            self.undo(start);
        }
        progress
    }
}
