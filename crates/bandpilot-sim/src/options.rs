//! Numbers that units and the world take.

/// What stopping a job costs. A job that is preempted or moved saves its state first; one that a fault takes down has not.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Costs {
    /// A job that starts again after a preemption or a fault holds its GPUs so long before it works, seconds.
    pub restart_s: f64,
    /// A job that goes on elsewhere at once holds its new GPUs so long before it works, seconds.
    pub migration_s: f64,
    /// Jobs save their state after so much work, seconds at rate 1; what was done since is lost in a fault. With 0 nothing is
    /// lost.
    pub checkpoint_s: f64,
}

/// How often hosts and links fail. Times between faults and times to mend are exponential.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRates {
    /// Mean time between faults of one host, seconds; infinite for none.
    pub host_mtbf_s: f64,
    /// Mean time until a host is back, seconds.
    pub host_mttr_s: f64,
    /// Mean time between faults of one NIC, seconds; infinite for none.
    pub link_mtbf_s: f64,
    /// Mean time until a NIC is back, seconds.
    pub link_mttr_s: f64,
}

impl Default for FaultRates {
    fn default() -> Self {
        Self {
            host_mtbf_s: f64::INFINITY,
            host_mttr_s: 3_600.0,
            link_mtbf_s: f64::INFINITY,
            link_mttr_s: 3_600.0,
        }
    }
}

/// Numbers that units and the world take; the default is no cost and no fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What stopping a job costs.
    pub costs: Costs,
    /// How often hosts and links fail.
    pub faults: FaultRates,
    /// `las`: attained service at which a job sinks to the next level, GPU-seconds, ascending. The default is what the public
    /// simulator of Tiresias runs with: three queues, so of its three thresholds (3,250, 7,200, 18,000) the first two count.
    pub las_thresholds_gpu_s: Vec<f64>,
    /// `priority`: waiting so long raises a job by one level, seconds; infinite for never.
    pub aging_s: f64,
    /// `two-stage`: a job that has run so long goes to the second stage, seconds; infinite for never, `None` to choose by the
    /// durations in the workload ([`best_theta_s`](crate::orders::best_theta_s)).
    pub two_stage_theta_s: Option<f64>,
    /// `repack`: time from one round to the next, seconds.
    pub round_s: f64,
    /// `compass`: while jobs wait, jobs are moved if more hosts than this are partial that need not be (N*SIF).
    pub compass_tau: usize,
    /// `compass`: the GPU-seconds that moves cost may be so many times those that the job which they let start would wait for without
    /// them; infinite for any cost.
    pub compass_beta: f64,
    /// `bandpilot`: a job that may be split waits rather than run at less than this share (0..=1) of the rate that the best set
    /// of the same GPU models would give it on an idle cluster.
    pub least_rate: f64,
    /// `bandpilot-tradeoff`: so much of the best effective bandwidth is given up for less fragmentation, a share (0..=1).
    pub tradeoff: f64,
    /// `bandpilot`: steps of the search for one job at most.
    pub search_steps: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            costs: Costs::default(),
            faults: FaultRates::default(),
            las_thresholds_gpu_s: vec![3_250.0, 7_200.0],
            aging_s: 86_400.0,
            two_stage_theta_s: None,
            round_s: 360.0,
            compass_tau: 0,
            compass_beta: 1.0,
            least_rate: 0.9,
            tradeoff: 0.03,
            search_steps: 20_000,
        }
    }
}
