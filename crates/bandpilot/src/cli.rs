//! The arguments as they are given; what they mean is up to the commands.

mod conditions;
mod fragmentation;
mod kept;
mod policy_numbers;
mod request;
mod seeds;
mod slurm;
mod slurm_trace;
mod submit;
mod windows;

use std::path::PathBuf;

use bandpilot_core::Collective;
use bandpilot_slurm::submit::options::{Own, Program, split_own};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

pub use conditions::Conditions;
use fragmentation::{COMPACT_EXAMPLES, FRAGMENTATION_EXAMPLES};
pub use fragmentation::{Compact, Fragmentation, Running, Wanted};
pub use kept::Kept;
pub use policy_numbers::PolicyNumbers;
use request::{DISPATCH_EXAMPLES, EXPLAIN_EXAMPLES, collective};
pub use request::{Dispatch, Explain, Files};
pub use seeds::{OneOrMoreSeeds, Seeds};
pub use slurm::{Slurm, SlurmConfig, SlurmDoctor, SlurmGranularity, SlurmState, SlurmVerify};
pub use slurm_trace::{SlurmTrace, TenantColumn};
pub use submit::Submit;
use submit::{SBATCH_EXAMPLES, SRUN_EXAMPLES};
use windows::WINDOWS_EXAMPLES;
pub use windows::{SizeBy, Windows};

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  a mistake in the program itself
  2  wrong arguments
  3  a file or notation that was given is wrong
  4  the request cannot be met
  5  a file could not be read or written
  6  done, but something that was looked at has problems
130  ended by Ctrl-C";

const SIMULATE_EXAMPLES: &str = "Examples:
  bandpilot simulate --trace trace.csv --hosts 16x8 --policy fifo/counting,easy/best-fit
  bandpilot simulate --trace trace.csv.gz --cluster cluster.toml --policy srtf/packed --json
  bandpilot simulate --trace trace.csv --hosts 4x8,2x4 --policy fifo/random --seed 7
  bandpilot simulate --trace trace.csv --hosts 16x8 --policy fifo/random,srtf/packed --seeds 10 --out runs/

Queue orders:
  fifo        in order of arrival, the first one blocks
  fifo-skip   in order of arrival, whoever fits starts
  sjf-strict  the shortest job blocks
  sjf-skip    shortest first, whoever fits starts
  srtf        least work left first, with preemption
  easy        EASY backfill: others may overtake the first one if they do not delay it
  las         least attained GPU time first, in levels, with preemption (Tiresias)
  two-stage   jobs that have run for long give way to the others, each in order of arrival
  priority    by priority plus age, the first one blocks
