//! What a policy is judged by.

use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::workload::Workload;
use crate::world::{self, JobResult, Outcome};

/// Figures of one run, over the jobs that finished. The job completion time (JCT) counts from submission to the end.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
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
    /// Share of the GPUs that was held while jobs waited; `None` if none ever waited.
    pub busy_while_queued: Option<f64>,
    /// Time during which jobs waited.
    pub queued_s: f64,
    /// Time during which the first waiting job did not start although as many GPUs as it asks for were idle.
    pub head_blocked_s: f64,
}

impl Metrics {
    /// Bytes that each job takes during a run: workload, belief of the scheduler, truth, result, and two entries of
    /// a queue (sorted sets fill their nodes at least half).
    pub const BYTES_PER_JOB: usize = Workload::BYTES_PER_JOB
        + Jobs::BYTES_PER_JOB
        + world::BYTES_PER_JOB
        + size_of::<JobResult>()
        + 2 * size_of::<(u64, JobId)>();

    /// Sums up a run.
    pub fn new(workload: &Workload, outcome: &Outcome) -> Self {
        let ids = (0..).map(JobId).zip(&outcome.jobs);
        let mut jct_s: Vec<f64> = Vec::with_capacity(outcome.jobs.len());
        let mut metrics = Self::default();
        let (mut first_s, mut last_s) = (f64::INFINITY, 0.0_f64);
        for (job, result) in ids {
            let Some(finish_s) = result.finish_s else {
                metrics.refused += 1;
                continue;
            };
            let submit_s = workload.submit_s(job);
            jct_s.push(finish_s - submit_s);
            metrics.avg_jct_s += finish_s - submit_s;
            metrics.avg_wait_s += finish_s - submit_s - workload.duration_s(job);
            metrics.preemptions += u64::from(result.preemptions);
            first_s = first_s.min(submit_s);
            last_s = last_s.max(finish_s);
        }
        let totals = &outcome.totals;
        metrics.queued_s = totals.queued_s;
        metrics.head_blocked_s = totals.head_blocked_s;
        metrics.busy_while_queued = (totals.queued_s > 0.0)
            .then(|| totals.busy_queued_gpu_s / (totals.queued_s * totals.gpus as f64));
        metrics.jobs = jct_s.len();
        if jct_s.is_empty() {
            return metrics;
        }
        let jobs = jct_s.len() as f64;
        metrics.avg_jct_s /= jobs;
        metrics.avg_wait_s /= jobs;
        metrics.makespan_s = last_s - first_s;
        jct_s.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| jct_s[((share * jobs).ceil() as usize).clamp(1, jct_s.len()) - 1];
        metrics.median_jct_s = f64::midpoint(jct_s[(jct_s.len() - 1) / 2], jct_s[jct_s.len() / 2]);
        metrics.p95_jct_s = at(0.95);
        metrics.p99_jct_s = at(0.99);
        metrics
    }
}
