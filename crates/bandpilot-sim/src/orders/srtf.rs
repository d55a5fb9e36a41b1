//! Shortest remaining time first, with preemption.

use super::queue::Queue;
use super::sweep::{Skipping, Sweep};
use super::{By, Order};
use crate::desk::Desk;
use crate::ids::{JobId, ShapeId, key};
use crate::jobs::Jobs;

/// `srtf`: whenever a job arrives or finishes, all jobs, running or waiting, are gone through by work left, least first,
/// ties by arrival; each that fits into what the ones before it have left runs, the others wait.
///
/// A running job keeps its GPUs if they are left when its turn comes. A waiting job takes idle GPUs; if these do not do,
/// those of running jobs whose turn comes later, the last first, until it fits. A running job whose GPUs are gone when its turn
/// comes is tried elsewhere in the same way, and that too counts as a preemption.
#[derive(Debug, Default)]
pub struct Srtf {
    queue: Queue,
    shapes: Vec<ShapeId>,
    sweep: Sweep,
}

impl Order for Srtf {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        self.queue.insert(By::WorkLeft.key(job, jobs), job, jobs);
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        if self.queue.len() == 0 {
            return;
        }
        let now_s = desk.now_s();
        let left = |job| key(desk.jobs().progress(job).left_at(now_s));
        self.sweep.rank(desk.jobs().running().map(|(job, _)| (left(job), job)));
        self.sweep.run(&mut Skipping::new(&mut self.queue, &mut self.shapes), desk);
        for (left, job) in self.sweep.lost.drain(..) {
            self.queue.insert(left, job, desk.jobs());
        }
    }
}
