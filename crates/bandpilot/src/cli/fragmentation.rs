//! Arguments of the commands that look at how full hosts are.

use std::path::PathBuf;

use clap::Args;

use super::conditions::seconds;

/// Examples in the help of `cluster fragmentation`.
pub const FRAGMENTATION_EXAMPLES: &str = "Examples:
  bandpilot cluster fragmentation --cluster cluster.toml --state state.toml
  bandpilot cluster fragmentation --cluster cluster.toml --state state.toml --trace trace.csv --json

A host is partial if some of its GPUs are held and some are idle. How many must be follows from the sizes
of the instances that run; those beyond could be mended by moving jobs. The state file may say how
large the instances of a job are (instance_gpus), and which jobs must stay where they are (pinned).";

/// A cluster and what runs on it.
#[derive(Debug, Args)]
pub struct Running {
    /// Cluster file
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// State file: what is free and what runs
    #[arg(long, value_name = "FILE")]
    pub state: PathBuf,
}

/// `bandpilot cluster fragmentation`
#[derive(Debug, Args)]
pub struct Fragmentation {
    #[command(flatten)]
    pub running: Running,
    /// Trace whose mix of jobs FGD's F is of, as for `simulate`; without it that of the running instances
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// Examples in the help of `compact`.
pub const COMPACT_EXAMPLES: &str = "Examples:
  bandpilot compact --cluster cluster.toml --state state.toml
  bandpilot compact --cluster cluster.toml --state state.toml --for 2x8
  bandpilot compact --cluster cluster.toml --state state.toml --for 16 --expected-wait 20m --pin train-a --out after.toml

Nothing is moved: what is printed is for whoever can stop jobs and let them go on elsewhere. A move costs
all GPUs of its job for as long as a migration takes.";

/// The GPUs of a job that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// So many: whole hosts and a rest.
    Gpus(usize),
    /// So many instances of so many, each inside one host.
    Instances(usize, usize),
}

/// Reads `16` or `4x8`.
fn wanted(text: &str) -> Result<Wanted, String> {
    let number =
        |part: &str| part.trim().parse::<usize>().ok().filter(|n| (1..=1 << 20).contains(n));
    let read = match text.split_once(['x', 'X']) {
        None => number(text).map(Wanted::Gpus),
        Some((instances, gpus)) => {
            number(instances).zip(number(gpus)).map(|(w, g)| Wanted::Instances(w, g))
        }
    };
    read.ok_or_else(|| {
        format!("'{text}' is neither a number of GPUs such as 16 nor instances x GPUs such as 4x8")
    })
}

/// `bandpilot compact`
#[derive(Debug, Args)]
pub struct Compact {
    #[command(flatten)]
    pub running: Running,
    /// Only so that this job fits: GPUs such as 16, or instances x GPUs such as 4x8; without it for fewer partial hosts
    #[arg(long = "for", value_name = "GPUS|WxG", value_parser = wanted)]
    pub wanted: Option<Wanted>,
    /// Without --for: so many hosts may stay partial that need not be
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "wanted")]
    pub tau: usize,
    /// How long a job that is moved does nothing
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = seconds)]
    pub migration_cost: f64,
    /// How long the job of --for would wait otherwise; moves that cost more than its GPUs are worth for that time are not advised
    #[arg(long, value_name = "TIME", requires = "wanted", value_parser = seconds)]
    pub expected_wait: Option<f64>,
    /// Moves may cost so many times that
    #[arg(long, value_name = "X", default_value_t = 1.0, requires = "expected_wait", value_parser = beta)]
    pub beta: f64,
    /// Jobs that must stay where they are, beside those that the state file says
    #[arg(long, value_name = "JOB,..", value_delimiter = ',')]
    pub pin: Vec<String>,
    /// State file to write: what runs after the moves
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite the file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
}

fn beta(text: &str) -> Result<f64, String> {
    let value = text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| format!("'{text}' is not a number of 0 or more"))
}
