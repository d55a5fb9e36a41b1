//! Arguments of the commands that look at how full hosts are.

use std::path::PathBuf;

use clap::Args;

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
