//! Shortest remaining time first, with preemption.

use super::queue::Queue;
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
    /// Work left and id of the running jobs, sorted.
    running: Vec<(u64, JobId)>,
    lost: Vec<JobId>,
}

/// Where a plan is in the list of running jobs.
struct Cursor {
    /// Those before have had their turn.
    at: usize,
    /// Those from here on are suspended, unless they have had their turn.
    tail: usize,
    /// GPUs of those between.
    later_gpus: usize,
}

impl Srtf {
    /// Tries to start a job, if need be on GPUs of running jobs whose turn comes later.
    fn start(&self, job: JobId, cursor: &mut Cursor, desk: &mut Desk<'_>) -> bool {
        if desk.start(job) {
            return true;
        }
        if desk.jobs().gpus(job) > desk.idle_gpus() + cursor.later_gpus {
            return false;
        }
        let (tail, later_gpus) = (cursor.tail, cursor.later_gpus);
        while cursor.tail > cursor.at {
            cursor.tail -= 1;
            let (_, last) = self.running[cursor.tail];
            desk.suspend(last);
            cursor.later_gpus -= desk.jobs().gpus(last);
            if desk.start(job) {
                return true;
            }
        }
        for (_, suspended) in &self.running[cursor.tail..tail] {
            desk.resume(*suspended);
        }
        (cursor.tail, cursor.later_gpus) = (tail, later_gpus);
        false
    }

    /// The turn of the running job at the cursor.
    fn turn(&mut self, cursor: &mut Cursor, desk: &mut Desk<'_>) {
        let (_, job) = self.running[cursor.at];
        cursor.at += 1;
        if cursor.at <= cursor.tail {
            cursor.later_gpus -= desk.jobs().gpus(job);
        } else if !desk.resume(job) && !self.start(job, cursor, desk) {
            self.lost.push(job);
        }
    }
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
        self.running.clear();
        self.running.extend(desk.jobs().running().map(|(job, _)| (left(job), job)));
        self.running.sort_unstable();
        self.shapes.clear();
        self.shapes.extend(self.queue.shapes());
        let held = self.running.iter().map(|(_, job)| desk.jobs().gpus(*job)).sum();
        let mut cursor = Cursor { at: 0, tail: self.running.len(), later_gpus: held };
        while let Some((left, job, at)) = self.queue.first_of(&self.shapes) {
            if self.running.get(cursor.at).is_some_and(|first| *first < (left, job)) {
                self.turn(&mut cursor, desk);
            } else if self.start(job, &mut cursor, desk) {
                self.queue.pop(self.shapes[at]);
            } else {
                self.shapes.swap_remove(at);
            }
        }
        // Nobody is left who could take GPUs from those between.
        cursor.at = cursor.at.max(cursor.tail);
        while cursor.at < self.running.len() {
            self.turn(&mut cursor, desk);
        }
        for job in std::mem::take(&mut self.lost) {
            self.queue.insert(key(desk.left_s(job)), job, desk.jobs());
        }
    }
}
