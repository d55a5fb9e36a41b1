//! What a job asks for, of the options that bandpilot heeds.

use crate::Limit;

/// How many GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuCount {
    /// In all (`--gpus`).
    Total(usize),
    /// On every host (`--gpus-per-node`, `--gres=gpu:N`).
    PerHost(usize),
    /// For every task (`--gpus-per-task`).
    PerTask(usize),
}

/// How much memory, MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Memory {
    /// Nothing was said: the partition's default holds.
    #[default]
    Unset,
    /// On every host (`--mem`); 0 is all of it.
    PerHost(u64),
    /// For every CPU (`--mem-per-cpu`).
    PerCpu(u64),
    /// For every GPU (`--mem-per-gpu`).
    PerGpu(u64),
}

/// How many hosts (`-N`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hosts {
    /// At least, from 1.
    pub least: usize,
    /// At most.
    pub most: usize,
}

/// What a job asks for. Empty lists and texts stand for what was not said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// GPUs.
    pub gpus: GpuCount,
    /// The GPU type that it names (`gpu:h100:4`): the model of the cluster file, compared without case.
    pub gpu_model: Option<String>,
    /// Hosts.
    pub hosts: Option<Hosts>,
    /// Tasks in all (`-n`).
    pub tasks: Option<usize>,
    /// Tasks on every host (`--ntasks-per-node`).
    pub tasks_per_host: Option<usize>,
    /// Tasks for each GPU (`--ntasks-per-gpu`). Where the number of tasks follows from it, [`Ask::tasks`] or
    /// [`Ask::tasks_per_host`] says it too.
    pub tasks_per_gpu: Option<usize>,
    /// CPUs for a task (`-c`).
    pub cpus_per_task: Option<usize>,
    /// CPUs for a GPU (`--cpus-per-gpu`).
    pub cpus_per_gpu: Option<usize>,
    /// Memory.
    pub memory: Memory,
    /// Hosts that it must have (`-w`), written out.
    pub named_hosts: Vec<String>,
    /// Hosts that it must not have (`-x`), written out.
    pub excluded_hosts: Vec<String>,
    /// Alternatives of features (`-C`); all hosts have to meet the same one. Empty if nothing was said.
    pub features: Vec<Features>,
    /// Partitions (`-p`), any of which will do.
    pub partitions: Vec<String>,
    /// Reservation (`--reservation`).
    pub reservation: String,
    /// Whole hosts (`--exclusive`).
    pub exclusive: bool,
    /// Time limit (`-t`).
    pub time_limit: Limit,
    /// Account (`-A`), which a partition or reservation may want.
    pub account: String,
    /// Not before this (`--begin`), as the user wrote it.
    pub begin: String,
    /// Jobs that it waits for (`-d`), as the user wrote it.
    pub dependency: String,
    /// The indexes of an array (`-a`) in order.
    pub array: Option<ArrayIndexes>,
}

/// What the features of a host must be: the outer list is met if one of each inner list is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features(pub Vec<Vec<String>>);

/// The tasks of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayIndexes {
    /// As the user wrote it, `0-9%2`.
    pub written: String,
    /// Written out, ascending, each once.
    pub indexes: Vec<u32>,
    /// So many run at a time, if said.
    pub at_once: Option<usize>,
}

impl Features {
    /// True if a host with these features meets it.
    pub fn met_by(&self, has: &[String]) -> bool {
        self.0.iter().all(|any| any.iter().any(|feature| has.contains(feature)))
    }
}
