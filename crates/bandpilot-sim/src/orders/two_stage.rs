//! Two stages by elapsed time.

use std::collections::BTreeSet;

use super::Order;
use super::levels::{Levels, Service, level_and_place, rank};
use super::sweep::{Sweep, Turns};
use crate::desk::Desk;
use crate::ids::JobId;
use crate::jobs::Jobs;

/// `two-stage`: every job starts in the first stage; one that has held its GPUs for theta seconds goes to the second, in that
/// very moment, so short jobs never wait behind long ones (Yildiz, Rolich and Baiocchi, arXiv 2505.03032). Only elapsed
/// time is looked at, which is what a live cluster knows.
///
/// In each stage jobs start in order of arrival, and while the first waiting one does not fit nobody behind it starts. The first stage
/// goes first: the second has the GPUs that the first leaves, and gives them back when the first needs them. It uses them also while a
/// job of the first stage waits for more than there is. A job that comes to the second stage may have to give its GPUs to
/// one that arrived before it. The paper gives each stage its own servers instead; its order within a stage is the same.
///
/// Jobs of the first stage are not preempted and cross in order of arrival, so order of arrival is also the order in which they come to
/// the second stage.
#[derive(Debug)]
pub struct TwoStage {
    levels: Levels,
    queue: BTreeSet<(u64, JobId)>,
    sweep: Sweep,
}

impl TwoStage {
    /// An empty queue; with an infinite `theta_s` there is one stage only, and the order is `fifo`.
    pub fn new(theta_s: f64) -> Self {
        Self {
            levels: Levels::new(&[theta_s], Service::Seconds),
            queue: BTreeSet::new(),
            sweep: Sweep::default(),
        }
    }
}

/// Turns by stage: what does not fit blocks the rest of its stage.
struct Blocking<'a> {
    queue: &'a mut BTreeSet<(u64, JobId)>,
    stage: u16,
}

impl Turns for Blocking<'_> {
    fn next(&mut self) -> Option<(u64, JobId)> {
        let first = self.queue.range((rank(self.stage, 0), JobId(0))..).next().copied()?;
        self.stage = level_and_place(first.0).0;
        Some(first)
    }

    fn started(&mut self, turn: (u64, JobId)) {
        self.queue.remove(&turn);
    }

    fn passed_over(&mut self, _turn: (u64, JobId)) {
        self.stage += 1;
    }

    fn lost(&mut self, (key, _): (u64, JobId)) {
        self.stage = self.stage.max(level_and_place(key).0 + 1);
    }
}

impl Order for TwoStage {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        self.queue.insert((rank(self.levels.of(job, jobs), 0), job));
    }

    fn stopped(&mut self, job: JobId, jobs: &Jobs) {
        self.levels.stop(job, jobs);
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first().map(|(_, job)| *job)
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        while self.levels.sink(desk.now_s(), 0, desk.jobs()).is_some() {}
        if self.queue.is_empty() {
            return;
        }
        self.sweep.rank(self.levels.running());
        self.sweep.run(&mut Blocking { queue: &mut self.queue, stage: 0 }, desk);
        for (key, job) in self.sweep.lost.drain(..) {
            self.levels.stop(job, desk.jobs());
            self.queue.insert((key, job));
        }
        for (key, job) in &self.sweep.started {
            self.levels.start(*job, *key, desk.now_s(), desk.jobs());
        }
        if !self.queue.is_empty()
            && let Some(next_s) = self.levels.next_s()
        {
            desk.wake_at(next_s);
        }
    }
}