Placements:
  counting    only the number of idle GPUs counts
  first-fit   the first host with enough idle GPUs
  best-fit    the host with the fewest idle GPUs that are enough
  packed      the fewest hosts, instances stay whole
  compact     the fewest hosts, split over what is left where need be
  fgd         where fragmentation for the mix of the trace falls the most (FGD, ATC'23)
  random      any host with enough idle GPUs
  bandpilot   the greatest bandwidth beside the running jobs, however it is split
  bandpilot-whole the same, instances stay whole
  bandpilot-tradeoff like bandpilot, but a share of the bandwidth is given up for less fragmentation
  drain       best-fit; the least used hosts are emptied for a job that does not fit
  repack      best-fit; running jobs are packed anew round by round
  compass     anchors in slots (COMPASS-ABS, repaired); few jobs move, to let another one start
  compass-printed the same as the paper prints it: compacted after every event
  compass-place-only the same, nobody moves

Policies run side by side; results do not depend on the number of threads. The exit code is 6 if rows of
the trace are wrong or jobs fit on no idle cluster: the figures are of the others.";

const FILL_EXAMPLES: &str = "Examples:
  bandpilot fill --nodes openb_node_list_gpu_node.csv.gz --pods openb_pod_list_default.csv.gz
  bandpilot fill --nodes nodes.csv --pods pods.csv --policy fgd --to 110 --seeds 1,5,7-9 --json

Policies:
  fgd       the node and GPU where fragmentation falls the most (FGD, ATC'23)
  best-fit  the node with the least CPU and GPU left
  random    any node that the pod fits on

Pods arrive one by one and never leave; one that fits nowhere is dropped. Runs go side by side; results do
not depend on the number of threads. The exit code is 6 if rows of a list are wrong: they are left out.";

/// Picks concrete GPUs for jobs by the bandwidth they will get.
#[derive(Debug, Parser)]
#[command(name = "bandpilot", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print JSON on stdout: the result, or one object {"error": ...}
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
}

/// The commands. A new one gets a variant here, a module in `commands` and an arm in `main`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Choose GPUs for a job: which N GPUs, right now?
    #[command(after_help = DISPATCH_EXAMPLES)]
    Dispatch(Box<Dispatch>),
    /// Tell what a set of GPUs reaches, what holds it back, and what would be better
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Fit a bandwidth model to a measurement store
    #[command(after_help = "Example:
  bandpilot fit --measurements store.jsonl --cluster cluster.toml --out model.json")]
    Fit(Fit),
    /// Score policies against the exact optimum on measured (or synthetic) truth
    #[command(after_help = "Examples:
  bandpilot evaluate --cluster h100-32 --data DIR --train 95 --repeats 50 --seed 1
  bandpilot evaluate --cluster het-4mix            # without data: a synthetic truth")]
    Evaluate(Evaluate),
    /// Play a trace of jobs against scheduling policies: which one is best?
    #[command(after_help = SIMULATE_EXAMPLES)]
    Simulate(Box<Simulate>),
    /// Play a trace day by day on clusters of the right size: how often is a policy the best?
    #[command(after_help = WINDOWS_EXAMPLES)]
    Windows(Box<Windows>),
    /// Advise which jobs to move: so that a job fits, or that fewer hosts are partial
    #[command(after_help = COMPACT_EXAMPLES)]
    Compact(Compact),
    /// Fill a cluster with pods that share GPUs or take whole ones: how much of it can be allocated?
    #[command(after_help = FILL_EXAMPLES)]
    Fill(Fill),
    /// Look at cluster files
    #[command(subcommand)]
    Cluster(Cluster),
    /// Collect measured bandwidths in a store
    #[command(subcommand)]
    Measure(Measure),
    /// Ask a Slurm cluster
    #[command(subcommand)]
    Slurm(Slurm),
    /// Plan a batch job's GPUs and submit it to Slurm: sbatch, with the GPUs chosen
    #[command(after_help = SBATCH_EXAMPLES)]
    Sbatch(Submit),
    /// Plan a job's GPUs and run it on them under Slurm: srun, with the GPUs chosen
    #[command(after_help = SRUN_EXAMPLES)]
    Srun(Submit),
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  bandpilot completions bash > ~/.local/share/bash-completion/completions/bandpilot")]
    Completions(Completions),
    /// Print the manual page, or write one for each command
    #[command(after_help = "Examples:
  bandpilot man | man -l -
  bandpilot man --dir ~/.local/share/man/man1")]
    Man(Man),
}

/// `bandpilot cluster ...`
#[derive(Debug, Subcommand)]
pub enum Cluster {
    /// Show host types, hosts, NICs, links and unhealthy parts
    #[command(after_help = "Examples:
  bandpilot cluster show cluster.toml
  bandpilot cluster show cluster.toml --json | jq '.host_types[].name'")]
    Show(ClusterFile),
    /// Check a cluster file and list everything that is wrong with it
    #[command(after_help = "Example:
  bandpilot cluster check cluster.toml      # exits with 3 if there are errors")]
    Check(ClusterFile),
    /// Show how full each host is, and how fragmented that is: what a repack could mend
    #[command(after_help = FRAGMENTATION_EXAMPLES)]
    Fragmentation(Fragmentation),
    /// Make a cluster file of `nvidia-smi topo -m` output, Slurm's files and tables of leaves
    #[command(after_help = "Examples:
  bandpilot cluster import dumps/ --nic-gbit-per-s 400 --name mycluster --out cluster.toml
  bandpilot cluster import topo.txt --hosts 'h[1-16]' --gpu-model H100 --nic-gbit-per-s 400
  bandpilot cluster import dumps/ topology.conf slurm.conf --nic-gbit-per-s 400 > cluster.toml
  pdsh -w h[1-16] 'nvidia-smi -L; nvidia-smi topo -m' | bandpilot cluster import - --rails --nic-gbit-per-s 400

What a file is follows from its content; a folder holds one file for each host. What was inferred is
said on stderr, with file and line.")]
    Import(ClusterImport),
    /// Print the cluster file of a built-in cluster, to start one's own from
    #[command(after_help = "Example:
  bandpilot cluster example h100-32 > cluster.toml")]
    Example(ClusterExample),
}

