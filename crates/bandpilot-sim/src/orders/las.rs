//! Least attained service, in levels.

use super::Order;
use super::levels::{Levels, Service, level_and_place, rank};
use super::queue::Queue;
use super::sweep::{Skipping, Sweep};
use crate::desk::Desk;
use crate::ids::{JobId, ShapeId};
use crate::jobs::Jobs;

/// Places from here on are of waiting jobs, and of those that have sunk since the last pass.
const WAITING: u64 = 1 << 46;
/// The first place behind the waiting jobs.
const BEHIND: u64 = 1 << 47;

/// `las`: discretised two-dimensional least attained service, the rule of Tiresias for jobs of unknown duration (Gu et al., NSDI
/// 2019, section 3.3). The attained service of a job is its GPUs x the time that it has held them, at whatever rate it
/// worked. A job starts on the first level and sinks to the next when it reaches a threshold, in that very moment, never
/// to rise again. Whenever a job arrives, finishes or sinks, all jobs, running or waiting, are gone through level
/// by level; each that fits into what the ones before it have left runs, the others wait.
///
/// On a level jobs stand in a line: who arrives or sinks goes to its end; after each pass those that run stand before those that wait,
/// and otherwise the order stays. So nobody is preempted for a job that has waited on the same level, but for one that
/// waited there when it sank; and who was preempted is the first to go on.
///
/// Lines and default thresholds are those of the public simulator (github.com/SymbioticLab/Tiresias, `dlas_sim_jobs` in
/// `simulator/run_sim.py` for `dlas-gpu`, `queue_limit` in `simulator/jobs.py`). What differs is when jobs sink. There, that is
/// looked at whenever something happens, and the time of the next crossing, which is to be such an occasion, is
/// computed as threshold less *seconds* held, divided by GPUs, instead of threshold less *GPU-seconds* held: a job of several
/// GPUs that has run before may sink late. And times are whole seconds (rounded up under Python 3, down under Python
/// 2). A model of the rule above with these two changes gives the figures of that program (under Python 3) to the digit;
/// see `tests/it/attained.rs`.
#[derive(Debug)]
pub struct Las {
    levels: Levels,
    queue: Queue,
    shapes: Vec<ShapeId>,
    sweep: Sweep,
    /// Kept between plans for its memory.
    moved: Vec<(u64, JobId)>,
    /// The next place behind the running jobs, of whichever level.
    running: u64,
    /// The last place given away before the waiting jobs.
    before: u64,
    /// The next place behind them.
    behind: u64,
}

impl Las {
    /// An empty queue with thresholds in GPU-seconds, ascending: one that is not above the one before is crossed with it. At most
    /// 65,535 of them count.
    pub fn new(thresholds_gpu_s: &[f64]) -> Self {
        Self {
            levels: Levels::new(thresholds_gpu_s, Service::GpuSeconds),
            queue: Queue::default(),
            shapes: Vec::new(),
            sweep: Sweep::default(),
            moved: Vec::new(),
            running: 0,
            before: BEHIND,
            behind: BEHIND,
        }
    }

    /// Books who has stopped and started in a pass.
    fn book(&mut self, desk: &Desk<'_>) {
        // The last one first, so that the first one comes to stand before the others.
        for (old, job) in self.sweep.lost.drain(..).rev() {
            self.levels.stop(job, desk.jobs());
            let (level, place) = level_and_place(old);
            let ran = place < WAITING;
            self.before -= u64::from(ran);
            let key = if ran { rank(level, self.before) } else { old };
            self.queue.insert(key, job, desk.jobs());
        }
        for (key, job) in &self.sweep.started {
            self.levels.start(*job, *key, desk.now_s(), desk.jobs());
        }
    }

    /// Lets those that run stand before those that wait.
    fn line_up(&mut self) {
        let waited = |(key, _): &(u64, JobId)| level_and_place(*key).1 >= WAITING;
        self.moved.clear();
        self.moved.extend(self.levels.running().filter(waited));
        self.moved.sort_unstable();
        for (_, job) in &self.moved {
            self.levels.put(*job, self.running);
            self.running += 1;
        }
    }
}

impl Order for Las {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        let ran = jobs.held_s(job, 0.0) > 0.0;
        self.before -= u64::from(ran);
        let place = if ran { self.before } else { self.behind };
        self.behind += u64::from(!ran);
        self.queue.insert(rank(self.levels.of(job, jobs), place), job, jobs);
    }

    fn stopped(&mut self, job: JobId, jobs: &Jobs) {
        self.levels.stop(job, jobs);
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        while self.levels.sink(desk.now_s(), self.behind, desk.jobs()).is_some() {
            self.behind += 1;
        }
        if self.queue.len() > 0 {
            self.sweep.rank(self.levels.running());
            self.sweep.run(&mut Skipping::new(&mut self.queue, &mut self.shapes), desk);
            self.book(desk);
        }
        self.line_up();
        // While nobody waits it does not matter when jobs sink, only in which order.
        if self.queue.len() > 0
            && let Some(next_s) = self.levels.next_s()
        {
            desk.wake_at(next_s);
        }
    }
}
