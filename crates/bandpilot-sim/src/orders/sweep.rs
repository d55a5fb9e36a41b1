//! Going through all jobs by rank, with preemption.

use super::queue::Queue;
use crate::desk::Desk;
use crate::ids::{JobId, ShapeId};

/// Waiting jobs in the order of their turns.
pub(super) trait Turns {
    /// The job whose turn is next, with its key.
    fn next(&mut self) -> Option<(u64, JobId)>;

    /// It has started, so it waits no more.
    fn started(&mut self, turn: (u64, JobId));

    /// It does not fit.
    fn passed_over(&mut self, turn: (u64, JobId));

    /// A running job has lost its GPUs to one before it, and waits.
    fn lost(&mut self, _turn: (u64, JobId)) {}
}

/// Turns by shape: what does not fit is passed over with all jobs of its shape.
pub(super) struct Skipping<'a> {
    queue: &'a mut Queue,
    shapes: &'a mut Vec<ShapeId>,
    at: usize,
}

impl<'a> Skipping<'a> {
    pub(super) fn new(queue: &'a mut Queue, shapes: &'a mut Vec<ShapeId>) -> Self {
        shapes.clear();
        shapes.extend(queue.shapes());
        Self { queue, shapes, at: 0 }
    }
}

impl Turns for Skipping<'_> {
    fn next(&mut self) -> Option<(u64, JobId)> {
        let (key, job, at) = self.queue.first_of(self.shapes)?;
        self.at = at;
        Some((key, job))
    }

    fn started(&mut self, _turn: (u64, JobId)) {
        self.queue.pop(self.shapes[self.at]);
    }

    fn passed_over(&mut self, _turn: (u64, JobId)) {
        self.shapes.swap_remove(self.at);
    }
}

/// One pass over all jobs, running or waiting, by key, least first, ties by arrival; each that fits into what the ones before it
/// have left runs, the others wait.
///
/// A running job keeps its GPUs if they are left when its turn comes. A waiting job takes idle GPUs; if these do not do,
/// those of running jobs whose turn comes later, the last first, until it fits. A running job whose GPUs are gone when its turn
/// comes is tried elsewhere in the same way, and that too counts as a preemption.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    /// Running jobs with their keys, sorted.
    running: Vec<(u64, JobId)>,
    /// The jobs that waited and run now, in the order of their turns.
    pub(super) started: Vec<(u64, JobId)>,
    /// The jobs that ran and wait now, in the order of their turns.
    pub(super) lost: Vec<(u64, JobId)>,
}

/// Where a pass is in the list of running jobs.
struct Cursor {
    /// Those before have had their turn.
    at: usize,
    /// Those from here on are suspended, unless they have had their turn.
    tail: usize,
    /// GPUs of those between.
    later_gpus: usize,
}

impl Sweep {
    /// Tells the running jobs and their keys.
    pub(super) fn rank(&mut self, running: impl Iterator<Item = (u64, JobId)>) {
        self.running.clear();
        self.running.extend(running);
        self.running.sort_unstable();
    }

    /// Goes through the running jobs, which have been ranked, and those that wait.
    pub(super) fn run(&mut self, turns: &mut impl Turns, desk: &mut Desk<'_>) {
        self.started.clear();
        self.lost.clear();
        let held = self.running.iter().map(|(_, job)| desk.jobs().gpus(*job)).sum();
        let mut cursor = Cursor { at: 0, tail: self.running.len(), later_gpus: held };
        while let Some(next) = turns.next() {
            if self.running.get(cursor.at).is_some_and(|first| *first < next) {
                if !self.turn(&mut cursor, desk) {
                    turns.lost(self.running[cursor.at - 1]);
                }
            } else if self.start(next.1, &mut cursor, desk) {
                turns.started(next);
                self.started.push(next);
            } else {
                turns.passed_over(next);
            }
        }
        // Nobody is left who could take GPUs from those between.
        cursor.at = cursor.at.max(cursor.tail);
        while cursor.at < self.running.len() {
            self.turn(&mut cursor, desk);
        }
    }

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

    /// The turn of the running job at the cursor; false if it runs no more.
    fn turn(&mut self, cursor: &mut Cursor, desk: &mut Desk<'_>) -> bool {
        let entry = self.running[cursor.at];
        cursor.at += 1;
        if cursor.at <= cursor.tail {
            cursor.later_gpus -= desk.jobs().gpus(entry.1);
            return true;
        }
        let runs = desk.resume(entry.1) || self.start(entry.1, cursor, desk);
        if !runs {
            self.lost.push(entry);
        }
        runs
    }
}
