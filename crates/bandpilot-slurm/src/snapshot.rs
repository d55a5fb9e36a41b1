//! What Slurm had at one moment.

use std::collections::BTreeMap;

use bandpilot_core::{GpuMask, MAX_GPUS_PER_HOST};
use bandpilot_readers::Diagnostic;

/// Hosts and jobs at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// When it was taken, seconds since 1970.
    pub taken_at_s: i64,
    /// Hosts in the order in which Slurm gives them.
    pub hosts: Vec<Host>,
    /// Jobs that wait or hold anything, by id.
    pub jobs: Vec<Job>,
    /// Reservations, by name.
    pub reservations: Vec<Reservation>,
}

/// A host (Slurm: a node).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Host {
    /// Slurm's name of it.
    pub name: String,
    /// Base state in capitals: `IDLE`, `MIXED`, `ALLOCATED`, `DOWN`, ...
    pub state: String,
    /// What else holds, in capitals: `DRAIN`, `RESERVED`, `PLANNED`, ...
    pub flags: Vec<String>,
    /// Why it is drained or down; may be empty.
    pub reason: String,
    /// CPUs for jobs as Slurm counts them (cores, or threads where it is told so).
    pub cpus: u32,
    /// Threads of a core, 1 if not said. Slurm gives out whole cores.
    pub threads_per_core: u32,
    /// CPUs of jobs.
    pub cpus_in_use: u32,
    /// Memory for jobs in MiB.
    pub memory_mib: u64,
    /// Memory of jobs in MiB.
    pub memory_in_use_mib: u64,
    /// Active features.
    pub features: Vec<String>,
    /// Partitions that it is in.
    pub partitions: Vec<String>,
    /// GPUs by index.
    pub gpus: Vec<Gpu>,
}

/// One GPU of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Gpu {
    /// Type, as the site names it.
    pub kind: Option<String>,
    /// True if the host counts it as taken.
    pub in_use: bool,
    /// The job that holds it, if one is known to.
    pub job: Option<u32>,
}

/// A time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Nothing was said: the partition's holds.
    #[default]
    Unset,
    /// So many seconds.
    Seconds(u64),
    /// None.
    Unlimited,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobState {
    /// It waits.
    #[default]
    Pending,
    /// It runs, or is about to.
    Running,
    /// It is stopped and keeps its GPUs.
    Suspended,
    /// It is over, and its GPUs are not free yet.
    Completing,
    /// It is over.
    Finished,
}

/// The tasks of a job array that one entry stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayTasks {
    /// Id of the array.
    pub job: u32,
    /// Task indexes as Slurm writes them, `7` or `1-3%1`.
    pub tasks: String,
}

/// A component of a heterogeneous job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HetPart {
    /// Id of the first component.
    pub leader: u32,
    /// Number of this component, from 0.
    pub offset: u32,
}

/// What a job asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Hosts at least.
    pub hosts: u32,
    /// CPUs in all.
    pub cpus: u32,
    /// Tasks in all, if said.
    pub tasks: Option<u32>,
    /// Memory on each host in MiB, if said.
    pub memory_mib_per_host: Option<u64>,
    /// Memory for each CPU in MiB, if said.
    pub memory_mib_per_cpu: Option<u64>,
    /// Resources on each host as Slurm writes them, `gres:gpu:g3:1`.
    pub tres_per_host: String,
    /// Resources of the whole job as Slurm writes them.
    pub tres_per_job: String,
    /// Features that its hosts must have, as Slurm writes them.
    pub features: String,
    /// Hosts that it must have, as a hostlist.
    pub named_hosts: String,
    /// Hosts that it must not have, as a hostlist.
    pub excluded_hosts: String,
    /// Its time limit.
    pub time_limit: Limit,
    /// Jobs that it waits for, as Slurm writes them.
    pub dependency: String,
}

