//! Queue orders: who starts next, and who has to stop.

mod easy;
mod line;
mod queue;
mod skip;
mod srtf;
mod strict;

use crate::desk::Desk;
use crate::ids::JobId;
use crate::jobs::Jobs;

pub use easy::Easy;
pub use skip::Skip;
pub use srtf::Srtf;
pub use strict::Strict;

/// A queue order. It holds the waiting jobs.
///
/// What happens outside of a plan is told by the hooks; what [`plan`](Self::plan) does it books itself: a job that it starts it
/// takes from the queue, a job that it leaves suspended it puts back.
pub trait Order {
    /// A job waits: it was submitted, or lost its GPUs outside of a plan.
    fn enqueue(&mut self, job: JobId, jobs: &Jobs);

    /// A job finished, or lost its GPUs outside of a plan.
    fn stopped(&mut self, _job: JobId, _jobs: &Jobs) {}

    /// A running job goes on at another rate.
    fn rate_changed(&mut self, _job: JobId, _jobs: &Jobs) {}

    /// The waiting job that it would start next.
    fn head(&self) -> Option<JobId>;

    /// Number of waiting jobs.
    fn waiting(&self) -> usize;

    /// Something has happened: starts, suspends and resumes jobs.
    fn plan(&mut self, desk: &mut Desk<'_>);
}

/// By what waiting jobs are sorted; ties go by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Arrival.
    Arrival,
    /// Work left, least first.
    WorkLeft,
}

impl By {
    /// The key of a waiting job.
    fn key(self, job: JobId, jobs: &Jobs) -> u64 {
        match self {
            Self::Arrival => 0,
            // It does not run, so what is left does not depend on the time.
            Self::WorkLeft => crate::ids::key(jobs.progress(job).left_at(0.0)),
        }
    }
}
