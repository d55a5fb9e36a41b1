//! What the scheduler knows of jobs.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::Placement;

use crate::idle::Grant;
use crate::ids::{JobId, ShapeId};
use crate::progress::Progress;
use crate::shape::Shape;

/// What is said of a job when it is submitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    /// The GPUs.
    pub shape: Shape,
    /// How long it will run at rate 1, as far as anybody knows, seconds.
    pub estimate_s: f64,
    /// Greater is more important.
    pub priority: i32,
    /// Whose it is.
    pub tenant: u32,
    /// Share of its steps that is communication.
    pub comm_share: f32,
}

/// A job that holds GPUs.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) grant: Grant,
    /// When it was given them, seconds.
    pub(crate) since_s: f64,
    /// Its GPUs are given back for now, within a plan.
    pub(crate) suspended: bool,
    /// Number of the plan that started it.
    pub(crate) plan: u64,
}

/// No slot in the list of running jobs.
const NONE: u32 = u32::MAX;

/// All jobs ever submitted, as arrays with one entry a job, and those that run.
#[derive(Debug, Default)]
pub struct Jobs {
    shapes: Vec<Shape>,
    shape_ids: BTreeMap<Shape, ShapeId>,
    shape: Vec<ShapeId>,
    submit_s: Vec<f64>,
    progress: Vec<Progress>,
    held_s: Vec<f64>,
    priority: Vec<i32>,
    tenant: Vec<u32>,
    comm_share: Vec<f32>,
    slot: Vec<u32>,
    running: Vec<Run>,
    /// Those of the running jobs whose grant spans hosts.
    spanning: BTreeSet<JobId>,
}

impl Jobs {
    /// Bytes that each job takes here, the list of running ones left out.
    pub const BYTES_PER_JOB: usize = size_of::<ShapeId>()
        + 2 * size_of::<f64>()
        + size_of::<Progress>()
        + size_of::<i32>()
        + size_of::<f32>()
        + 2 * size_of::<u32>();

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.shape.len()
    }

    /// True if none was submitted.
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }

    /// Number of different shapes.
    pub fn shapes(&self) -> usize {
        self.shapes.len()
    }

    /// A shape by its id.
    pub fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.index()]
    }

    /// The id of a job's shape.
    pub fn shape_of(&self, job: JobId) -> ShapeId {
        self.shape[job.index()]
    }

    /// GPUs of a job, a share being a part of one.
    pub fn size_gpus(&self, job: JobId) -> f64 {
        self.shape(self.shape_of(job)).size_gpus()
    }

    /// GPUs of a job; a share counts as one.
    pub fn gpus(&self, job: JobId) -> usize {
        self.shape(self.shape_of(job)).gpus()
    }

    /// When it was submitted.
    pub fn submit_s(&self, job: JobId) -> f64 {
        self.submit_s[job.index()]
    }

    /// How far it is, as far as the estimate tells.
    pub fn progress(&self, job: JobId) -> &Progress {
        &self.progress[job.index()]
    }

    /// How long it has held its GPUs until `now_s`, all runs together, seconds. That is its attained service, at whatever
    /// rate it worked; times its GPUs it is in GPU-seconds.
    pub fn held_s(&self, job: JobId, now_s: f64) -> f64 {
        let running = self.run(job).map_or(0.0, |run| now_s - run.since_s);
        self.held_s[job.index()] + running
    }

    /// Its priority.
    pub fn priority(&self, job: JobId) -> i32 {
        self.priority[job.index()]
    }

    /// Whose it is.
    pub fn tenant(&self, job: JobId) -> u32 {
        self.tenant[job.index()]
    }

    /// Share of its steps that is communication.
    pub fn comm_share(&self, job: JobId) -> f32 {
        self.comm_share[job.index()]
    }

    /// The jobs that hold GPUs with what they hold, in an order that only depends on what happened.
    pub fn running(&self) -> impl ExactSizeIterator<Item = (JobId, &Grant)> {
        self.running.iter().map(|run| (run.job, &run.grant))
    }

    /// Those of the running jobs whose GPUs are on several hosts, in order of arrival; suspended ones are left out.
    pub(crate) fn spanning(&self) -> impl Iterator<Item = (JobId, &Placement)> {
        self.spanning.iter().filter_map(|job| match self.run(*job) {
            Some(Run { grant: Grant::Gpus(placement), suspended: false, .. }) => {
                Some((*job, placement))
            }
            _ => None,
        })
    }

    pub(crate) fn intern(&mut self, shape: Shape) -> ShapeId {
        if let Some(id) = self.shape_ids.get(&shape) {
            return *id;
        }
        let id = ShapeId(self.shapes.len() as u32);
        self.shapes.push(shape);
        self.shape_ids.insert(shape, id);
        id
    }

    /// Adds the next job.
    pub(crate) fn submit(&mut self, now_s: f64, ask: &Ask, shape: ShapeId) {
        self.shape.push(shape);
        self.submit_s.push(now_s);
        self.progress.push(Progress::new(ask.estimate_s));
        self.held_s.push(0.0);
        self.priority.push(ask.priority);
        self.tenant.push(ask.tenant);
        self.comm_share.push(ask.comm_share);
        self.slot.push(NONE);
    }

    pub(crate) fn run(&self, job: JobId) -> Option<&Run> {
        let slot = self.slot.get(job.index()).copied().filter(|slot| *slot != NONE)?;
        self.running.get(slot as usize)
    }

    pub(crate) fn run_mut(&mut self, job: JobId) -> Option<&mut Run> {
        let slot = self.slot.get(job.index()).copied().filter(|slot| *slot != NONE)?;
        self.running.get_mut(slot as usize)
    }

    pub(crate) fn start(&mut self, now_s: f64, job: JobId, grant: Grant, plan: u64) {
        self.progress[job.index()].start(now_s);
        self.slot[job.index()] = self.running.len() as u32;
        if matches!(&grant, Grant::Gpus(placement) if placement.is_cross_host()) {
            self.spanning.insert(job);
        }
        self.running.push(Run { job, grant, since_s: now_s, suspended: false, plan });
    }

    pub(crate) fn set_rate(&mut self, now_s: f64, job: JobId, rate: f64) {
        self.progress[job.index()].set_rate(now_s, rate);
    }

    /// A running job does nothing before `until_s`.
    pub(crate) fn pause(&mut self, job: JobId, until_s: f64) {
        self.progress[job.index()].start(until_s);
    }

    /// A job that does not run has lost some of its work.
    pub(crate) fn lose(&mut self, job: JobId, lost_s: f64) {
        self.progress[job.index()].lose(lost_s);
    }

    /// Takes a job from the running ones; `None` if it is not among them.
    pub(crate) fn stop(&mut self, now_s: f64, job: JobId) -> Option<Run> {
        self.run(job)?;
        let slot = std::mem::replace(&mut self.slot[job.index()], NONE);
        self.progress[job.index()].set_rate(now_s, 0.0);
        self.spanning.remove(&job);
        let run = self.running.swap_remove(slot as usize);
        self.held_s[job.index()] += now_s - run.since_s;
        if let Some(moved) = self.running.get(slot as usize) {
            self.slot[moved.job.index()] = slot;
        }
        Some(run)
    }
}
