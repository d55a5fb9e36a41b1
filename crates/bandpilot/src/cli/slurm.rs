//! The arguments of `bandpilot slurm`.

use std::path::PathBuf;

use bandpilot_slurm::fact;
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
    /// Compare what jobs were given with what was planned for them
    #[command(after_help = "Examples:
  bandpilot slurm verify --audit audit.jsonl
  bandpilot slurm verify --audit audit.jsonl --job 12_3
  bandpilot slurm verify --audit audit.jsonl --watch 5 --until-idle   # beside a stream of jobs
  srun --ntasks-per-node=1 bandpilot slurm verify --here              # in a job: what the driver shows

Slurm is asked once for all jobs of the audit that it has not told of yet; what it says is appended to the audit. The exit
code is 0 if all jobs have what was planned or wait, 5 if Slurm does not answer, 6 if a job has something else, a GPU is in two
jobs, or a job is over and nobody can say what it had.")]
    Verify(SlurmVerify),
}

/// `bandpilot slurm verify`
#[derive(Debug, Args)]
pub struct SlurmVerify {
    /// The file of plans and facts
    #[arg(long, value_name = "FILE", required_unless_present = "here")]
    pub audit: Option<PathBuf>,
    /// Look at this job only: 12, or `12_3` for a task of an array
    #[arg(long, value_name = "ID", value_parser = job)]
    pub job: Option<String>,
    /// Look again after so many seconds, until Ctrl-C
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub watch: Option<u64>,
    /// With --watch: end when no job is waited for any more
    #[arg(long, requires = "watch")]
    pub until_idle: bool,
    /// Inside a job: compare with what the GPU driver of this host shows
    #[arg(long, conflicts_with_all = ["watch", "job"])]
    pub here: bool,
    /// Write down every command that was run and what it printed; what is there is replaced
    #[arg(long, value_name = "FILE", conflicts_with_all = ["replay", "watch"])]
    pub record: Option<PathBuf>,
    /// Take the answers of such a recording instead of asking; nothing is appended
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub replay: Option<PathBuf>,
    /// End a command that does not answer for so long, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
}

fn job(text: &str) -> Result<String, String> {
    if fact::is_job(text) {
        Ok(text.to_owned())
    } else {
        Err("is not a job, write 12 or 12_3".to_owned())
    }
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
