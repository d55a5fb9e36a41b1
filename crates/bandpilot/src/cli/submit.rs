//! The arguments of `bandpilot sbatch` and `bandpilot srun`.

use std::path::PathBuf;

use bandpilot_core::Collective;
use clap::Args;

use super::request::{bandwidth, collective, share};

/// Examples in the help of `sbatch`.
pub const SBATCH_EXAMPLES: &str = "Examples:
  export BANDPILOT_CLUSTER=/etc/bandpilot/cluster.toml BANDPILOT_MODEL=/etc/bandpilot/model.json
  bandpilot sbatch --gpus=12 job.sh
  bandpilot sbatch --dry-run -N2 --gpus-per-node=4 -C ib job.sh     # what would it get?
  bandpilot sbatch --explain --compare stock --gpus=12 job.sh
  bandpilot sbatch --replan 30 --gpus=8 -t 2:00:00 --wrap 'srun ./train'

Slurm's options stand where they always do, also as #SBATCH lines of the script; those of bandpilot may stand among them. A job
without GPUs, or one that names its GPUs itself, goes to sbatch as it is. Prints what sbatch prints.";

/// Examples in the help of `srun`.
pub const SRUN_EXAMPLES: &str = "Examples:
  bandpilot srun --gpus=4 ./train
  bandpilot srun --dry-run -N2 --gpus-per-node=4 ./train
  bandpilot srun --gpus=9 --gpus-per-task=1 -n9 ./train      # an uneven set is one MPI world

The job ends with the command, and the exit code is that of srun.";

/// `bandpilot sbatch` and `bandpilot srun`
#[derive(Debug, Args)]
pub struct Submit {
    /// Cluster file; host names must be those of Slurm
    #[arg(long, value_name = "FILE", env = "BANDPILOT_CLUSTER", hide_env_values = true)]
    pub cluster: Option<PathBuf>,
    /// Model file of `bandpilot fit`; in the variable several stand with ':' between them
    #[arg(
        long,
        value_name = "FILE",
        env = "BANDPILOT_MODEL",
        value_delimiter = ':',
        hide_env_values = true
    )]
    pub model: Vec<PathBuf>,
    /// Audit file; without it audit.jsonl in the user's folder for state (~/.local/state/bandpilot)
    #[arg(long, value_name = "FILE", env = "BANDPILOT_AUDIT", hide_env_values = true)]
    pub audit: Option<PathBuf>,
    /// Show the plan and the command that would be run; nothing is submitted or written
    #[arg(long)]
    pub dry_run: bool,
    /// Say what the set reaches, what holds it back and which hosts were left out
    #[arg(long)]
    pub explain: bool,
    /// Say what stock Slurm would give the same job: asks `sbatch --test-only` for the hosts
    #[arg(long, value_name = "WHAT", value_parser = ["stock"])]
    pub compare: Option<String>,
    /// Stay until the job runs; where it waits for so long and other GPUs would start it, it is cancelled, planned anew and submitted again; not for arrays
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub replan: Option<u64>,
    /// Collective to optimise for
    #[arg(long, default_value = "all_reduce", value_parser = collective)]
    pub op: Collective,
    /// Message size to optimise for
    #[arg(long, value_name = "SIZE", default_value = "2GiB", value_parser = bandpilot_core::parse_bytes)]
    pub bytes: u64,
    /// The same number of GPUs on every host, so that the job is never a heterogeneous one
    #[arg(long)]
    pub uniform: bool,
    /// The low end of the effective bandwidth must reach this, GB/s
    #[arg(long, value_name = "GB/S", allow_negative_numbers = true, value_parser = bandwidth)]
    pub min_busbw: Option<f64>,
    /// No running job may lose more than this share of its bandwidth, for example 5% or 0.05
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = share)]
    pub protect: Option<f64>,
    /// End a command of Slurm that does not answer for so long, and ask a slurmctld that is away for so long, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
    /// Write down every command that was run and what it printed; what is there is replaced
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Slurm's options, and the script or command with its arguments
    #[arg(last = true, value_name = "OPTIONS AND SCRIPT", allow_hyphen_values = true)]
    pub words: Vec<String>,
}
