//! What an order may do while it plans.

use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::placements::{self, Moment, PlacementRule, Room};
use crate::scheduler::Effect;
use crate::shape::Hosts;

/// What a waiting job will get, and when.
#[derive(Debug, Clone)]
pub struct Reservation {
    job: JobId,
    at_s: f64,
    /// The GPUs that it will get, as things are.
    grant: Grant,
    /// What will be idle then, the job's own GPUs among it.
    then: Idle,
}

impl Reservation {
    /// When it can start, as far as estimates tell.
    pub fn at_s(&self) -> f64 {
        self.at_s
    }
}

/// One plan: changes to who runs where. Nothing becomes an effect before the plan is over.
pub struct Desk<'a> {
    pub(crate) now_s: f64,
    pub(crate) plan: u64,
    pub(crate) hosts: &'a Hosts,
    pub(crate) jobs: &'a mut Jobs,
    pub(crate) idle: &'a mut Idle,
    pub(crate) rule: &'a mut dyn PlacementRule,
    pub(crate) preempted: &'a mut Vec<Effect>,
    pub(crate) started: &'a mut Vec<Effect>,
    pub(crate) suspended: &'a mut Vec<JobId>,
    pub(crate) wake_at_s: Option<f64>,
}

impl Desk<'_> {
    /// The time.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// All jobs.
    pub fn jobs(&self) -> &Jobs {
        self.jobs
    }

    /// Number of idle GPUs.
    pub fn idle_gpus(&self) -> usize {
        self.idle.total()
    }

    /// Work left of a job, seconds.
    pub fn left_s(&self, job: JobId) -> f64 {
        self.jobs.progress(job).left_at(self.now_s)
    }

    /// True if the job could start now.
    pub fn fits(&mut self, job: JobId) -> bool {
        let shape = *self.jobs.shape(self.jobs.shape_of(job));
        let room = Room { hosts: self.hosts, idle: self.idle, jobs: self.jobs };
        placements::fits(self.rule, &shape, &room)
    }

    /// Starts a waiting or suspended job if it fits. A suspended one is preempted and starts anew elsewhere.
    pub fn start(&mut self, job: JobId) -> bool {
        if self.jobs.run(job).is_some_and(|run| !run.suspended) {
            return false;
        }
        let grant = self.place(job);
        grant.is_some_and(|grant| self.commit(job, grant))
    }

    fn commit(&mut self, job: JobId, grant: Grant) -> bool {
        self.take_off(job);
        self.jobs.start(self.now_s, job, grant.clone(), self.plan);
        self.started.push(Effect::Start { job, grant });
        true
    }

    fn place(&mut self, job: JobId) -> Option<Grant> {
        if !self.fits(job) {
            return None;
        }
        let shape = *self.jobs.shape(self.jobs.shape_of(job));
        let mut room = Room { hosts: self.hosts, idle: self.idle, jobs: self.jobs };
        placements::place(self.rule, job, &shape, &mut room)
    }

    /// Ends the run of a suspended job; what this plan itself has started has never been.
    fn take_off(&mut self, job: JobId) {
        match self.jobs.stop(self.now_s, job) {
            Some(run) if run.plan == self.plan => {
                let other = |e: &Effect| !matches!(e, Effect::Start { job: of, .. } if *of == job);
                self.started.retain(other);
            }
            Some(_) => self.preempted.push(Effect::Preempt { job }),
            None => {}
        }
    }

    /// Gives the GPUs of a running job back for now; false if it does not run. If it is neither resumed nor started again
    /// it is preempted when the plan is over.
    pub fn suspend(&mut self, job: JobId) -> bool {
        let Some(run) = self.jobs.run_mut(job).filter(|run| !run.suspended) else { return false };
        run.suspended = true;
        self.idle.give(&run.grant);
        self.suspended.push(job);
        true
    }

    /// Lets a suspended job go on where it was, as if nothing had been; false if its GPUs are taken.
    pub fn resume(&mut self, job: JobId) -> bool {
        let Some(run) = self.jobs.run_mut(job).filter(|run| run.suspended) else { return false };
        let free = self.idle.take(&run.grant);
        run.suspended = !free;
        free
    }

    /// Reserves GPUs that are idle now (some jobs being suspended) for a job at a later time.
    pub fn reserve(&mut self, job: JobId, at_s: f64) -> Option<Reservation> {
        let grant = self.place(job)?;
        self.idle.give(&grant);
        Some(Reservation { job, at_s, grant, then: self.idle.clone() })
    }

    /// Starts a job if that does not delay the one with the reservation: it ends by then, or the other one will fit all
    /// the same. GPUs that are not reserved are tried first.
    pub fn start_beside(&mut self, job: JobId, reservation: &mut Reservation) -> bool {
        if self.left_s(job) <= reservation.at_s - self.now_s {
            return self.start(job);
        }
        let milli = |job| self.jobs.shape(self.jobs.shape_of(job)).total_milli();
        let needed = milli(job) + milli(reservation.job);
        if needed > reservation.then.free_milli() || self.jobs.run(job).is_some() {
            return false;
        }
        if matches!(reservation.grant, Grant::Gpus(_) | Grant::Share { .. }) {
            let withheld = self.idle.part_of(&reservation.grant);
            self.idle.take(&withheld);
            let grant = self.place(job);
            self.idle.give(&withheld);
            if let Some(grant) = grant {
                reservation.then.take(&grant);
                return self.commit(job, grant);
            }
        }
        let Some(grant) = self.place(job) else { return false };
        reservation.then.take(&grant);
        if let Some(elsewhere) = self.place_then(reservation) {
            reservation.grant = elsewhere;
            return self.commit(job, grant);
        }
        reservation.then.give(&grant);
        self.idle.give(&grant);
        false
    }

    /// The GPUs that the job with the reservation can have when its time comes.
    fn place_then(&mut self, reservation: &mut Reservation) -> Option<Grant> {
        let shape = *self.jobs.shape(self.jobs.shape_of(reservation.job));
        let idle = &mut reservation.then;
        let mut room = Room { hosts: self.hosts, idle, jobs: self.jobs };
        if !placements::fits(self.rule, &shape, &room) {
            return None;
        }
        let grant = placements::place(self.rule, reservation.job, &shape, &mut room)?;
        reservation.then.give(&grant);
        Some(grant)
    }

    /// Asks for a [`Wake`](crate::Event::Wake) at a later time; of several in one plan the earliest counts.
    pub fn wake_at(&mut self, at_s: f64) {
        if at_s > self.now_s && at_s.is_finite() {
            self.wake_at_s = Some(self.wake_at_s.map_or(at_s, |before| before.min(at_s)));
        }
    }

    /// Lets the rule move running jobs, after an order has planned; gives the moved ones. Either all that it wants are
    /// moved or none. To the order they run on.
    pub(crate) fn let_rule_move(&mut self, head: Option<JobId>, waiting: usize) -> Vec<JobId> {
        self.settle();
        let blocked = head.filter(|job| self.jobs.gpus(*job) <= self.idle.total());
        let moment = Moment { now_s: self.now_s, waiting, blocked };
        let mut room = Room { hosts: self.hosts, idle: self.idle, jobs: self.jobs };
        let wanted = self.rule.moves(moment, &mut room);
        if let Some(at_s) = wanted.wake_at_s {
            self.wake_at(at_s);
        }
        let moves: Vec<(JobId, Grant)> = wanted.moves.into_iter().map(|m| (m.job, m.to)).collect();
        if !self.take_anew(&moves) {
            return Vec::new();
        }
        let moved = moves.iter().map(|(job, _)| *job).collect();
        for (job, grant) in moves {
            self.commit(job, grant);
        }
        moved
    }

    /// Suspends running jobs and takes other GPUs for them; false, and nothing is changed, if not all can have them.
    fn take_anew(&mut self, moves: &[(JobId, Grant)]) -> bool {
        let suspended = moves.iter().take_while(|(job, _)| self.suspend(*job)).count();
        let mut taken = 0;
        if suspended == moves.len() {
            let can = |(job, grant): &&(JobId, Grant)| {
                grant.gpus() == self.jobs.gpus(*job) && self.idle.take(grant)
            };
            taken = moves.iter().take_while(can).count();
        }
        if taken == moves.len() {
            return true;
        }
        for (_, grant) in &moves[..taken] {
            self.idle.give(grant);
        }
        for (job, _) in &moves[..suspended] {
            self.resume(*job);
        }
        false
    }

    /// Jobs that are still suspended are preempted.
    fn settle(&mut self) {
        for job in std::mem::take(self.suspended) {
            if self.jobs.run(job).is_some_and(|run| run.suspended) {
                self.take_off(job);
            }
        }
    }

    /// Ends the plan.
    pub(crate) fn finish(mut self) -> Option<f64> {
        self.settle();
        self.wake_at_s
    }
}
