//! A space that is compacted after every event.

use bandpilot_core::HostId;

use super::content::Kind;
use super::place::new;
use super::{Gang, Rules, Shift, Space};

/// A gang that has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Hosts and sizes of its instances.
    pub hosts: Vec<(HostId, usize)>,
    /// Jobs that go on elsewhere for the space's sake.
    pub shifts: Vec<Shift>,
}

impl Space {
    /// Places a gang, moves fillers into what its anchors leave open, and compacts; `None`, and nothing is changed, if the space has
    /// no places for it.
    pub fn arrive(&mut self, gang: &Gang) -> Option<Arrival> {
        let start = self.log.len();
        if !self.enter_gang(gang) {
            self.undo(start);
            return None;
        }
        let shifts = self.compact();
        Some(Arrival { hosts: self.of_job(gang.job).collect(), shifts })
    }

    fn enter_gang(&mut self, gang: &Gang) -> bool {
        // Fillers that are moved beside an anchor may leave an empty host for the next instance.
        let moves_help = gang.sizes().any(|gpus| gpus > 0 && !gpus.is_power_of_two());
        if !moves_help && !self.may_admit(gang) || gang.sizes().any(|gpus| gpus == 0) {
            return false;
        }
        gang.sizes().all(|gpus| {
            let place = self.place_of(gpus, |_| true);
            place.inspect(|node| {
                self.enter(new(gang, gpus), *node);
                if gpus > 1 {
                    self.pull(*node);
                }
            });
            place.is_some()
        })
    }

    /// Takes a job out, finds the fillers a place that it leaves without one, and compacts.
    pub fn depart(&mut self, job: u32) -> Vec<Shift> {
        let mut nodes: Vec<u32> =
            self.jobs.get(&job).into_iter().flatten().map(|at| at.0).collect();
        nodes.dedup();
        self.remove(job);
        if self.rules == Rules::Printed {
            for node in nodes {
                self.attend(node);
            }
        }
        self.compact()
    }

    /// As printed: fillers of a slot that is gone are placed again, a vacancy that a filler has left is filled from the pools.
    fn attend(&mut self, node: u32) {
        for _ in 0..self.state[node as usize].orphans {
            let Some(filler) = self.hosts[node as usize].movable_filler() else { break };
            let Some(to) = self.place_of(1, |to| to != node) else { break };
            self.shift(filler, node, to);
        }
        if self.is(node, Kind::Slotted) {
            self.pull(node);
        }
    }

    /// What the printed rules do when jobs depart, on all hosts, and their compaction: for a state whose departures are not known one
    /// by one.
    pub fn catch_up(&mut self) -> Vec<Shift> {
        for node in 0..self.hosts.len() as u32 {
            self.attend(node);
        }
        self.compact()
    }

    /// Restores order by the rules of the space; the moves, or none if it is in order.
    pub fn compact(&mut self) -> Vec<Shift> {
        match self.rules {
            Rules::Printed => self.compact_printed(),
            Rules::Repaired => self.compact_repaired(),
        }
        self.settle()
    }
}
