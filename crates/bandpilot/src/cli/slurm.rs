//! The arguments of `bandpilot slurm`.

use std::path::PathBuf;

use bandpilot_slurm::fact;
use clap::{Args, Subcommand};

use super::slurm_trace::SlurmTrace;

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
    /// Make a trace of the jobs that ran, for `simulate`: of sacct's accounts, or of samples of the queue
    #[command(after_help = "Examples:
  bandpilot slurm trace                                    # what there is of the last 30 days
  bandpilot slurm trace --since 2026-11-01 --until 2026-12-01 --cluster cluster.toml --out trace.csv
  bandpilot simulate --trace trace.csv --cluster cluster.toml --policy fifo/best-fit,easy/bandpilot
  bandpilot slurm trace --sacct accounts.txt --anonymous --out trace.csv
Without accounts, where sacct has nothing to say:
  bandpilot slurm trace --sample samples.jsonl --every 60  # or without --every from cron
  bandpilot slurm trace --samples samples.jsonl --out trace.csv

Only sacct is run, or squeue or scontrol for a sample; nothing is changed. Times are UTC. The exit code is 4 if there is no
job with GPUs, 5 if Slurm does not answer, 6 if something could not be used.")]
    Trace(SlurmTrace),
    /// Write the lines of Slurm's files that make GPUs nameable, and say what changes for users
    #[command(after_help = "Examples:
  bandpilot slurm config --slurm-conf /etc/slurm/slurm.conf --gres-conf /etc/slurm/gres.conf
  bandpilot slurm config --slurm-conf slurm.conf --gres-conf gres.conf --cluster cluster.toml --out new
  bandpilot slurm config --cluster cluster.toml --granularity island --type-prefix nv

Every GPU index gets a gres type of its own (g0, g1, ...); with --granularity island every group of GPUs that NVLink or a
socket joins. Everything else on the node lines stays. Nothing is installed: look at the files, then copy them.")]
    Config(SlurmConfig),
    /// Check an installation of Slurm and name each missing or risky piece with the mend
    #[command(after_help = "Examples:
  bandpilot slurm doctor
  bandpilot slurm doctor --cluster cluster.toml --json
  bandpilot slurm doctor --record slurm.jsonl      # to look at it elsewhere:
  bandpilot slurm doctor --replay slurm.jsonl --config copied-etc-slurm

Nothing is changed. Call it on a host with GPUs, so that their device files are checked as well. The exit code is 6 if one of
the checks is an error; warnings leave it at 0.")]
    Doctor(SlurmDoctor),
    /// Compare what jobs were given with what was planned for them
    #[command(after_help = "Examples:
  bandpilot slurm verify
  bandpilot slurm verify --audit audit.jsonl --job 12_3
  bandpilot slurm verify --watch 5 --until-idle               # beside a stream of jobs
  srun --ntasks-per-node=1 bandpilot slurm verify --here      # in a job: what the driver shows

Slurm is asked once for all jobs of the audit that it has not told of yet; what it says is appended to the audit. The exit
code is 0 if all jobs have what was planned or wait, 5 if Slurm does not answer, 6 if a job has something else, a GPU is in two
jobs, or a job is over and nobody can say what it had.")]
    Verify(SlurmVerify),
}

/// `bandpilot slurm verify`
#[derive(Debug, Args)]
pub struct SlurmVerify {
    /// The file of plans and facts; without it that of `bandpilot sbatch`
    #[arg(long, value_name = "FILE", env = "BANDPILOT_AUDIT", hide_env_values = true)]
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

/// `bandpilot slurm config`
#[derive(Debug, Args)]
pub struct SlurmConfig {
    /// Cluster file: models, links and leaves; without --slurm-conf its hosts get new node lines
    #[arg(long, value_name = "FILE", required_unless_present = "slurm_conf")]
    pub cluster: Option<PathBuf>,
    /// The slurm.conf that is there; all that its node lines say besides GPUs is kept
    #[arg(long, value_name = "FILE")]
    pub slurm_conf: Option<PathBuf>,
    /// The gres.conf that is there; File, Cores, Links and Flags of each GPU are kept
    #[arg(long, value_name = "FILE")]
    pub gres_conf: Option<PathBuf>,
    /// The topology.conf that is there; it is checked and stays
    #[arg(long, value_name = "FILE")]
    pub topology_conf: Option<PathBuf>,
    /// What one gres type stands for
    #[arg(long, value_enum, default_value_t = SlurmGranularity::Gpu)]
    pub granularity: SlurmGranularity,
    /// Begins the names of types; the number of the GPU or island follows
    #[arg(long, value_name = "TEXT", default_value = "g")]
    pub type_prefix: String,
    /// Folder to write slurm.conf.fragment, gres.conf and topology.conf into; without it they are printed
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long, requires = "out")]
    pub force: bool,
}

/// What one gres type stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SlurmGranularity {
    /// One GPU: jobs can name GPUs
    Gpu,
    /// GPUs that NVLink or a socket joins: jobs can name islands
    Island,
}

/// `bandpilot slurm doctor`
#[derive(Debug, Args)]
pub struct SlurmDoctor {
    /// Cluster file that Slurm is compared with
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Folder with gres.conf, cgroup.conf and `job_submit.lua`, instead of where Slurm says
    #[arg(long, value_name = "FOLDER")]
    pub config: Option<PathBuf>,
    /// Write down every command that was run and what it printed; what is there is replaced
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Take the answers of such a recording instead of asking Slurm; files are then read only with --config
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// End a command that does not answer for so long, seconds
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout_s: u64,
}
