//! Moves.

use std::collections::BTreeMap;

use bandpilot_core::HostId;

use super::Space;
use crate::Instance;

/// An instance goes on elsewhere. The shifts of one answer belong together: all the jobs are stopped, then all go on, so that a host
/// may be left and entered by the same answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shift {
    /// The job.
    pub job: u32,
    /// GPUs of the instance.
    pub gpus: usize,
    /// Where it is.
    pub from: HostId,
    /// Where it goes.
    pub to: HostId,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) instance: Instance,
    /// `None` if it was placed.
    pub(super) from: Option<u32>,
    pub(super) to: u32,
}

impl Space {
    pub(super) fn shift(&mut self, instance: Instance, from: u32, to: u32) {
        self.take(from, instance);
        self.put(to, instance);
        self.log.push(Step { instance, from: Some(from), to });
    }

    pub(super) fn enter(&mut self, instance: Instance, to: u32) {
        self.put(to, instance);
        self.log.push(Step { instance, from: None, to });
    }

    /// Takes back all steps since there were so many.
    pub(super) fn undo(&mut self, steps: usize) {
        for step in self.log.split_off(steps).into_iter().rev() {
            self.take(step.to, step.instance);
            if let Some(from) = step.from {
                self.put(from, step.instance);
            }
        }
    }

    /// What all steps since the last time come to. Instances of a job that are alike stand in for each other; those that were placed
    /// since are left out.
    pub(super) fn settle(&mut self) -> Vec<Shift> {
        let shifts = self.net();
        self.log.clear();
        shifts
    }

    pub(super) fn net(&self) -> Vec<Shift> {
        let mut ends: BTreeMap<(u32, usize), (Vec<u32>, Vec<u32>)> = BTreeMap::new();
        for step in &self.log {
            let (left, entered) = ends.entry((step.instance.job, step.instance.gpus)).or_default();
            left.extend(step.from);
            entered.push(step.to);
        }
        let mut shifts = Vec::new();
        for ((job, gpus), (mut left, mut entered)) in ends {
            left.sort_unstable();
            entered.sort_unstable();
            let placed = left.len() < entered.len();
            if placed {
                continue;
            }
            let left_only = without(&left, &entered);
            let entered_only = without(&entered, &left);
            let host = |node: u32| self.ids[node as usize];
            let pairs = left_only.into_iter().zip(entered_only);
            shifts.extend(pairs.map(|(from, to)| Shift {
                job,
                gpus,
                from: host(from),
                to: host(to),
            }));
        }
        shifts
    }
}

/// What is left of one sorted list without another one, as multisets.
fn without(list: &[u32], other: &[u32]) -> Vec<u32> {
    let mut other = other.iter().peekable();
    let rest = list.iter().filter(|node| {
        while other.next_if(|next| next < node).is_some() {}
        other.next_if_eq(node).is_none()
    });
    rest.copied().collect()
}