/// `bandpilot cluster example`
#[derive(Debug, Args)]
pub struct ClusterExample {
    /// The cluster: h100-32 (4 hosts of 8 H100) or het-4mix (8 each of 4090, V100, A6000, A800)
    #[arg(value_parser = ["h100-32", "het-4mix"], default_value = "h100-32")]
    pub name: String,
}

/// `bandpilot cluster import`
#[derive(Debug, Args)]
pub struct ClusterImport {
    /// Dumps of hosts, folders of dumps, Slurm's topology.conf, gres.conf, slurm.conf, tables of node,ASW (also .gz); - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Cluster file to write; without it the file is printed
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Overwrite the file if it is there
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Name of the cluster
    #[arg(long, default_value = "imported")]
    pub name: String,
    /// Hosts that the dump stands for, such as 'h[1-16]'; or one name for each dump, in order
    #[arg(long, value_name = "LIST")]
    pub hosts: Option<String>,
    /// GPU model of all hosts, for dumps that do not name it
    #[arg(long, value_name = "MODEL")]
    pub gpu_model: Option<String>,
    /// Line rate of the NICs, Gbit/s, for dumps without the output of ibstat
    #[arg(long, value_name = "RATE")]
    pub nic_gbit_per_s: Option<f64>,
    /// NICs that carry the jobs' traffic, by name; the others are left out
    #[arg(long, value_name = "NAMES", conflicts_with = "rails")]
    pub nics: Option<String>,
    /// Every GPU has one NIC of its own, whatever the dumps show
    #[arg(long)]
    pub rails: bool,
    /// Leave out hosts and files that are refused (then the exit code is 6)
    #[arg(long)]
    pub keep_going: bool,
}

/// A cluster file.
#[derive(Debug, Args)]
pub struct ClusterFile {
    /// Cluster file in TOML; - for stdin
    pub file: PathBuf,
}

/// `bandpilot measure ...`
#[derive(Debug, Subcommand)]
pub enum Measure {
    /// Import benchmark results into a store
    #[command(after_help = "Examples:
  bandpilot measure import run1.txt run2.txt --out store.jsonl
  bandpilot measure import run.txt --out store.jsonl --op all_reduce --placement h1:0-7,h2:0-7
  bandpilot measure import slurm-*.out --out store.jsonl --cluster cluster.toml
  bandpilot measure import cross.csv --out store.jsonl --hosts h1,h2,h3,h4
  bandpilot measure import host_H100_26.csv --out store.jsonl --hosts H100_26=h1
  bandpilot measure import host_V100.csv --out store.jsonl --bytes unknown

All files are read before anything is written. Importing a file twice adds nothing.")]
    Import(MeasureImport),
    /// Show what a store covers, how much it repeats and which readings do not fit
    #[command(after_help = "Example:
  bandpilot measure show store.jsonl")]
    Show(MeasureShow),
}

/// `bandpilot measure import`
#[derive(Debug, Args)]
pub struct MeasureImport {
    /// Output of nccl-tests or rccl-tests (text or JSON), or CSV tables; - for stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Store to append to; made if it is not there
    #[arg(long, value_name = "STORE")]
    pub out: PathBuf,
    /// Collective that was run, for files that do not say it, for example `all_reduce`
    #[arg(long)]
    pub op: Option<String>,
    /// GPUs that took part, for files that do not list them, for example h1:0-7,h2:0-7
    #[arg(long)]
    pub placement: Option<String>,
    /// Cluster file that the hosts are of: maps PCI bus ids to GPUs, checks host names, and lets a log
    /// of as many GPUs as the cluster has stand for the whole cluster
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Message size of rows that have none, for example 16MiB, or "unknown"
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<String>,
    /// Names for the host columns of a table (h1,h2 or h[1-4]), or OLD=NEW to rename a host
    #[arg(long, value_name = "NAMES")]
    pub hosts: Option<String>,
    /// Import what can be used even if a file is refused; the exit code is 6 if anything was
    #[arg(long)]
    pub keep_going: bool,
}

/// `bandpilot measure show`
#[derive(Debug, Args)]
pub struct MeasureShow {
    /// Measurement store
    pub store: PathBuf,
}

/// `bandpilot completions`
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

