//! The mended compaction.

use super::Space;
use super::content::{Kind, slot_width};
use super::index::{Index, weigh};
use crate::Instance;

impl Space {
    /// Until nothing is left to do: fillers to the places that slots leave, orphans to pools, pools into each other, slots together so
    /// that hosts become full or empty.
    ///
    /// Each round has an end, and so have the rounds: slots of mixed hosts never become more, then fillers in open places never fewer, then
    /// orphans never more, then partial pools, then partial slotted hosts, and each step betters the first of these that it touches.
    pub(super) fn compact_repaired(&mut self) {
        loop {
            let before = self.log.len();
            self.refill();
            self.part_mixed();
            self.refill();
            self.house_orphans();
            self.drain_pools();
            self.merge_pairs();
            if self.log.len() == before {
                break;
            }
        }
    }

    /// Fillers go where only fillers may, the orphans first. The host with the fewest open places is filled first.
    fn refill(&mut self) {
        while let Some(to) = Index::least(&self.index.open, 1, |_| true) {
            let orphan = self.orphan().filter(|(from, _)| *from != to);
            let Some((from, filler)) = orphan.or_else(|| self.pool_filler()) else { break };
            self.shift(filler, from, to);
        }
    }

    fn orphan(&self) -> Option<(u32, Instance)> {
        let mut hosts = self.index.orphans.iter();
        hosts.find_map(|node| Some((*node, self.hosts[*node as usize].movable_filler()?)))
    }

    /// Orphans go to pools that have room. They open no empty host: one GPU of a slotted host is worth less.
    fn house_orphans(&mut self) {
        while let Some(to) = Index::least(&self.index.rooms, 1, |_| true) {
            let Some((from, filler)) = self.orphan() else { break };
            self.shift(filler, from, to);
        }
    }

    /// The emptiest pool gives to the fullest one with room, until all but one are full or empty.
    fn drain_pools(&mut self) {
        while let Some((from, filler, to)) = self.pool_step() {
            self.shift(filler, from, to);
        }
    }

    fn pool_step(&self) -> Option<(u32, Instance, u32)> {
        if weigh(&self.index.rooms, |_| 1) < 2 {
            return None;
        }
        let partial = |node: &&u32| self.state[**node as usize].free > 0;
        let mut pools = self.index.fills.iter().flatten().filter(partial);
        pools.find_map(|from| {
            let filler = self.hosts[*from as usize].movable_filler()?;
            let held = |node: u32| self.state[node as usize].used;
            let fuller = |to| to != *from && held(to) >= held(*from);
            let to = Index::least(&self.index.rooms, 1, fuller)?;
            Some((*from, filler, to))
        })
    }

    /// Instances leave hosts that are mixed and partial for slots that other hosts have room for. A mixed host that is full is as good as
    /// any, and no empty host is opened.
    fn part_mixed(&mut self) {
        let mixed: Vec<u32> = self.index.mixed.iter().copied().collect();
        for node in mixed {
            while self.is(node, Kind::Mixed) && self.state[node as usize].free > 0 {
                let anchors = &self.hosts[node as usize].anchors;
                let steps = anchors.iter().filter(|anchor| !anchor.pinned).filter_map(|anchor| {
                    let to = Index::least(&self.index.slotted, slot_width(anchor.gpus), |_| true)?;
                    Some((*anchor, to))
                });
                let step = steps.min_by_key(|(anchor, _)| anchor.gpus);
                let Some((anchor, to)) = step else { break };
                self.shift(anchor, node, to);
            }
        }
    }
}
