//! How fast jobs run.

mod bandwidth;

use bandpilot_core::HostId;

use crate::idle::Grant;
use crate::ids::JobId;
use crate::workload::Workload;

pub use bandwidth::BandwidthSpeed;

/// How a running job gets on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Work a second, above 0; 1 is the speed that durations are for.
    pub rate: f64,
    /// The rate that it would have if nobody else used the network.
    pub alone: f64,
    /// Its effective bandwidth, GB/s (busbw); `None` where there is none to speak of.
    pub busbw_gbytes_per_s: Option<f64>,
}

impl Pace {
    /// Rate 1, of no known bandwidth.
    pub const FULL: Self = Self { rate: 1.0, alone: 1.0, busbw_gbytes_per_s: None };
}

/// Says how each running job gets on. Whatever starts at other than [`Pace::FULL`], or changes because a neighbour started or
/// stopped, is named in [`changes`](Self::changes).
pub trait Speed {
    /// A job starts, at full pace until a change is named.
    fn started(&mut self, job: JobId, grant: &Grant, workload: &Workload);

    /// A job has stopped.
    fn stopped(&mut self, job: JobId, grant: &Grant);

    /// From now on only this share (0..=1) of a host's NICs works.
    fn nics(&mut self, _host: HostId, _share: f64) {}

    /// Appends the running jobs whose pace is another one than before, each at most once.
    fn changes(&mut self, changes: &mut Vec<(JobId, Pace)>);
}

/// All jobs run at full pace, wherever they are.
#[derive(Debug, Default)]
pub struct Steady;

impl Speed for Steady {
    fn started(&mut self, _job: JobId, _grant: &Grant, _workload: &Workload) {}

    fn stopped(&mut self, _job: JobId, _grant: &Grant) {}

    fn changes(&mut self, _changes: &mut Vec<(JobId, Pace)>) {}
}
