//! Figures of an evaluation.

use bandpilot_core::Placement;

/// One of the worst cases of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstCase {
    /// GPUs asked for.
    pub gpus: usize,
    /// Number of the repeat.
    pub repeat: usize,
    /// Per cent of the exact optimum.
    pub score: f64,
    /// What the policy chose.
    pub chosen: Placement,
    /// What would have been best.
    pub best: Placement,
    /// Value of the choice, GB/s.
    pub chosen_gbytes_per_s: f64,
    /// Value of the optimum, GB/s.
    pub best_gbytes_per_s: f64,
}

/// A policy in one mode.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyReport {
    /// Name.
    pub policy: &'static str,
    /// Mean score, per cent of the exact optimum.
    pub mean: f64,
    /// 5th percentile.
    pub p5: f64,
    /// Minimum.
    pub min: f64,
    /// The five worst cases, worst first.
    pub worst: Vec<WorstCase>,
    /// Median time of a decision, microseconds.
    pub dispatch_us_p50: f64,
    /// 99th percentile of the time of a decision, microseconds.
    pub dispatch_us_p99: f64,
}

/// All policies in one mode.
#[derive(Debug, Clone, PartialEq)]
pub struct ModeReport {
    /// Name of the mode.
    pub mode: &'static str,
    /// Number of cases.
    pub cases: usize,
    /// One entry a policy, `bandpilot` first.
    pub policies: Vec<PolicyReport>,
}

/// A whole evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Name of the cluster.
    pub cluster: String,
    /// Where the truth comes from.
    pub truth: String,
    /// Seed.
    pub seed: u64,
    /// Training vectors.
    pub train: usize,
    /// Repeats per number of GPUs.
    pub repeats: usize,
    /// One entry a mode.
    pub modes: Vec<ModeReport>,
}
