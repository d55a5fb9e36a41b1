//! `bandpilot windows`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::conditions::long_seconds;
use super::request::share;
use super::{Conditions, OneOrMoreSeeds, PolicyNumbers};

pub const WINDOWS_EXAMPLES: &str = "Examples:
  bandpilot windows --trace trace.csv.gz --policy fifo/best-fit,fifo/fgd,fifo/drain,fifo/repack
  bandpilot windows --trace trace.csv --policy fifo/packed,fifo/best-fit --eta 0.9 --mix 5% --seeds 3
  bandpilot windows --trace trace.csv --policy fifo/best-fit,fifo/random --judge fifo/best-fit --out days/

The jobs that are submitted in a window (a day of the trace's own clock) are played alone, from an empty
cluster until all are done. The cluster has N(eta) = max(ceil(p / GPUs of a host), hosts of the largest job)
hosts, p being what the GPUs that the jobs would hold if none waited do not exceed for a share eta of the
window. The judged policy is set against all others but those that repack everything, split instances or only
count GPUs.

Policies are those of bandpilot simulate. Windows run side by side; results do not depend on the number of
threads. The exit code is 6 if rows of the trace are wrong or jobs fit on no cluster: they are left out.";

/// `bandpilot windows`
#[derive(Debug, Args)]
pub struct Windows {
    /// Trace of jobs: CSV, one row a job (also .gz); - for stdin
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Policies, each a queue order and a placement
    #[arg(long, value_name = "ORDER/PLACEMENT,..", required = true, value_delimiter = ',')]
    pub policy: Vec<String>,
    /// Policy that is judged; without it the first one with a placement named compass, else the first
    #[arg(long, value_name = "ORDER/PLACEMENT")]
    pub judge: Option<String>,
    /// Shares of the time for which the cluster meets the demand
    #[arg(
        long,
        value_name = "SHARE,..",
        value_delimiter = ',',
        default_value = "0.85,0.9,0.95",
        allow_hyphen_values = true,
        value_parser = share
    )]
    pub eta: Vec<f64>,
    /// GPUs of a host
    #[arg(long, value_name = "G", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub host_gpus: u32,
    /// Length of a window
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1day",
        allow_hyphen_values = true,
        value_parser = long_seconds
    )]
    pub window: f64,
    /// Whose demand the size of the cluster follows
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = SizeBy::Window)]
    pub size_by: SizeBy,
    /// Windows with fewer jobs are not played
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub least_jobs: u64,
    #[command(flatten)]
    pub seeds: OneOrMoreSeeds,
    #[command(flatten)]
    pub numbers: PolicyNumbers,
    #[command(flatten)]
    pub conditions: Conditions,
    /// Folder for windows.csv, summary.json and report.html
    #[arg(long, value_name = "DIR", help_heading = "What is kept")]
    pub out: Option<PathBuf>,
    /// Write a report with plots, one HTML file
    #[arg(long, value_name = "FILE", help_heading = "What is kept")]
    pub report: Option<PathBuf>,
    /// Overwrite results that are there
    #[arg(long, help_heading = "What is kept")]
    pub force: bool,
}

/// Whose demand the size of a cluster follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SizeBy {
    /// Each window's own: a cluster for each
    Window,
    /// That of the whole trace: one cluster for all
    Trace,
}
