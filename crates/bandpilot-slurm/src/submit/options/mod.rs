//! Slurm's own options, from command line, environment and script.
//!
//! Precedence is Slurm's: the command line goes before the environment, that before `#SBATCH` lines. What bandpilot
//! heeds becomes an [`Ask`](super::ask::Ask); everything else is passed on as it was written. Since a job may become a
//! heterogeneous one, whose components each want their options, the options of the script are put on the command line,
//! in front of the others; an option of the script whose environment variable is set is left out, as Slurm would do.
//!
//! Contradictions, and whether they are resolved:
//!
//! | options | what becomes of it |
//! |---|---|
//! | `--gpus=T --gpus-per-node=P` | T/P hosts, as Slurm does; refused if that is not whole or `-N` does not hold it |
//! | `--gpus=T --gpus-per-task=K` | T/K tasks, as Slurm does; refused if that is not whole or `-n` says otherwise |
//! | `--gpus-per-node=P --gpus-per-task=K` | P/K tasks on each host; refused if that is not whole |
//! | `--gpus-per-task` without tasks | refused, as Slurm does; `-N` with `--ntasks-per-node` counts as tasks |
//! | `--gpus-per-node` and `--gres=gpu` | refused; Slurm would write down both |
//! | `--ntasks-per-gpu` without GPUs | n/K GPUs, as Slurm does |
//! | `--ntasks-per-gpu` and `--gpus-per-task` or `--ntasks-per-node` | refused, as Slurm does |
//! | two of `--mem`, `--mem-per-cpu`, `--mem-per-gpu` | refused, as Slurm does; an option goes before another one's variable |
//! | GPUs 0 | no GPU job |
//! | types that differ between options | refused |

mod features;
mod gpus;
mod read;
mod sources;
pub(super) mod table;
mod values;
mod words;

use std::fmt;

pub use read::{Environment, read};
pub use values::GpuType;
pub use words::split_own;

/// The program that submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Hands a script over.
    Sbatch,
    /// Runs a command and waits for it.
    Srun,
}

impl Program {
    /// `sbatch` or `srun`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sbatch => "sbatch",
            Self::Srun => "srun",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An option of bandpilot's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own<'a> {
    /// Without dashes.
    pub name: &'a str,
    /// Whether a value belongs to it, behind `=` or as the next word.
    pub takes_value: bool,
}

#[cfg(test)]
#[path = "../../tests/options.rs"]
mod tests;