/// `bandpilot man`
#[derive(Debug, Args)]
pub struct Man {
    /// Write the pages into this folder, made if it is not there, instead of printing the main one
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// `bandpilot fit`
#[derive(Debug, Args)]
pub struct Fit {
    /// Measurement store of `bandpilot measure import`
    #[arg(long, value_name = "STORE")]
    pub measurements: PathBuf,
    /// Cluster file that the measurements' host names are from
    #[arg(long, value_name = "FILE")]
    pub cluster: PathBuf,
    /// Model file to write
    #[arg(long, value_name = "MODEL")]
    pub out: PathBuf,
    /// Collective to fit
    #[arg(long, default_value = "all_reduce", value_parser = collective)]
    pub op: Collective,
    /// Folds of the cross-validation; 0 skips it
    #[arg(long, value_name = "K", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub folds: u32,
}

/// `bandpilot evaluate`
#[derive(Debug, Args)]
pub struct Evaluate {
    /// Cluster: h100-32 or het-4mix
    #[arg(long, value_parser = ["h100-32", "het-4mix"])]
    pub cluster: String,
    /// Folder with the published tables (`cross_H100_32gpu.csv` and others), or the folder above it; without it a synthetic truth
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Cross-host count vectors to train on
    #[arg(long, value_name = "K", default_value_t = 95)]
    pub train: usize,
    /// Cases per number of GPUs
    #[arg(long, value_name = "R", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeats: u32,
    /// Seed of the training draw and of the cases
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
}

/// `bandpilot simulate`
#[derive(Debug, Args)]
pub struct Simulate {
    /// Trace of jobs: CSV, one row a job (also .gz); - for stdin
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// Hosts and GPUs of each, for example 16x8 or 4x8,2x4; for bandwidths they are H100 with NVSwitch and a 400 Gbit/s NIC a GPU
    #[arg(
        long,
        value_name = "HxG",
        required_unless_present = "cluster",
        conflicts_with = "cluster"
    )]
    pub hosts: Option<String>,
    /// Cluster file, all healthy GPUs idle
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Policies, each a queue order and a placement
    #[arg(long, value_name = "ORDER/PLACEMENT,..", required = true, value_delimiter = ',')]
    pub policy: Vec<String>,
    #[command(flatten)]
    pub seeds: OneOrMoreSeeds,
    #[command(flatten)]
    pub numbers: PolicyNumbers,
    #[command(flatten)]
    pub conditions: Conditions,
    #[command(flatten)]
    pub kept: Kept,
}

/// `bandpilot fill`
#[derive(Debug, Args)]
pub struct Fill {
    /// List of nodes: CSV with `sn,cpu_milli,memory_mib,gpu,model` (also .gz); - for stdin
    #[arg(long, value_name = "FILE")]
    pub nodes: PathBuf,
    /// List of pods: CSV with `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec` (also .gz); - for stdin
    #[arg(long, value_name = "FILE")]
    pub pods: PathBuf,
    /// Policies
    #[arg(
        long,
        value_name = "POLICY,..",
        value_delimiter = ',',
        default_value = "fgd,best-fit,random"
    )]
    pub policy: Vec<String>,
    /// Demand that arrives, per cent of all GPUs
    #[arg(long, value_name = "PCT", default_value_t = 130, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub to: u32,
    /// Seeds of the order of pods and nodes and of random placement: so many from 1 on, or a list such as 42-51 or 1,5,7-9
    #[arg(long, value_name = "N", default_value = "42-51", allow_hyphen_values = true)]
    pub seeds: Seeds,
}

/// The arguments with bandpilot's own options of `sbatch` and `srun` in front, and Slurm's behind `--`: they may stand
/// among one another.
pub fn sorted(args: Vec<String>) -> Vec<String> {
    let at = args.iter().skip(1).position(|word| !word.starts_with('-')).map(|at| at + 1);
    let Some((at, program)) = at.and_then(|at| Some((at, program(&args[at])?))) else {
        return args;
    };
    let mut root = Cli::command();
    root.build();
    let Some(command) = root.find_subcommand(program.name()) else { return args };
    let own: Vec<Own<'_>> = command
        .get_arguments()
        .filter_map(|arg| {
            let takes_value = arg.get_action().takes_values();
            Some(Own { name: arg.get_long()?, takes_value })
        })
        .collect();
    let (own, rest) = split_own(program, &args[at + 1..], &own);
    let mut sorted = args[..=at].to_vec();
    sorted.extend(own);
    sorted.push("--".to_owned());
    sorted.extend(rest);
    sorted
}

fn program(word: &str) -> Option<Program> {
    [Program::Sbatch, Program::Srun].into_iter().find(|program| program.name() == word)
}
