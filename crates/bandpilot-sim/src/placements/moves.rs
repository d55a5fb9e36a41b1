//! Running jobs that go on elsewhere.

use crate::idle::Grant;
use crate::ids::JobId;

/// When a rule is asked for moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// The time.
    pub now_s: f64,
    /// Number of waiting jobs.
    pub waiting: usize,
    /// The waiting job that the order would start next, if as many GPUs as it asks for are idle.
    pub blocked: Option<JobId>,
}

/// A running job that goes on elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// All that it holds from then on. May name GPUs that it or another moved job holds now.
    pub to: Grant,
}

/// What a rule wants to be moved, each job at most once: all of it happens at one instant or none of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moves {
    /// The jobs.
    pub moves: Vec<Move>,
    /// The rule wants to be asked again at this time, whatever happens until then.
    pub wake_at_s: Option<f64>,
}
