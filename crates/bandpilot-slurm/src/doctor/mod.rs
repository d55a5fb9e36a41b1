//! What is missing or risky in a Slurm installation, with the mend.
//!
//! [`ask`] puts the questions, the caller reads the files that [`Facts::folder`] and [`device_paths`] name, and
//! [`examine`] judges. Every check gives one [`Finding`], also if it could not be made.

mod ask;
mod gpus;
mod service;
mod settings;

use std::collections::BTreeMap;

use bandpilot_core::Cluster;

pub use ask::{Facts, Partition, ask};
pub use gpus::device_paths;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it has to be.
    Ok,
    /// It could not be found out.
    Unknown,
    /// It works, and something about it will surprise.
    Warning,
    /// Named GPUs do not work like this.
    Error,
}

impl State {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check; these do not change.
    pub id: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do; empty if nothing.
    pub mend: String,
}

/// The files of Slurm's folder; `None` for one that is not there or cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// True if the folder could be looked into at all.
    pub seen: bool,
    /// `gres.conf`.
    pub gres: Option<String>,
    /// `cgroup.conf`.
    pub cgroup: Option<String>,
    /// `job_submit.lua`.
    pub job_submit: Option<String>,
}

/// What a device file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// A character device with this minor number.
    Character(u32),
    /// Something else, in a word or two: `regular file`, `not there`.
    Other(String),
}

/// Everything that is judged.
#[derive(Debug, Clone, Copy)]
pub struct Exam<'a> {
    /// What Slurm said.
    pub facts: &'a Facts,
    /// What its files say.
    pub files: &'a Files,
    /// The files of this host's GPUs, by path.
    pub devices: &'a BTreeMap<String, Device>,
    /// The cluster that Slurm is compared with.
    pub cluster: Option<&'a Cluster>,
}

type Check = fn(&Exam) -> (State, String, String);

const CHECKS: [(&str, Check); 29] = [
    ("answers", service::answers),
    ("version", service::version),
    ("commands", service::commands),
    ("clock", service::clock),
    ("select-type", settings::select_type),
    ("memory-default", settings::memory_default),
    ("gres-types", gpus::gres_types),
    ("gpu-types", gpus::gpu_types),
    ("gpu-types-alike", gpus::gpu_types_alike),
    ("auto-detect", gpus::auto_detect),
    ("device-order", gpus::device_order),
    ("devices", gpus::devices),
    ("constrain-devices", gpus::constrain_devices),
    ("driver", gpus::driver),
    ("proctrack", settings::proctrack),
    ("task-plugin", settings::task_plugin),
    ("accounting", settings::accounting),
    ("accounting-tres", settings::accounting_tres),
    ("min-job-age", settings::min_job_age),
    ("scheduler", settings::scheduler),
    ("het-jobs", settings::het_jobs),
    ("job-submit", settings::job_submit),
    ("array-size", settings::array_size),
    ("interactive-step", settings::interactive_step),
    ("prolog-flags", settings::prolog_flags),
    ("partitions", settings::partitions),
    ("topology", settings::topology),
    ("cluster-hosts", gpus::cluster_hosts),
    ("cluster-gpus", gpus::cluster_gpus),
];

/// Makes all checks, in a fixed order.
pub fn examine(exam: &Exam) -> Vec<Finding> {
    let finding = |&(id, check): &(&'static str, Check)| {
        let (state, found, mend) = check(exam);
        Finding { id, state, found, mend }
    };
    CHECKS.iter().map(finding).collect()
}

type Verdict = (State, String, String);

fn ok(found: impl Into<String>) -> Verdict {
    (State::Ok, found.into(), String::new())
}

fn unknown(found: impl Into<String>, mend: impl Into<String>) -> Verdict {
    (State::Unknown, found.into(), mend.into())
}

fn warning(found: impl Into<String>, mend: impl Into<String>) -> Verdict {
    (State::Warning, found.into(), mend.into())
}

fn error(found: impl Into<String>, mend: impl Into<String>) -> Verdict {
    (State::Error, found.into(), mend.into())
}

/// For checks of settings when Slurm gave none.
fn no_config() -> Verdict {
    unknown("scontrol show config gave nothing", "see the check 'answers'")
}

#[cfg(test)]
#[path = "../tests/doctor.rs"]
mod tests;
