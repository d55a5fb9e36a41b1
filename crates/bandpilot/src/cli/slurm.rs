//! The arguments of `bandpilot slurm`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `bandpilot slurm ...`
#[derive(Debug, Subcommand)]
pub enum Slurm {
    /// Show hosts, GPUs and jobs, and write the state file that `dispatch` reads
    #[command(after_help = "Examples:
  bandpilot slurm state
  bandpilot slurm state --cluster cluster.toml --out state.toml
  bandpilot dispatch --cluster cluster.toml --state state.toml --gpus 16
  bandpilot slurm state --record slurm.jsonl       # to look at it elsewhere:
  bandpilot slurm state --replay slurm.jsonl

Only scontrol, sinfo and squeue are run, nothing is changed. The exit code is 5 if Slurm does not answer, 6 if
something of its answers could not be used.")]
    State(SlurmState),
}

/// `bandpilot slurm state`
#[derive(Debug, Args)]
pub struct SlurmState {
    /// Cluster file; host names must be those of Slurm
    #[arg(long, value_name = "FILE", requires = "out")]
    pub cluster: Option<PathBuf>,
    /// State file to write; what is there is replaced
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub out: Option<PathBuf>,
    /// Write down every command that was run and what it printed; what is there is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Take the answers of such a recording instead of asking Slurm
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// End a command that does not answer for so long, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
}
