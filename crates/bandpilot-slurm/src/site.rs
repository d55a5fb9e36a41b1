//! How a site has set up its Slurm, as far as a plan depends on it.

use bandpilot_manager::exchange::{Ahead, Runner};

use crate::observe::{Asking, Known, ObserveError};
use crate::{Form, Limit, Observed, Remark, text};

const CONFIG: &[&str] = &["scontrol", "show", "config"];
const PARTITIONS: &[&str] = &["scontrol", "show", "partition"];

/// Settings and partitions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Site {
    /// Settings of the whole cluster.
    pub config: Config,
    /// Partitions in Slurm's order.
    pub partitions: Vec<Partition>,
}

/// Settings of the whole cluster. Empty texts stand for what was not said.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Slurm's version, `22.05.8`.
    pub version: String,
    /// What chooses hosts, `select/cons_tres`.
    pub select: String,
    /// What jobs on one host share out.
    pub consumable: Consumable,
    /// Defaults where a partition has none.
    pub defaults: Defaults,
    /// So long a job that is over is still known, seconds.
    pub min_job_age_s: Option<u64>,
    /// Kinds of generic resources, `gpu`.
    pub gres_types: Vec<String>,
    /// What decides when jobs start, `sched/backfill`.
    pub scheduler: String,
    /// What orders them, `priority/basic`.
    pub priority: String,
}

/// What jobs on one host share out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Consumable {
    /// Nothing: a job has its hosts to itself.
    pub whole_hosts: bool,
    /// CPUs.
    pub cores: Cores,
    /// Memory.
    pub memory: bool,
}

/// How CPUs are given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cores {
    /// They are not: any number of jobs runs on them.
    #[default]
    Uncounted,
    /// By core, with all its threads.
    Whole,
    /// By thread.
    Threads,
}

/// What a job gets that says nothing, and the most that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Defaults {
    /// Memory on each host, MiB.
    pub memory_mib_per_host: Option<u64>,
    /// Memory for each CPU, MiB.
    pub memory_mib_per_cpu: Option<u64>,
    /// Memory for each GPU, MiB.
    pub memory_mib_per_gpu: Option<u64>,
    /// CPUs for each GPU.
    pub cpus_per_gpu: Option<usize>,
    /// Most memory on a host, MiB.
    pub most_memory_mib_per_host: Option<u64>,
    /// Most memory for a CPU, MiB; a job that asks for more gets more CPUs.
    pub most_memory_mib_per_cpu: Option<u64>,
}

/// Whether jobs of a partition share hosts (`OverSubscribe`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// Each core is of one job.
    #[default]
    No,
    /// Each host is of one job.
    Exclusive,
    /// Jobs that ask for it share cores.
    Asked,
    /// All jobs share cores.
    Forced,
}

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Partition {
    /// Name.
    pub name: String,
    /// Jobs that name none go here.
    pub default: bool,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// `UP`, `DOWN`, `DRAIN` or `INACTIVE`.
    pub state: String,
    /// Time limit of jobs that name none; unset: the greatest.
    pub default_time: Limit,
    /// Greatest time limit.
    pub max_time: Limit,
    /// Hosts of a job at least.
    pub least_hosts: usize,
    /// Hosts of a job at most.
    pub most_hosts: Option<usize>,
    /// CPUs that its jobs have on one host at most.
    pub most_cpus_per_host: Option<usize>,
    /// Whether its jobs share hosts.
    pub sharing: Sharing,
    /// Its defaults, before those of the cluster.
    pub defaults: Defaults,
    /// Accounts that may use it; `None`: all.
    pub allowed_accounts: Option<Vec<String>>,
    /// Accounts that may not.
    pub denied_accounts: Vec<String>,
    /// Groups that may use it, to be shown; `None`: all. Who is in them is not known here.
    pub allowed_groups: Option<Vec<String>>,
    /// Only jobs with a reservation may use it.
    pub wants_reservation: bool,
}

/// A site and what there is to say about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SiteSeen {
    /// The site.
    pub site: Site,
    /// Remarks, each with the command whose output it is about.
    pub remarks: Vec<Remark>,
}

impl Site {
    /// The partition of that name.
    pub fn partition(&self, name: &str) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.name == name)
    }

    /// The partition of jobs that name none.
    pub fn default_partition(&self) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.default)
    }
}

impl Defaults {
    /// These, and where they say nothing the others. Memory has one default: that of the partition, whatever it is for.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        let silent = self.memory_mib_per_host.is_none()
            && self.memory_mib_per_cpu.is_none()
            && self.memory_mib_per_gpu.is_none();
        let memory = if silent { others } else { self };
        Self {
            memory_mib_per_host: memory.memory_mib_per_host,
            memory_mib_per_cpu: memory.memory_mib_per_cpu,
            memory_mib_per_gpu: memory.memory_mib_per_gpu,
            cpus_per_gpu: self.cpus_per_gpu.or(others.cpus_per_gpu),
            most_memory_mib_per_host: self
                .most_memory_mib_per_host
                .or(others.most_memory_mib_per_host),
            most_memory_mib_per_cpu: self
                .most_memory_mib_per_cpu
                .or(others.most_memory_mib_per_cpu),
        }
    }
}

/// Asks at once for all that a plan needs: the site, and what it has (see [`observe`](crate::observe), in [`Form::Quick`]).
///
/// # Errors
/// If settings, partitions, hosts, jobs or reservations cannot be had.
pub fn look(runner: &mut dyn Runner) -> Result<(SiteSeen, Observed), ObserveError> {
    let known = Known::ask(runner, Form::Quick)?;
    let mut questions = known.questions();
    questions.extend([CONFIG, PARTITIONS]);
    let mut ahead = Ahead::ask(runner, &questions);
    Ok((site(&mut ahead)?, known.observe(&mut ahead)?))
}

/// Asks for settings and partitions.
///
/// # Errors
/// If either cannot be had.
pub fn site(runner: &mut dyn Runner) -> Result<SiteSeen, ObserveError> {
    let mut asking = Asking::new(runner);
    let config = asking.first_of(&[(CONFIG, text::config)]);
    let partitions = asking.first_of(&[(PARTITIONS, text::partitions)]);
    let remarks = asking.remarks;
    match (config, partitions) {
        (Some(config), Some(partitions)) => {
            Ok(SiteSeen { site: Site { config, partitions }, remarks })
        }
        _ => Err(ObserveError { reasons: remarks }),
    }
}

#[cfg(test)]
#[path = "tests/site.rs"]
mod tests;
