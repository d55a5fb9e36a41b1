//! The scheduler: events in, effects out.

use std::collections::BTreeSet;

use bandpilot_core::HostId;

use crate::desk::Desk;
use crate::idle::{Grant, Idle};
use crate::ids::{JobId, ShapeId};
use crate::jobs::{Ask, Jobs};
use crate::orders::Order;
use crate::placements::{self, PlacementRule, Room};
use crate::shape::Hosts;

/// A rule may move jobs so often in one plan; the order plans after each time.
const MOST_MOVE_ROUNDS: usize = 32;

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A job was submitted. Ids are given in order: 0, 1, 2, ...
    Submit {
        /// Its id.
        job: JobId,
        /// What it asks for.
        ask: Ask,
    },
    /// A running job is done.
    Finish {
        /// The job.
        job: JobId,
    },
    /// A running job goes on at another rate. This alone is no cause to plan.
    Rate {
        /// The job.
        job: JobId,
        /// Work a second, above 0; 1 is the speed that estimates are for.
        rate: f64,
    },
    /// A job that has just started does nothing before a later time, because it must restore its state first. This alone is no
    /// cause to plan.
    Pause {
        /// The job.
        job: JobId,
        /// When it begins to work.
        until_s: f64,
    },
    /// A running job was taken down by a fault; it waits again.
    Fail {
        /// The job.
        job: JobId,
        /// Work that is lost, seconds at rate 1.
        lost_s: f64,
    },
    /// A host is gone. Its jobs have failed before.
    HostDown {
        /// The host.
        host: HostId,
    },
    /// A host is back, with its healthy GPUs idle.
    HostUp {
        /// The host.
        host: HostId,
    },
    /// A time that was asked for has come.
    Wake,
}

/// What is to be done about it, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// The job can never start: it would not fit on an idle cluster.
    Refuse {
        /// The job.
        job: JobId,
    },
    /// The job must stop; what it has done is kept, and it waits again.
    Preempt {
        /// The job.
        job: JobId,
    },
    /// The job starts, or goes on.
    Start {
        /// The job.
        job: JobId,
        /// What it holds from now on.
        grant: Grant,
    },
    /// Send [`Event::Wake`] at this time.
    WakeAt {
        /// The time, later than now.
        at_s: f64,
    },
}

/// An event that cannot have happened. The events before it have been taken in.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WrongEvent {
    /// Ids must be given in order.
    #[error("job {0} was submitted where job {1} is next")]
    NotNext(u32, u32),
    /// A job that does not run finished or changed its rate.
    #[error("job {0} does not run")]
    NotRunning(u32),
    /// A rate that is no rate.
    #[error("job {0} cannot run at rate {1}")]
    NoRate(u32, f64),
    /// A time or an amount of work that is none.
    #[error("job {0} cannot pause until {1} s or lose {1} s")]
    NoTime(u32, f64),
    /// A host that is gone or unknown, or holds jobs, cannot go.
    #[error("host {0} cannot go: it is gone, unknown, or jobs hold its GPUs")]
    CannotGo(u32),
    /// Only a host that is gone can come back.
    #[error("host {0} was not gone")]
    NotGone(u32),
    /// Time ran backwards, or is no number.
    #[error("time went from {0} s to {1} s")]
    Backwards(f64, f64),
}

/// A policy at work on the hosts of a cluster.
pub struct Scheduler<'a> {
    hosts: Hosts,
    order: Box<dyn Order + 'a>,
    rule: Box<dyn PlacementRule + 'a>,
    jobs: Jobs,
    idle: Idle,
    /// The idle cluster.
    all: Idle,
    /// One entry a shape: does it fit on the idle cluster?
    possible: Vec<bool>,
    gone: BTreeSet<HostId>,
    now_s: f64,
    plan: u64,
    preempted: Vec<Effect>,
    started: Vec<Effect>,
    suspended: Vec<JobId>,
}

impl<'a> Scheduler<'a> {
    /// All healthy GPUs idle, no job.
    pub fn new(
        hosts: Hosts,
        order: Box<dyn Order + 'a>,
        rule: Box<dyn PlacementRule + 'a>,
    ) -> Self {
        let idle = Idle::new(&hosts);
        Self {
            hosts,
            order,
            rule,
            jobs: Jobs::default(),
            all: idle.clone(),
            idle,
            possible: Vec::new(),
            gone: BTreeSet::new(),
            now_s: f64::NEG_INFINITY,
            plan: 0,
            preempted: Vec::new(),
            started: Vec::new(),
            suspended: Vec::new(),
        }
    }

    /// Takes in everything that happened at `now_s`, plans once, and appends what is to be done.
    ///
    /// # Errors
    /// If an event cannot have happened.
    pub fn step(
        &mut self,
        now_s: f64,
        events: &[Event],
        effects: &mut Vec<Effect>,
    ) -> Result<(), WrongEvent> {
        if now_s.is_nan() || now_s < self.now_s {
            return Err(WrongEvent::Backwards(self.now_s, now_s));
        }
        self.now_s = now_s;
        let mut changed = false;
        for event in events {
            changed |= self.take_in(event, effects)?;
        }
        if changed {
            self.plan(effects);
        }
        Ok(())
    }

