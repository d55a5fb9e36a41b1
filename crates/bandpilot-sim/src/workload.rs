//! The jobs of a trace as a cluster sees them.

use std::collections::BTreeMap;

use bandpilot_readers::trace_file::{Trace, TraceJob, WordId};

use crate::ids::{JobId, ShapeId};
use crate::jobs::Ask;
use crate::shape::{Hosts, ModelSet, Shape};

/// One job.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Job {
    submit_s: f64,
    duration_s: f64,
    shape: ShapeId,
    priority: i32,
    tenant: u32,
    comm_share: f32,
}

/// Jobs of the trace that are not simulated, and words that are not heeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Jobs without a GPU: they wait for nothing that is looked at here.
    pub without_gpus: usize,
    /// Jobs that ask for parts of several GPUs: each is given whole ones.
    pub shared_gpus: usize,
    /// Jobs that ask for a GPU model where the cluster does not say which it has: any will do.
    pub model_unknown: usize,
}

/// Jobs in order of submission.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    jobs: Vec<Job>,
    shapes: Vec<Shape>,
    /// Positions in the trace.
    of_trace: Vec<u32>,
    /// What was left out.
    pub left_out: LeftOut,
}

impl Workload {
    /// Bytes that each job takes here.
    pub const BYTES_PER_JOB: usize = size_of::<Job>() + size_of::<u32>();

    /// The jobs of a trace. What a job asks for follows from its instances, or else from its total and the largest host
    /// that has a model that it accepts. Models are heeded if the hosts have any of a name.
    pub fn new(trace: &Trace, hosts: &Hosts) -> Self {
        let mut workload = Self::default();
        let mut shapes: BTreeMap<Shape, ShapeId> = BTreeMap::new();
        let models: BTreeMap<WordId, ModelSet> =
            trace.words().map(|(id, word)| (id, hosts.models_named(word))).collect();
        for (at, job) in (0..).zip(&trace.jobs) {
            if job.gpus == 0 {
                workload.left_out.without_gpus += 1;
                continue;
            }
            workload.left_out.shared_gpus += usize::from(job.gpu_milli < 1000 && job.gpus > 1);
            let mut accepted = models.get(&job.gpu_type).copied().unwrap_or(ModelSet::ANY);
            if accepted != ModelSet::ANY && !hosts.models_known() {
                workload.left_out.model_unknown += 1;
                accepted = ModelSet::ANY;
            }
            let shape = shape(job, accepted, hosts);
            let next = ShapeId(workload.shapes.len() as u32);
            let id = *shapes.entry(shape).or_insert(next);
            if id == next {
                workload.shapes.push(shape);
            }
            workload.of_trace.push(at);
            workload.jobs.push(Job {
                submit_s: job.submit_s,
                duration_s: job.duration_s,
                shape: id,
                priority: job.priority.unwrap_or(0),
                tenant: job.tenant.0,
                comm_share: job.comm_share.unwrap_or(0.0) as f32,
            });
        }
        workload
    }

    /// Number of jobs.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The position of a job in the trace.
    pub fn of_trace(&self, job: JobId) -> usize {
        self.of_trace[job.index()] as usize
    }

    /// When it is submitted.
    pub fn submit_s(&self, job: JobId) -> f64 {
        self.jobs[job.index()].submit_s
    }

    /// Its work, seconds at rate 1.
    pub fn duration_s(&self, job: JobId) -> f64 {
        self.jobs[job.index()].duration_s
    }

    /// Share of its steps that is communication.
    pub fn comm_share(&self, job: JobId) -> f64 {
        f64::from(self.jobs[job.index()].comm_share)
    }

    /// The GPUs that it asks for.
    pub fn shape(&self, job: JobId) -> &Shape {
        &self.shapes[self.jobs[job.index()].shape.index()]
    }

    /// What is said of it when it is submitted: durations are known.
    pub fn ask(&self, job: JobId) -> Ask {
        let Job { duration_s, priority, tenant, comm_share, .. } = self.jobs[job.index()];
        Ask { shape: *self.shape(job), estimate_s: duration_s, priority, tenant, comm_share }
    }
}

fn shape(job: &TraceJob, models: ModelSet, hosts: &Hosts) -> Shape {
    let shape = match job.gpus_per_instance {
        _ if job.gpus == 1 && job.gpu_milli < 1000 => Shape::of_share(job.gpu_milli),
        Some(size) => Shape::of_instances(job.gpus, size),
        // No host of such a model: the job is refused whatever its instances are.
        None => Shape::of_total(job.gpus, hosts.largest(models).max(1)),
    };
    shape.on(models)
}