/// A job. Empty texts stand for what is not set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Id, unique.
    pub id: u32,
    /// Name; users choose it freely.
    pub name: String,
    /// Owner.
    pub user: String,
    /// Account that pays.
    pub account: String,
    /// Partition, or several that it may start in.
    pub partition: String,
    /// Quality of service.
    pub qos: String,
    /// Reservation that it runs in.
    pub reservation: String,
    /// Where it stands.
    pub state: JobState,
    /// Why it waits.
    pub reason: String,
    /// Priority; 0 is held.
    pub priority: u64,
    /// Hosts that it has, in Slurm's order.
    pub hosts: Vec<String>,
    /// The GPUs that it has by host; hosts without any are left out.
    pub gpus: Vec<(String, GpuMask)>,
    /// GPUs that it has whose indexes Slurm did not tell.
    pub unnamed_gpus: usize,
    /// Resources that it counts as, in Slurm's words: `cpu=2,node=1,gres/gpu=2`. Known also of a job that is over.
    pub tres: String,
    /// What it asks for.
    pub request: Request,
    /// When it was submitted, seconds since 1970.
    pub submit_s: Option<i64>,
    /// When it could have started first, seconds since 1970.
    pub eligible_s: Option<i64>,
    /// When it started or is expected to, seconds since 1970.
    pub start_s: Option<i64>,
    /// When it ends at the latest, seconds since 1970.
    pub end_s: Option<i64>,
    /// Set for tasks of an array.
    pub array: Option<ArrayTasks>,
    /// Set for components of a heterogeneous job.
    pub het: Option<HetPart>,
}

/// A reservation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reservation {
    /// Name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// From when on, seconds since 1970.
    pub start_s: Option<i64>,
    /// Until when, seconds since 1970.
    pub end_s: Option<i64>,
    /// Users who may use it, as Slurm writes them.
    pub users: String,
    /// Accounts that may use it, as Slurm writes them.
    pub accounts: String,
    /// True if it holds at the moment.
    pub active: bool,
}

/// Flags of a host that keep new jobs off it.
const CLOSED: [&str; 14] = [
    "DRAIN",
    "DRAINING",
    "DRAINED",
    "FAIL",
    "MAINT",
    "MAINTENANCE",
    "RESERVED",
    "NOT_RESPONDING",
    "INVALID_REG",
    "REBOOT_REQUESTED",
    "REBOOT_ISSUED",
    "POWERING_DOWN",
    "POWERED_DOWN",
    "POWER_DOWN",
];

impl Host {
    /// Why Slurm starts nothing on it; `None` if it does.
    pub fn closed_by(&self) -> Option<&str> {
        if !matches!(self.state.as_str(), "IDLE" | "MIXED" | "ALLOCATED") {
            return Some(if self.state.is_empty() { "UNKNOWN" } else { &self.state });
        }
        self.flags.iter().map(String::as_str).find(|flag| CLOSED.contains(flag))
    }

    /// The GPUs that it has.
    pub fn all_gpus(&self) -> GpuMask {
        GpuMask::first(self.gpus.len())
    }

    /// The GPUs of a type.
    pub fn gpus_of_kind(&self, kind: &str) -> GpuMask {
        let of_kind = |(index, gpu): (usize, &Gpu)| {
            (gpu.kind.as_deref() == Some(kind)).then_some(GpuMask::single(index))
        };
        let masks = self.gpus.iter().enumerate().take(MAX_GPUS_PER_HOST).filter_map(of_kind);
        masks.fold(GpuMask::EMPTY, GpuMask::union)
    }