    /// What the scheduler knows of jobs.
    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The idle GPUs.
    pub fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Number of waiting jobs.
    pub fn waiting(&self) -> usize {
        self.order.waiting()
    }

    /// The waiting job that the order would start next.
    pub fn head(&self) -> Option<JobId> {
        self.order.head()
    }

    /// Takes in one event; true if it is a cause to plan.
    fn take_in(&mut self, event: &Event, effects: &mut Vec<Effect>) -> Result<bool, WrongEvent> {
        match event {
            Event::Submit { job, ask } => {
                let next = self.jobs.len() as u32;
                if job.0 != next {
                    return Err(WrongEvent::NotNext(job.0, next));
                }
                let shape = self.jobs.intern(ask.shape);
                self.jobs.submit(self.now_s, ask, shape);
                if !self.is_possible(shape) {
                    effects.push(Effect::Refuse { job: *job });
                    return Ok(false);
                }
                self.order.enqueue(*job, &self.jobs);
                Ok(true)
            }
            Event::Finish { job } => {
                let stopped = self.jobs.stop(self.now_s, *job);
                let run = stopped.ok_or(WrongEvent::NotRunning(job.0))?;
                self.idle.give(&run.grant);
                self.order.stopped(*job, &self.jobs);
                Ok(true)
            }
            Event::Rate { job, rate } => {
                if !(rate.is_finite() && *rate > 0.0) {
                    return Err(WrongEvent::NoRate(job.0, *rate));
                }
                self.jobs.run(*job).ok_or(WrongEvent::NotRunning(job.0))?;
                self.jobs.set_rate(self.now_s, *job, *rate);
                self.order.rate_changed(*job, &self.jobs);
                Ok(false)
            }
            Event::Pause { job, until_s } => {
                if !(until_s.is_finite() && *until_s >= self.now_s) {
                    return Err(WrongEvent::NoTime(job.0, *until_s));
                }
                self.jobs.run(*job).ok_or(WrongEvent::NotRunning(job.0))?;
                self.jobs.pause(*job, *until_s);
                self.order.rate_changed(*job, &self.jobs);
                Ok(false)
            }
            Event::Fail { job, lost_s } => {
                if !(lost_s.is_finite() && *lost_s >= 0.0) {
                    return Err(WrongEvent::NoTime(job.0, *lost_s));
                }
                let stopped = self.jobs.stop(self.now_s, *job);
                let run = stopped.ok_or(WrongEvent::NotRunning(job.0))?;
                self.jobs.lose(*job, *lost_s);
                self.idle.give(&run.grant);
                self.order.stopped(*job, &self.jobs);
                self.order.enqueue(*job, &self.jobs);
                Ok(true)
            }
            Event::HostDown { host } => self.host_down(*host),
            Event::HostUp { host } => {
                if !self.gone.remove(host) {
                    return Err(WrongEvent::NotGone(host.0));
                }
                self.idle.give_on(*host, self.hosts.healthy(*host));
                Ok(true)
            }
            Event::Wake => Ok(true),
        }
    }

    fn host_down(&mut self, host: HostId) -> Result<bool, WrongEvent> {
        let wrong = WrongEvent::CannotGo(host.0);
        if host.index() >= self.hosts.len() || self.gone.contains(&host) {
            return Err(wrong);
        }
        let gpus = self.hosts.healthy(host);
        if gpus.count() > self.idle.total() || !self.idle.take_on(host, gpus) {
            return Err(wrong);
        }
        self.gone.insert(host);
        Ok(true)
    }

    fn is_possible(&mut self, shape: ShapeId) -> bool {
        while self.possible.len() <= shape.index() {
            let asked = *self.jobs.shape(ShapeId(self.possible.len() as u32));
            let room = Room { hosts: &self.hosts, idle: &mut self.all, jobs: &self.jobs };
            let fits = placements::fits(&*self.rule, &asked, &room);
            self.possible.push(fits);
        }
        self.possible[shape.index()]
    }

    fn plan(&mut self, effects: &mut Vec<Effect>) {
        self.plan += 1;
        let mut desk = Desk {
            now_s: self.now_s,
            plan: self.plan,
            hosts: &self.hosts,
            jobs: &mut self.jobs,
            idle: &mut self.idle,
            rule: &mut *self.rule,
            preempted: &mut self.preempted,
            started: &mut self.started,
            suspended: &mut self.suspended,
            wake_at_s: None,
        };
        self.order.plan(&mut desk);
        for _ in 0..MOST_MOVE_ROUNDS {
            let moved = desk.let_rule_move(self.order.head(), self.order.waiting());
            if moved.is_empty() {
                break;
            }
            for job in moved {
                // It goes on at rate 1 until it is said to be another.
                self.order.rate_changed(job, desk.jobs());
            }
            self.order.plan(&mut desk);
        }
        let wake_at_s = desk.finish();
        effects.append(&mut self.preempted);
        effects.append(&mut self.started);
        effects.extend(wake_at_s.map(|at_s| Effect::WakeAt { at_s }));
    }
}
