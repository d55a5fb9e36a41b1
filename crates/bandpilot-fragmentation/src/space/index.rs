//! Hosts by how full they are.

use std::collections::BTreeSet;

use super::content::{Content, Fullness, Kind};

type Hosts = BTreeSet<u32>;

/// Hosts in groups, the lowest first in each, so that finding one does not depend on how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Index {
    /// Empty ones by their GPUs.
    pub(super) empty: Vec<Hosts>,
    /// Slotted ones by their residual, where there is one.
    pub(super) slotted: Vec<Hosts>,
    /// Those with open places for fillers by their number.
    pub(super) open: Vec<Hosts>,
    /// Pools by GPUs not held, where there are any.
    pub(super) rooms: Vec<Hosts>,
    /// Pools by GPUs held.
    pub(super) fills: Vec<Hosts>,
    /// All by GPUs not held, where there are any.
    pub(super) free: Vec<Hosts>,
    /// Those with orphans.
    pub(super) orphans: Hosts,
    /// Mixed ones.
    pub(super) mixed: Hosts,
    /// Hosts that are neither empty nor full.
    pub(super) partial: usize,
    /// Hosts that are not empty.
    pub(super) in_use: usize,
    /// GPUs held.
    pub(super) used: usize,
}

impl Index {
    pub(super) fn new(host_gpus: usize) -> Self {
        let groups = || vec![Hosts::new(); host_gpus + 1];
        Self {
            empty: groups(),
            slotted: groups(),
            open: groups(),
            rooms: groups(),
            fills: groups(),
            free: groups(),
            orphans: Hosts::new(),
            mixed: Hosts::new(),
            partial: 0,
            in_use: 0,
            used: 0,
        }
    }

    fn groups(&mut self, content: &Content, now: &Fullness, mut each: impl FnMut(&mut Hosts)) {
        if now.free > 0 {
            each(&mut self.free[now.free]);
        }
        if now.open > 0 {
            each(&mut self.open[now.open]);
        }
        if now.orphans > 0 {
            each(&mut self.orphans);
        }
        match now.kind {
            Kind::Empty => each(&mut self.empty[content.cells]),
            Kind::Mixed => each(&mut self.mixed),
            Kind::Slotted if now.residual > 0 => each(&mut self.slotted[now.residual]),
            Kind::Slotted => {}
            Kind::Pool => {
                each(&mut self.fills[now.used]);
                if now.free > 0 {
                    each(&mut self.rooms[now.free]);
                }
            }
        }
    }

    pub(super) fn insert(&mut self, node: u32, content: &Content, now: &Fullness) {
        self.groups(content, now, |hosts| {
            hosts.insert(node);
        });
        self.partial += usize::from(now.used > 0 && now.free > 0);
        self.in_use += usize::from(now.used > 0);
        self.used += now.used;
    }

    pub(super) fn remove(&mut self, node: u32, content: &Content, now: &Fullness) {
        self.groups(content, now, |hosts| {
            hosts.remove(&node);
        });
        self.partial -= usize::from(now.used > 0 && now.free > 0);
        self.in_use -= usize::from(now.used > 0);
        self.used -= now.used;
    }

    /// The lowest host of the lowest group at or above one, among those that will do.
    pub(super) fn least(
        groups: &[Hosts],
        from: usize,
        mut will_do: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        let groups = groups.iter().skip(from);
        groups.flatten().copied().find(|node| will_do(*node))
    }
}

/// Sum over the groups of their number times what a host in them counts.
pub(super) fn weigh(groups: &[Hosts], each: impl Fn(usize) -> usize) -> usize {
    groups.iter().enumerate().map(|(at, hosts)| hosts.len() * each(at)).sum()
}
