//! How fast jobs run.

use crate::idle::Grant;
use crate::ids::JobId;
use crate::workload::Workload;

/// Says at which rate each running job does its work, 1 being the rate that durations are for. Whatever starts at other than
/// 1, or changes because a neighbour started or stopped, is named in [`changes`](Self::changes).
pub trait Speed {
    /// A job starts, at rate 1 until a change is named.
    fn started(&mut self, job: JobId, grant: &Grant, workload: &Workload);

    /// A job has stopped.
    fn stopped(&mut self, job: JobId, grant: &Grant);

    /// Appends the running jobs whose rate is another one than before, with the new rate (above 0), each at most once.
    fn changes(&mut self, changes: &mut Vec<(JobId, f64)>);
}

/// All jobs run at rate 1, wherever they are.
#[derive(Debug, Default)]
pub struct Steady;

impl Speed for Steady {
    fn started(&mut self, _job: JobId, _grant: &Grant, _workload: &Workload) {}

    fn stopped(&mut self, _job: JobId, _grant: &Grant) {}

    fn changes(&mut self, _changes: &mut Vec<(JobId, f64)>) {}
}
