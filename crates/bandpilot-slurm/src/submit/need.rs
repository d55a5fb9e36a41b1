//! Cores and memory that a job needs on a host.

use super::ask::{Ask, Memory};
use crate::site::{Consumable, Cores, Defaults};
use crate::{Host, site::Partition, site::Site};

/// What a job needs, for any host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// CPUs for a task, if said.
    pub cpus_per_task: Option<usize>,
    /// CPUs for a GPU, if said or the partition's default.
    pub cpus_per_gpu: Option<usize>,
    /// Memory, with the partition's default.
    pub memory: Memory,
    /// The memory is the user's word, not a default.
    pub memory_asked: bool,
    most_memory_per_cpu: Option<u64>,
    consumable: Consumable,
}

/// What it needs on one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// CPUs.
    pub cpus: usize,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// All memory of the host, whatever it is.
    pub all_memory: bool,
}

impl Need {
    /// Of a job in a partition.
    pub fn new(ask: &Ask, site: &Site, partition: &Partition) -> Self {
        let defaults = partition.defaults.or(site.config.defaults);
        let default_cpus = defaults.cpus_per_gpu.filter(|_| ask.cpus_per_task.is_none());
        let memory_asked = ask.memory != Memory::Unset;
        let consumable = site.config.consumable;
        let memory = if memory_asked { ask.memory } else { default_memory(defaults, consumable) };
        Self {
            cpus_per_task: ask.cpus_per_task,
            cpus_per_gpu: ask.cpus_per_gpu.or(default_cpus),
            memory,
            memory_asked,
            most_memory_per_cpu: defaults.most_memory_mib_per_cpu,
            consumable,
        }
    }

    /// What so many GPUs with so many tasks need on a host.
    pub fn on(&self, host: &Host, gpus: usize, tasks: usize) -> Load {
        let asked = match self.cpus_per_gpu {
            // Tasks of a host have as many CPUs each.
            Some(each) => {
                gpus.saturating_mul(each).div_ceil(tasks.max(1)).saturating_mul(tasks).max(tasks)
            }
            None => tasks.saturating_mul(self.cpus_per_task.unwrap_or(1).max(1)),
        };
        let mut cpus = self.in_cores(host, asked);
        let (memory_mib, all_memory) = match self.memory {
            Memory::Unset => (0, false),
            Memory::PerHost(0) => (host.memory_mib, true),
            Memory::PerHost(mib) => (mib, false),
            Memory::PerCpu(each) => (each.saturating_mul(cpus as u64), false),
            Memory::PerGpu(each) => (each.saturating_mul(gpus as u64), false),
        };
        if let Some(each) = self.most_memory_per_cpu.filter(|each| *each > 0) {
            // Slurm gives such a job more CPUs.
            let needed = memory_mib.div_ceil(each) as usize;
            if !all_memory && needed > cpus {
                cpus = self.in_cores(host, needed);
            }
        }
        Load { cpus, memory_mib, all_memory }
    }

    fn in_cores(&self, host: &Host, cpus: usize) -> usize {
        let threads = host.threads_per_core.max(1) as usize;
        if self.consumable.cores == Cores::Whole {
            cpus.div_ceil(threads).saturating_mul(threads)
        } else {
            cpus
        }
    }
}

/// Where nothing is said and nothing is the default, a job gets all memory of its hosts.
fn default_memory(defaults: Defaults, consumable: Consumable) -> Memory {
    let set = |mib: Option<u64>| mib.filter(|mib| *mib > 0);
    if let Some(each) = set(defaults.memory_mib_per_gpu) {
        return Memory::PerGpu(each);
    }
    if let Some(each) = set(defaults.memory_mib_per_cpu) {
        return Memory::PerCpu(each);
    }
    match set(defaults.memory_mib_per_host) {
        Some(all) => Memory::PerHost(all),
        None if consumable.memory => Memory::PerHost(0),
        None => Memory::Unset,
    }
}
