//! The audit: an append-only text file of what was planned for every job, and what it was given.
//!
//! The first line is [`HEADER`], every further line one [`Entry`] as a JSON object:
//!
//! ```text
//! {"format":"bandpilot-audit","version":1}
//! {"what":"plan","plan":"7f3a","at_s":1796063660,"user":"ann",...}
//! {"what":"submitted","plan":"7f3a","at_s":1796063660,"job":"12"}
//! {"what":"fact","plan":"7f3a","at_s":1796063675,"job":"12","source":"slurm",...}
//! ```
//!
//! Several submitters append to one file, so the entries of a plan stand among those of others. Lines are only ever
//! appended. A line that was not written to its end is reported and left out; the next append closes it with [`TORN`].
//! [`read`] folds the entries: what is known of each plan, whatever stands between its lines.

mod fold;
mod line;

use std::collections::BTreeMap;

use bandpilot_core::{Cluster, GpuMask};
use bandpilot_readers::Diagnostic;

use crate::{Fact, Plan};

pub use fold::{Audit, Known, State, read};

/// The first line, without its line end.
pub const HEADER: &str = r#"{"format":"bandpilot-audit","version":1}"#;

/// What ends a line that was torn and then closed by a later append.
pub const TORN: &str = "#torn";

const FORMAT: &str = "bandpilot-audit";
const VERSION: u64 = 1;
const COMMENT: &str = "bandpilot:";

/// Some GPUs of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostGpus {
    /// The host.
    pub host: String,
    /// Its GPUs by index.
    pub gpus: GpuMask,
    /// Their UUIDs by index, where they are known.
    pub uuids: BTreeMap<usize, String>,
}

/// A predicted bandwidth, GB/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// Effective bus bandwidth.
    pub gbytes_per_s: f64,
    /// Lower end of its band.
    pub low: f64,
    /// Upper end of its band.
    pub high: f64,
}

/// When a planned job is to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// Its GPUs were free.
    #[default]
    Now,
    /// It waits for these jobs, which hold some of its GPUs.
    After(Vec<String>),
}

/// What was planned for a job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Planned {
    /// Who submits it.
    pub user: String,
    /// How it is submitted: `sbatch` or `srun`.
    pub program: String,
    /// What was asked for, in words.
    pub asked: String,
    /// Its GPUs host by host, in the order of ranks. No host stands twice.
    pub gpus: Vec<HostGpus>,
    /// It takes its hosts whole.
    pub whole_hosts: bool,
    /// When it is to start.
    pub start: Start,
    /// Predicted bandwidth, if a model was asked.
    pub predicted: Option<Predicted>,
    /// The model in words; may be empty.
    pub model: String,
    /// When the snapshot was taken that it was planned on, seconds since 1970.
    pub snapshot_at_s: i64,
    /// Index of the task, if it is one of an array; then the plan's id is that of [`task_id`].
    pub array_task: Option<u32>,
}

/// Who said what a job was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Slurm.
    Slurm,
    /// The driver of the host that it runs on.
    Host,
}

/// What a job was seen to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The job in the manager's notation: `12`, `12_3` for a task of an array.
    pub job: String,
    /// Who said so.
    pub source: Source,
    /// Its GPUs by host; `None` if that could not be known any more, empty if it never held any.
    pub gpus: Option<Vec<HostGpus>>,
    /// True if they are those of the plan; `None` if that cannot be said, because it was never seen holding GPUs.
    pub agrees: Option<bool>,
    /// What differs, or why nothing can be said; empty if it agrees.
    pub differs: String,
}

/// What an entry says of its plan.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// It was made; the job is about to be submitted.
    Plan(Box<Planned>),
    /// It was submitted as this job.
    Submitted {
        /// The job in the manager's notation.
        job: String,
    },
    /// Its job was taken back before it started.
    Withdrawn {
        /// The job in the manager's notation.
        job: String,
        /// Why.
        why: String,
        /// Id of the plan that takes its place.
        replaced_by: Option<String>,
    },
    /// It was not submitted.
    Failed {
        /// Why, in the manager's words where it refused.
        why: String,
    },
    /// Its job was looked at.
    Fact(Seen),
}

/// One line of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Id of the plan.
    pub plan: String,
    /// When, seconds since 1970.
    pub at_s: i64,
    /// What.
    pub what: What,
}

/// The comment by which the job of a plan is found in the manager's queue.
pub fn comment(plan: &str) -> String {
    format!("{COMMENT}{plan}")
}

/// The plan whose [`comment`] stands among the words of a job's comment.
pub fn plan_of_comment(text: &str) -> Option<&str> {
    let word = text.split_whitespace().find_map(|word| word.strip_prefix(COMMENT));
    word.filter(|id| !id.is_empty())
}

