//! What a policy is judged by.

use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::outcome::{JobResult, Outcome, Totals};
use crate::workload::Workload;
use crate::world;
use serde::{Deserialize, Serialize};

/// Figures of one run, over the jobs that finished. The job completion time (JCT) counts from submission to the end.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Metrics {
    /// Jobs that finished.
    pub jobs: usize,
    /// Jobs that would not fit on an idle cluster.
    pub refused: usize,
    /// Mean JCT.
    pub avg_jct_s: f64,
    /// Median JCT: the middle one, or the mean of the middle two.
    pub median_jct_s: f64,
    /// The least JCT that 95 % of the jobs do not exceed.
    pub p95_jct_s: f64,
    /// The least JCT that 99 % of the jobs do not exceed.
    pub p99_jct_s: f64,
    /// Mean of JCT - duration: all that a job is delayed, before it starts, after preemptions and by a lower rate.
    pub avg_wait_s: f64,
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// How often jobs lost their GPUs.
    pub preemptions: u64,
    /// How often jobs went on elsewhere at once.
    pub migrations: u64,
    /// How often faults took jobs down.
    pub faults: u64,
    /// Jobs that have an effective bandwidth: those of two or more GPUs, where GPUs are not only counted.
    pub busbw_jobs: usize,
    /// Mean over those of their mean effective bandwidth, GB/s (busbw).
    pub avg_busbw_gbytes_per_s: Option<f64>,
    /// The greatest effective bandwidth that 95 % of them reach, GB/s (busbw).
    pub p05_busbw_gbytes_per_s: Option<f64>,
    /// Mean over the jobs that span hosts of the time that they worked over the time that they would have without others
    /// on the network, 1 or more; `None` if none does.
    pub contention_slowdown: Option<f64>,
    /// GPU-seconds of work that faults undid.
    pub lost_gpu_s: f64,
    /// Share of the GPUs that was held while jobs waited (AGU); `None` if none ever waited.
    pub busy_while_queued: Option<f64>,
    /// Time during which jobs waited.
    pub queued_s: f64,
    /// Time during which the first waiting job did not start although as many GPUs as it asks for were idle:
    /// the time for which fragmentation blocked it.
    pub head_blocked_s: f64,
    /// Mean share of the hosts that was avoidably partial (SIF) while jobs waited (AFR, 0 to 1); `None` if none ever waited, and, as
    /// all figures of hosts, where GPUs were only counted.
    pub afr: Option<f64>,
    /// Mean number of hosts that were avoidably partial (N*SIF) while jobs waited.
    pub n_sif_mean: Option<f64>,
    /// The most hosts that were avoidably partial at any time.
    pub n_sif_max: Option<usize>,
    /// Mean number of hosts in use beyond the fewest that what runs could be packed on (empty-host loss, ENL) while jobs
    /// waited.
    pub enl_mean: Option<f64>,
    /// Share of the time in which the condition WCC held: 1 only if it always did.
    pub wcc_share: Option<f64>,
    /// Share of the time in which the fewest hosts, partial or in use, were not known, only a number below which they cannot be:
    /// AFR, N*SIF and ENL may be less than is said.
    pub bound_share: Option<f64>,
}

impl Metrics {
    /// Bytes that each job takes during a run: workload, belief of the scheduler, truth, and two entries of
    /// a queue (sorted sets fill their nodes at least half).
    pub const BYTES_PER_JOB: usize = Workload::BYTES_PER_JOB
        + Jobs::BYTES_PER_JOB
        + world::BYTES_PER_JOB
        + 2 * size_of::<(u64, JobId)>();

    /// Sums up a run.
    pub fn new(workload: &Workload, outcome: &Outcome) -> Self {
        let totals = &outcome.totals;
        let mut metrics = Self {
            queued_s: totals.queued_s,
            head_blocked_s: totals.head_blocked_s,
            lost_gpu_s: totals.lost_gpu_s,
            busy_while_queued: (totals.all_queued_gpu_s > 0.0)
                .then(|| totals.busy_queued_gpu_s / totals.all_queued_gpu_s),
            ..Self::default()
        };
        metrics.hosts(totals);
        metrics.times(workload, outcome);
        metrics.bandwidths(outcome);
        metrics
    }

