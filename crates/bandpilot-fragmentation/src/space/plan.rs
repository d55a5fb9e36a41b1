//! The moves that a goal needs, and no more.
//!
//! The search is greedy: each step is the cheapest one that brings the goal nearer, by emptying a part of one host; where no such step
//! leads there, the whole space is compacted. From what is found all moves are taken back that the goal does not need. So the moves are
//! enough and none is idle, but there may be cheaper ones, and where jobs would have to move in a chain none may be found.

use std::collections::{BTreeMap, BTreeSet};

use super::shifts::Step;
use super::{Gang, Shift, Space};
use crate::Instance;

/// What moves are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// A gang has to fit, in the space or off it.
    Fit(Gang),
    /// There may be so many partial hosts. For N*SIF of at most tau that is tau more than the least number that there must be.
    Partial(usize),
}

/// What moves may cost.
#[derive(Clone, Copy)]
pub struct Price<'a> {
    /// Cost of moving a job, however many of its instances move, by its number and its GPUs. Infinite if it must not move.
    pub of: &'a dyn Fn(u32, usize) -> f64,
    /// The most that all moves together may cost.
    pub most: f64,
}

impl Price<'_> {
    /// Every job costs its GPUs; there is no limit.
    pub const GPUS: Self = Self { of: &|_, gpus| gpus as f64, most: f64::INFINITY };
}

/// Moves that reach a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The moves.
    pub shifts: Vec<Shift>,
    /// The jobs that move, sorted. A job is stopped as a whole, whichever of its instances move.
    pub jobs: Vec<u32>,
    /// GPUs of these jobs, those that stay where they are included.
    pub gpus: usize,
    /// What they cost together.
    pub cost: f64,
    /// Partial hosts before and after.
    pub partial: (usize, usize),
    /// Hosts in use before and after.
    pub in_use: (usize, usize),
}

impl Space {
    /// The moves that reach a goal, none if it is reached; `None` if none were found within the price.
    pub fn plan(&self, goal: &Goal, price: &Price<'_>) -> Option<Plan> {
        let mut trial = self.fixing(price);
        let mut moved = Moved { price, jobs: BTreeSet::new() };
        while !trial.reached(goal) {
            let Some(step) = trial.step_towards(goal, &moved) else { break };
            moved.jobs.extend(step.iter().map(|(instance, ..)| instance.job));
            for (instance, from, to) in step {
                trial.shift(instance, from, to);
            }
        }
        let greedy = trial.reached(goal).then(|| self.plan_of(trial, goal, price)).flatten();
        greedy.or_else(|| {
            let mut trial = self.fixing(price);
            trial.compact_repaired();
            trial.reached(goal).then(|| self.plan_of(trial, goal, price)).flatten()
        })
    }

    /// A copy in which whatever costs too much is pinned.
    fn fixing(&self, price: &Price<'_>) -> Self {
        let mut copy = self.clone();
        copy.log.clear();
        let too_dear = |job: u32| (price.of)(job, self.gpus_of(job)) > price.most;
        let mut fixed: Vec<u32> = self.jobs.keys().copied().filter(|job| too_dear(*job)).collect();
        fixed.sort_unstable();
        for job in fixed {
            for (node, instance) in self.jobs[&job].clone() {
                copy.take(node, instance);
                copy.put(node, Instance { pinned: true, ..instance });
            }
        }
        copy
    }

    /// GPUs of a job.
    pub fn gpus_of(&self, job: u32) -> usize {
        self.of_job(job).map(|(_, gpus)| gpus).sum()
    }

    /// True if nothing need be done for a goal.
    pub fn reached(&self, goal: &Goal) -> bool {
        match goal {
            Goal::Fit(gang) => self.physically_fits(gang),
            Goal::Partial(most) => self.partial() <= *most,
        }
    }

    fn plan_of(&self, mut trial: Self, goal: &Goal, price: &Price<'_>) -> Option<Plan> {
        trial.take_back(goal, price);
        let shifts = trial.net();
        let jobs: BTreeSet<u32> = shifts.iter().map(|shift| shift.job).collect();
        let costs = jobs.iter().map(|job| (price.of)(*job, self.gpus_of(*job)));
        let cost: f64 = costs.sum();
        (cost <= price.most).then(|| Plan {
            gpus: jobs.iter().map(|job| self.gpus_of(*job)).sum(),
            cost,
            partial: (self.partial(), trial.partial()),
            in_use: (self.in_use(), trial.in_use()),
            jobs: jobs.into_iter().collect(),
            shifts,
        })
    }

    /// Puts jobs back where they were, the dearest first, as long as there is room for them and the goal is still reached.
    fn take_back(&mut self, goal: &Goal, price: &Price<'_>) {
        let places: BTreeMap<_, u32> = self.ids.iter().copied().zip(0..).collect();
        let mut jobs: BTreeMap<u32, Vec<Step>> = BTreeMap::new();
        for shift in self.net() {
            let instance = Instance { job: shift.job, gpus: shift.gpus, pinned: false };
            let back = Step { instance, from: Some(places[&shift.to]), to: places[&shift.from] };
            jobs.entry(shift.job).or_default().push(back);
        }
        let cost = |job: u32| (price.of)(job, self.gpus_of(job));
        let mut dearest: Vec<(f64, u32)> = jobs.keys().map(|job| (cost(*job), *job)).collect();
        dearest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, job) in dearest {
            let start = self.log.len();
            let roomy = jobs[&job].iter().all(|step| {
                let room = self.state[step.to as usize].free >= step.instance.gpus;
                if let Some(from) = step.from.filter(|_| room) {
                    self.shift(step.instance, from, step.to);
                }
                room
            });
            if !roomy || !self.reached(goal) {
                self.undo(start);
            }
        }
    }
}

/// Jobs that move already, so that it costs nothing to move more of them.
pub(super) struct Moved<'a> {
    price: &'a Price<'a>,
    jobs: BTreeSet<u32>,
}

impl Moved<'_> {
    /// What it costs to move these instances besides.
    pub(super) fn cost(&self, space: &Space, instances: &[Instance]) -> f64 {
        let mut jobs: Vec<u32> = instances.iter().map(|instance| instance.job).collect();
        jobs.sort_unstable();
        jobs.dedup();
        let new = jobs.into_iter().filter(|job| !self.jobs.contains(job));
        new.map(|job| (self.price.of)(job, space.gpus_of(job))).sum()
    }
}
