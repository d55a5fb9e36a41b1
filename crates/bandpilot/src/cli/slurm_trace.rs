//! The arguments of `bandpilot slurm trace`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Whose jobs the trace tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TenantColumn {
    /// The account; the user where there is none
    Account,
    /// The user
    User,
    /// The partition
    Partition,
}

/// `bandpilot slurm trace`
#[derive(Debug, Args)]
pub struct SlurmTrace {
    /// Trace file to write; what is there is replaced
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Jobs that could start from then on, UTC: 2026-11-01, 2026-11-01T12:00:00 or now-30days; without it the last 30 days of the accounts, all of
    /// a file
    #[arg(long, value_name = "TIME", conflicts_with = "sample", value_parser = time)]
    pub since: Option<String>,
    /// Jobs that could start before then
    #[arg(long, value_name = "TIME", conflicts_with = "sample", value_parser = time)]
    pub until: Option<String>,
    /// Only jobs of these partitions
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', conflicts_with = "sample")]
    pub partition: Vec<String>,
    /// Cluster file; names the GPU model that each job ran on by its hosts
    #[arg(long, value_name = "FILE", conflicts_with = "sample")]
    pub cluster: Option<PathBuf>,
    /// What is the tenant of a job
    #[arg(long, value_name = "WHAT", default_value = "account", conflicts_with = "sample")]
    pub tenant: TenantColumn,
    /// Write t1, t2, ... instead of names of tenants, q1, q2, ... instead of those of qualities of service
    #[arg(long, requires = "out")]
    pub anonymous: bool,
    /// Read what sacct printed (- for stdin) instead of asking it
    #[arg(long, value_name = "FILE", group = "source")]
    pub sacct: Option<PathBuf>,
    /// Join the samples of this file instead of asking sacct
    #[arg(long, value_name = "FILE", group = "source")]
    pub samples: Option<PathBuf>,
    /// Append the jobs of this moment to a file of samples, and make no trace
    #[arg(long, value_name = "FILE", group = "source", conflicts_with = "out")]
    pub sample: Option<PathBuf>,
    /// Go on taking a sample every so many seconds, until Ctrl-C
    #[arg(long, value_name = "S", requires = "sample", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub every: Option<u64>,
    /// Write down the command that was run and what it printed; what is there is replaced
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "sacct", "samples", "every"])]
    pub record: Option<PathBuf>,
    /// Take the answer of such a recording instead of asking Slurm
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sacct", "samples", "every"])]
    pub replay: Option<PathBuf>,
    /// End a command that does not answer for so long, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
}

/// A time in Slurm's notation, so that Slurm is asked for just this.
fn time(text: &str) -> Result<String, String> {
    bandpilot_slurm::trace::Moment::parse(text).map(|_| text.to_owned())
}