    fn times(&mut self, workload: &Workload, outcome: &Outcome) {
        let mut jct_s: Vec<f64> = Vec::with_capacity(outcome.jobs().len());
        let (mut first_s, mut last_s) = (f64::INFINITY, 0.0_f64);
        for (job, result) in (0..).map(JobId).zip(outcome.jobs()) {
            let Some(finish_s) = result.finish_s else {
                self.refused += 1;
                continue;
            };
            let submit_s = workload.submit_s(job);
            jct_s.push(finish_s - submit_s);
            self.avg_jct_s += finish_s - submit_s;
            self.avg_wait_s += finish_s - submit_s - workload.duration_s(job);
            self.preemptions += u64::from(result.preemptions);
            self.migrations += u64::from(result.migrations);
            self.faults += u64::from(result.faults);
            first_s = first_s.min(submit_s);
            last_s = last_s.max(finish_s);
        }
        self.jobs = jct_s.len();
        if jct_s.is_empty() {
            return;
        }
        let jobs = jct_s.len() as f64;
        self.avg_jct_s /= jobs;
        self.avg_wait_s /= jobs;
        self.makespan_s = last_s - first_s;
        jct_s.sort_unstable_by(f64::total_cmp);
        self.median_jct_s = f64::midpoint(jct_s[(jct_s.len() - 1) / 2], jct_s[jct_s.len() / 2]);
        self.p95_jct_s = nearest_rank(&jct_s, 0.95);
        self.p99_jct_s = nearest_rank(&jct_s, 0.99);
    }

    fn hosts(&mut self, totals: &Totals) {
        let Some(hosts) = totals.hosts.filter(|hosts| hosts.all_s > 0.0) else { return };
        let mean = |sum: f64, time_s: f64| (time_s > 0.0).then(|| sum / time_s);
        self.afr = mean(hosts.sif_queued_s, totals.queued_s);
        self.n_sif_mean = mean(hosts.avoidable_queued_host_s, totals.queued_s);
        self.n_sif_max = Some(hosts.most_avoidable);
        self.enl_mean = mean(hosts.lost_queued_host_s, totals.queued_s);
        self.wcc_share = Some(1.0 - hosts.no_wcc_s / hosts.all_s);
        self.bound_share = Some(hosts.bound_s / hosts.all_s);
    }

    fn bandwidths(&mut self, outcome: &Outcome) {
        let done = || outcome.jobs().filter(|job| job.finish_s.is_some());
        let mut busbw: Vec<f64> = done().filter_map(|job| job.busbw_gbytes_per_s).collect();
        self.busbw_jobs = busbw.len();
        if !busbw.is_empty() {
            self.avg_busbw_gbytes_per_s = Some(busbw.iter().sum::<f64>() / busbw.len() as f64);
            // What 95 % reach is what 5 % do not exceed, seen from the other end.
            busbw.sort_unstable_by(|a, b| b.total_cmp(a));
            self.p05_busbw_gbytes_per_s = Some(nearest_rank(&busbw, 0.95));
        }
        let across = done().filter(|job| job.hosts > 1 && job.worked_s > 0.0);
        let (mut jobs, mut slowdown) = (0_usize, 0.0);
        for job in across {
            jobs += 1;
            slowdown += slowdown_of(&job);
        }
        self.contention_slowdown = (jobs > 0).then(|| slowdown / jobs as f64);
    }
}

/// Time that a job worked over the time that it would have without others on the network.
pub fn slowdown_of(job: &JobResult) -> f64 {
    job.worked_s / (job.worked_s - job.contention_s)
}

/// The least of sorted values that this share of them does not exceed.
fn nearest_rank(sorted: &[f64], share: f64) -> f64 {
    sorted[((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}