    /// True if every GPU has a type of its own, so that a job can name it.
    pub fn names_gpus(&self) -> bool {
        let kinds = self.gpus.iter().map(|gpu| gpu.kind.as_deref());
        let mut kinds: Vec<Option<&str>> = kinds.collect();
        kinds.sort_unstable();
        kinds.iter().all(Option::is_some) && kinds.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The GPUs that are taken.
    pub fn gpus_in_use(&self) -> GpuMask {
        let taken = |(index, gpu): (usize, &Gpu)| gpu.in_use.then_some(GpuMask::single(index));
        let masks = self.gpus.iter().enumerate().take(MAX_GPUS_PER_HOST).filter_map(taken);
        masks.fold(GpuMask::EMPTY, GpuMask::union)
    }
}

impl Job {
    /// `12`, `12_3` for a task of an array, `12+1` for a component of a heterogeneous job.
    pub fn label(&self) -> String {
        match (&self.het, &self.array) {
            (Some(het), _) => format!("{}+{}", het.leader, het.offset),
            (_, Some(array)) if array.tasks.bytes().all(|b| b.is_ascii_digit()) => {
                format!("{}_{}", array.job, array.tasks)
            }
            (_, Some(array)) => format!("{}_[{}]", array.job, array.tasks),
            _ => self.id.to_string(),
        }
    }
}

impl Snapshot {
    /// Puts together what was read apart: notes on each GPU which job holds it, leaves out jobs that are over.
    pub fn assemble(
        taken_at_s: i64,
        hosts: Vec<Host>,
        mut jobs: Vec<Job>,
        mut reservations: Vec<Reservation>,
    ) -> (Self, Vec<Diagnostic>) {
        jobs.retain(|job| job.state != JobState::Finished);
        jobs.sort_by_key(|job| job.id);
        reservations.sort_by(|a, b| a.name.cmp(&b.name));
        let mut snapshot = Self { taken_at_s, hosts, jobs, reservations };
        let remarks = snapshot.note_holders();
        (snapshot, remarks)
    }

    /// The host of that name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// The job of that id.
    pub fn job(&self, id: u32) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    fn note_holders(&mut self) -> Vec<Diagnostic> {
        let mut remarks = Vec::new();
        let names = self.hosts.iter().enumerate();
        let places: BTreeMap<String, usize> = names.map(|(i, h)| (h.name.clone(), i)).collect();
        for job in &self.jobs {
            let label = job.label();
            for (name, mask) in &job.gpus {
                let Some(host) = places.get(name).and_then(|place| self.hosts.get_mut(*place))
                else {
                    let message = format!("job {label} holds GPUs on {name}, which is no host");
                    remarks.push(Diagnostic::warning("", message));
                    continue;
                };
                for index in mask.iter() {
                    let Some(gpu) = host.gpus.get_mut(index) else {
                        let message =
                            format!("job {label} holds {name}:{index}, which the host has not");
                        remarks.push(Diagnostic::warning("", message));
                        continue;
                    };
                    gpu.in_use = true;
                    match gpu.job {
                        Some(other) => {
                            let message = format!("{name}:{index} is held by {other} and {label}");
                            remarks.push(Diagnostic::warning("", message));
                        }
                        None => gpu.job = Some(job.id),
                    }
                }
            }
            if job.unnamed_gpus > 0 {
                let message =
                    format!("Slurm does not say which GPUs job {label} has ({})", job.unnamed_gpus);
                let help = "what the hosts count as taken is not free, whoever holds it";
                remarks.push(Diagnostic::warning("", message).help(help));
            }
        }
        remarks
    }
}

/// Where a job stands, of Slurm's words for it; `None` if one is unknown.
pub(crate) fn job_state<'t>(words: impl IntoIterator<Item = &'t str>) -> Option<JobState> {
    let mut state = None;
    for word in words {
        let this = match word {
            "COMPLETING" => return Some(JobState::Completing),
            "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => JobState::Pending,
            "RUNNING" | "CONFIGURING" | "RESIZING" | "SIGNALING" | "STAGE_OUT" | "STOPPED"
            | "POWER_UP_NODE" => JobState::Running,
            "SUSPENDED" => JobState::Suspended,
            "COMPLETED" | "CANCELLED" | "FAILED" | "TIMEOUT" | "NODE_FAIL" | "PREEMPTED"
            | "BOOT_FAIL" | "DEADLINE" | "OUT_OF_MEMORY" | "REVOKED" | "LAUNCH_FAILED"
            | "RECONFIG_FAIL" | "UPDATE_DB" => JobState::Finished,
            _ => return None,
        };
        // The first word is the state, the others are flags of it.
        state = state.or(Some(this));
    }
    state
}
