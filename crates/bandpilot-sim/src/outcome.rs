//! What a run gives.

use crate::fragmentation::Standing;
use crate::ids::JobId;
use crate::policy::NeedsNetwork;
use crate::scheduler::WrongEvent;
use crate::truth::Truth;
use serde::{Deserialize, Serialize};

/// A run that breaks a law of conservation has no result: a mistake in a unit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Broken {
    /// A GPU in two grants, or one that does not exist.
    #[error("job {job} was given a GPU that is not free")]
    Twice {
        /// The job.
        job: u32,
    },
    /// More GPUs held than there are.
    #[error("{busy} of {capacity} GPUs are held")]
    TooMany {
        /// GPUs held.
        busy: f64,
        /// GPUs that there are.
        capacity: f64,
    },
    /// Another number or share of GPUs than the job asks for.
    #[error("job {job} asks for {asked_milli} thousandths of a GPU and was given {given_milli}")]
    OtherCount {
        /// The job.
        job: u32,
        /// What it asks for.
        asked_milli: usize,
        /// What it was given.
        given_milli: usize,
    },
    /// More than a whole GPU given to those who share it.
    #[error("with job {job} {milli} thousandths of one GPU are held")]
    Overfull {
        /// The job.
        job: u32,
        /// Thousandths held.
        milli: u16,
    },
    /// A job stopped that does not run, or started that is done.
    #[error("job {job} does not run, or is done")]
    NotRunning {
        /// The job.
        job: u32,
    },
    /// Jobs wait for ever.
    #[error("{jobs} jobs wait, and nothing will happen any more")]
    Stuck {
        /// How many.
        jobs: usize,
    },
    /// So many faults that no job finishes any more: they are taken down before they are done, or wait for more hosts than
    /// are ever there at once. This is the setting's fault, not that of a unit.
    #[error("hosts fail so often that {jobs} jobs are never done")]
    NeverDone {
        /// How many.
        jobs: usize,
    },
    /// More or less work was done than there was.
    #[error("{delivered} GPU-seconds of work were done of {asked}")]
    Work {
        /// Work done, GPU-seconds at rate 1.
        delivered: f64,
        /// Work of the jobs that finished.
        asked: f64,
    },
    /// Not broken: whoever looks on had it stopped.
    #[error("the run was stopped")]
    Stopped,
    /// The policy needs bandwidths, and there are none.
    #[error(transparent)]
    NoNetwork(#[from] NeedsNetwork),
    /// The scheduler did not accept an event.
    #[error(transparent)]
    Event(#[from] WrongEvent),
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// When it first had its GPUs; `None` if it was refused.
    pub first_start_s: Option<f64>,
    /// When it was done; `None` if it was refused.
    pub finish_s: Option<f64>,
    /// How long it held its GPUs.
    pub held_s: f64,
    /// How long it worked: what it held its GPUs for less the time in which it only restored its state.
    pub worked_s: f64,
    /// Time of that which others on the network cost it: at its rate alone it would have done its work in so much less.
    pub contention_s: f64,
    /// Hosts that it last had GPUs on; 0 where GPUs were only counted.
    pub hosts: u32,
    /// How often it lost its GPUs to another job and waited again.
    pub preemptions: u32,
    /// How often it went on elsewhere at once.
    pub migrations: u32,
    /// How often a fault took it down.
    pub faults: u32,
    /// Mean of its effective bandwidth over the time that it worked, GB/s (busbw); `None` for one GPU, and where GPUs were
    /// only counted.
    pub busbw_gbytes_per_s: Option<f64>,
}

/// Sums over the time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// GPU-seconds of work that was done (rate x time x GPUs).
    pub work_gpu_s: f64,
    /// GPU-seconds of it that faults undid.
    pub lost_gpu_s: f64,
    /// Time during which jobs waited.
    pub queued_s: f64,
    /// GPU-seconds held during that time.
    pub busy_queued_gpu_s: f64,
    /// GPU-seconds that there were during that time, hosts that were gone left out.
    pub all_queued_gpu_s: f64,
    /// Time during which the first waiting job did not start although as many GPUs as it asks for were idle.
    pub head_blocked_s: f64,
    /// How the hosts stood; `None` where GPUs were only counted.
    pub hosts: Option<HostTotals>,
}

/// Sums of how the hosts stood, over the time from the first submission on.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HostTotals {
    /// All that time.
    pub all_s: f64,
    /// The part of it in which the condition WCC did not hold.
    pub no_wcc_s: f64,
    /// The part in which the fewest hosts, partial or in use, were only known to be no fewer than a bound, and some were beyond it.
    pub bound_s: f64,
    /// Avoidably partial hosts while jobs waited, host-seconds.
    pub avoidable_queued_host_s: f64,
    /// The same as a share of the hosts that were there (SIF), seconds.
    pub sif_queued_s: f64,
    /// The most avoidably partial hosts at any time.
    pub most_avoidable: usize,
    /// Hosts in use beyond the fewest while jobs waited, host-seconds.
    pub lost_queued_host_s: f64,
}

impl HostTotals {
    /// Adds a stretch of time.
    pub(crate) fn add(&mut self, passed_s: f64, queued: bool, standing: &Standing) {
        if passed_s <= 0.0 {
            return;
        }
        let avoidable = standing.avoidable as f64;
        self.all_s += passed_s;
        self.most_avoidable = self.most_avoidable.max(standing.avoidable);
        if standing.bound {
            self.bound_s += passed_s;
        }
        if !standing.is_wide {
            self.no_wcc_s += passed_s;
        }
        if queued {
            self.avoidable_queued_host_s += passed_s * avoidable;
            // With no host left none is partial.
            self.sif_queued_s += passed_s * avoidable / standing.hosts.max(1) as f64;
            self.lost_queued_host_s += passed_s * standing.lost as f64;
        }
    }
}

/// What became of all jobs.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub(crate) truth: Vec<Truth>,
    /// Sums.
    pub totals: Totals,
}

impl Outcome {
    /// One entry a job.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = JobResult> {
        self.truth.iter().map(Truth::result)
    }

    /// What became of one job.
    pub fn job(&self, job: JobId) -> JobResult {
        self.truth[job.index()].result()
    }
}

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        self.totals == other.totals && self.jobs().eq(other.jobs())
    }
}
