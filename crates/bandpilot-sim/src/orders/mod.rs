//! Queue orders: who starts next, and who has to stop.

mod easy;
mod las;
mod levels;
mod line;
mod queue;
mod skip;
mod srtf;
mod strict;
mod sweep;
mod theta;
mod two_stage;

use crate::desk::Desk;
use crate::ids::JobId;
use crate::jobs::Jobs;

pub use easy::Easy;
pub use las::Las;
pub use skip::Skip;
pub use srtf::Srtf;
pub use strict::Strict;
pub use theta::theta_of_s;
pub use theta::{Length, best_theta_s};
pub use two_stage::TwoStage;

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
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum By {
    /// Arrival.
    Arrival,
    /// Work left, least first.
    WorkLeft,
    /// Priority plus waiting time / `aging_s`, greatest first.
    ///
    /// Waiting jobs age at one speed, so their order never changes: it is that of `submit_s - priority x aging_s`, as if a job
    /// had been submitted earlier by `aging_s` for each level. If that is infinite, or no number above 0, priority alone counts.
    Priority {
        /// Waiting so long raises a job by one level, seconds.
        aging_s: f64,
    },
}

impl By {
    /// The key of a waiting job.
    fn key(self, job: JobId, jobs: &Jobs) -> u64 {
        match self {
            Self::Arrival => 0,
            // It does not run, so what is left does not depend on the time.
            Self::WorkLeft => crate::ids::key(jobs.progress(job).left_at(0.0)),
            Self::Priority { aging_s } => {
                let priority = f64::from(jobs.priority(job));
                let ages = aging_s.is_finite() && aging_s > 0.0;
                // Whole seconds are exact: jobs that are level go by arrival.
                let rank = if ages { jobs.submit_s(job) - priority * aging_s } else { -priority };
                crate::ids::signed_key(rank)
            }
        }
    }
}
