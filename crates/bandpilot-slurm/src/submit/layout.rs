//! Where the parts of a job go.

use bandpilot_core::GpuMask;
use bandpilot_manager::Plan;

/// Hosts that give the same GPUs: one component of a (heterogeneous) job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Component {
    /// Hosts in Slurm's order, which is the order of its tasks.
    pub hosts: Vec<String>,
    /// GPUs of each of them.
    pub gpus: GpuMask,
    /// The gres types of these GPUs on these hosts, in the order of the indexes (`g0`, `g1`).
    pub kinds: Vec<String>,
    /// Tasks on each host.
    pub tasks_per_host: usize,
    /// CPUs for a task; `None` leaves it to Slurm.
    pub cpus_per_task: Option<usize>,
    /// Memory on each host in MiB; `None` leaves it to Slurm, 0 is all of it.
    pub memory_mib_per_host: Option<u64>,
}

/// A planned job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Which GPUs, in the order of ranks.
    pub plan: Plan,
    /// Its components in the order of ranks; one if all hosts give the same GPUs.
    pub components: Vec<Component>,
    /// The partition that it goes to; empty for the default one.
    pub partition: String,
}

impl Component {
    /// `gpu:g0:1,gpu:g1:1`.
    pub fn gres(&self) -> String {
        let parts: Vec<String> = self.kinds.iter().map(|kind| format!("gpu:{kind}:1")).collect();
        parts.join(",")
    }
}
