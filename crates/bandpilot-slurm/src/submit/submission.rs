//! A submit that was read.

use std::collections::BTreeSet;

use bandpilot_manager::exchange::Call;
use bandpilot_readers::Diagnostic;

use super::ask::Ask;
use super::options::{GpuType, Program};
use crate::Remark;

/// What the words of a user come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A job that asks for GPUs.
    Planned(Box<Submission>),
    /// Slurm's own affair: it is given what the user wrote.
    Untouched {
        /// Why there is nothing to plan.
        why: Untouched,
        /// What the user wrote.
        call: Call,
    },
}

/// Why there is nothing to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untouched {
    /// No option asks for GPUs.
    NoGpus,
    /// srun runs a step inside of a job, which has its GPUs.
    InsideJob,
    /// An option with which there is no job: `--help`, `--test-only`, `--jobid`.
    NoJob(String),
    /// Slurm refuses it whatever is planned: no command, or a script that does not begin with `#!`.
    NothingToRun,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A batch script.
    Script {
        /// Its text as it was read.
        text: String,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A command line for a shell (`--wrap`).
    Wrap(String),
    /// A command with its arguments (srun).
    Command(Vec<String>),
}

/// Which environment variables the job gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Export {
    /// All of the submitter, and perhaps further ones; as written, empty for the default.
    All(String),
    /// Those of a list, as written.
    List(String),
    /// None of the submitter, as written.
    None(String),
    /// Those of a file.
    File(String),
}

/// An option that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// As it was written.
    pub words: Vec<String>,
    /// For the first component only.
    pub once: bool,
}

/// A job that asks for GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// How it is submitted.
    pub program: Program,
    /// What it asks for. If several types of GPUs are named, [`Ask::gpus`] counts them all, and names none.
    pub ask: Ask,
    /// The GPUs as they are named, type by type: see [`Submission::is_planned_by_user`].
    pub gpu_types: Vec<GpuType>,
    /// GPUs that each task is to see, if said (`--gpus-per-task`).
    pub gpus_per_task: Option<usize>,
    /// Generic resources of every host that are no GPUs, as written.
    pub other_gres: Vec<String>,
    /// Options that are passed on, in their order: those of the script, then those of the command line.
    pub passed: Vec<Passed>,
    /// What is run.
    pub work: Work,
    /// The job's name; empty if Slurm is to find it (srun).
    pub job_name: String,
    /// The user's comment.
    pub comment: String,
    /// Which environment variables the job gets.
    pub export: Export,
    /// Constraint and time limit as written; empty if not.
    pub written: Written,
    /// True if the user wants the plain id (`--parsable`), which is asked for in any case.
    pub parsable: bool,
    /// True if the user wants no id (`--quiet`), which sbatch prints in any case: it is not told.
    pub quiet: bool,
    /// True if the user waits for the end of the job (`--wait`, `SBATCH_WAIT`), which is not left to sbatch.
    pub waits: bool,
    /// Names of the environment variables of the submitter.
    pub variables: BTreeSet<String>,
    /// Environment variables that say what is now said by options.
    pub superseded: Vec<String>,
    /// What is to be said to the user.
    pub remarks: Vec<Remark>,
    /// What the user wrote, for Slurm alone: if the GPUs turn out to be named one by one.
    pub untouched: Call,
}

/// Values that are handed over as the user wrote them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// `-C`.
    pub constraint: String,
    /// `-t`.
    pub time: String,
    /// `--gpu-bind` was said, by option or variable.
    pub gpu_bind: bool,
}

impl Default for Work {
    fn default() -> Self {
        Self::Command(Vec::new())
    }
}

impl Submission {
    /// True if the user has named the GPUs one by one, with types that stand for a GPU index. Then nothing is to be
    /// planned, and [`Submission::untouched`] is the call.
    ///
    /// # Errors
    /// If several types are named that are not all of that kind.
    pub fn is_planned_by_user(&self, is_index: impl Fn(&str) -> bool) -> Result<bool, Remark> {
        let named = |gpus: &GpuType| gpus.name.as_deref().is_some_and(&is_index);
        if !self.gpu_types.is_empty() && self.gpu_types.iter().all(named) {
            return Ok(true);
        }
        if self.gpu_types.len() < 2 {
            return Ok(false);
        }
        let error =
            Diagnostic::error("GPUs", "are asked for in several types, which is not planned")
                .help("ask for one type, or submit a heterogeneous job with Slurm's own command");
        Err((format!("{} options", self.program), error))
    }
}