/// Id of the plan of one task, of the id that the array has in its [`comment`].
pub fn task_id(array: &str, task: u32) -> String {
    format!("{array}_{task}")
}

/// An entry as a line, with its end.
pub fn line(entry: &Entry) -> String {
    let mut text = line::write(entry);
    text.push('\n');
    text
}

/// What must be appended to `existing` so that the file holds these entries too. Nothing is looked for twice: what is
/// given is appended.
///
/// ```
/// use bandpilot_manager::audit::{self, Entry, What};
/// let entry = Entry { plan: "7f3a".into(), at_s: 5, what: What::Submitted { job: "12".into() } };
/// let text = audit::append("", &[entry]).unwrap();
/// assert_eq!(audit::read(&text).value.plans[0].job.as_deref(), Some("12"));
/// ```
///
/// # Errors
/// If `existing` is no audit, or one of a newer version.
pub fn append(existing: &str, entries: &[Entry]) -> Result<String, Diagnostic> {
    let mut text = String::new();
    if fold::is_torn_header(existing) {
        text.push_str(HEADER.get(existing.len()..).unwrap_or(""));
        text.push('\n');
    } else {
        fold::check_header(existing)?;
        if let Some(tail) = existing.rsplit('\n').next().filter(|tail| !tail.is_empty()) {
            let sound = tail == HEADER || tail.starts_with('#') || line::read(tail).is_ok();
            text.push_str(if sound { "\n" } else { "#torn\n" });
        }
    }
    text.extend(entries.iter().map(line));
    Ok(text)
}

impl HostGpus {
    /// The same GPUs with the UUIDs that a cluster knows of them.
    pub fn list(gpus: &[(String, GpuMask)], cluster: Option<&Cluster>) -> Vec<Self> {
        let uuids = |host: &str, mask: GpuMask| {
            let known = cluster.and_then(|cluster| Some(cluster.host(cluster.find_host(host)?)));
            let ids = known.map_or(&[][..], |host| &host.gpu_ids);
            mask.iter().filter_map(|at| Some((at, ids.get(at)?.uuid.clone()?))).collect()
        };
        let one = |(host, mask): &(String, GpuMask)| Self {
            host: host.clone(),
            gpus: *mask,
            uuids: uuids(host, *mask),
        };
        gpus.iter().map(one).collect()
    }

    /// Without UUIDs.
    pub fn masks(list: &[Self]) -> Vec<(String, GpuMask)> {
        list.iter().map(|one| (one.host.clone(), one.gpus)).collect()
    }
}

impl Planned {
    /// The plan that a job is compared with.
    pub fn plan(&self, id: &str) -> Plan {
        Plan { id: id.to_owned(), gpus: HostGpus::masks(&self.gpus), whole_hosts: self.whole_hosts }
    }

    /// What is to be written down of a fact that the manager tells; `None` if the job still waits.
    pub fn judge(&self, job: &str, fact: &Fact) -> Option<Seen> {
        let held = |gpus: &[(String, GpuMask)], unnamed: usize| {
            let differs = self.plan("").differs(gpus);
            let (agrees, differs) = match (unnamed, differs) {
                (0, None) => (Some(true), String::new()),
                (0, Some(differs)) => (Some(false), differs),
                // More than was planned, or perhaps just what was planned.
                (more, None) => {
                    (Some(false), format!("has {more} GPUs more, whose indexes are not told"))
                }
                (more, Some(_)) => (None, format!("the indexes of {more} GPUs are not told")),
            };
            (Some(HostGpus::list(gpus, None)), agrees, differs)
        };
        let unsaid = |gpus, why: &str| (gpus, None, why.to_owned());
        let (gpus, agrees, differs) = match fact {
            Fact::Waits(_) => return None,
            Fact::Runs { gpus, unnamed } => held(gpus, *unnamed),
            Fact::Over { gpus: Some(gpus), .. } if !gpus.is_empty() => held(gpus, 0),
            Fact::Over { gpus: Some(gpus), state } if gpus.is_empty() => {
                (Some(Vec::new()), None, format!("over ({state}), it never had GPUs"))
            }
            Fact::Over { state, .. } => {
                (None, None, format!("over ({state}), never seen while it ran"))
            }
            Fact::Unknown => unsaid(None, "over, never seen while it ran"),
        };
        Some(Seen { job: job.to_owned(), source: Source::Slurm, gpus, agrees, differs })
    }
}

impl Source {
    /// The word for it in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Host => "host",
        }
    }
}

#[cfg(test)]
#[path = "../tests/audit.rs"]
mod tests;
