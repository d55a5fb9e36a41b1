//! A job from the words of its user to the words for Slurm.
//!
//! ```text
//! words, environment, script --options::read--> Submission { Ask, ... } --plan--> Layout --render--> Call
//! ```
//!
//! * [`options`] reads what the user wrote. A job that asks for no GPUs is not touched: Slurm gets the user's own words,
//!   right or wrong. Of one that does, what bandpilot heeds becomes an [`ask::Ask`]; the rest is passed on.
//! * [`plan`](mod@plan) chooses the GPUs, now or ahead of time, among the hosts that also have what else the job needs
//!   ([`admit`]); [`array`](mod@array) gives every task of an array a set of its own; [`stock`] values what Slurm itself would give.
//! * [`layout`] is where its parts go: one component for each set of GPU indexes.
//! * [`render`] writes one submit with the hosts, GPUs, tasks, CPUs and memory of the layout, and what the user said
//!   otherwise. The option lines of a script are made comments in the text that is handed over.
//!
//! All of it is a function of texts. Nothing here starts a command or reads a file.

pub mod admit;
pub mod array;
pub mod ask;
mod clock;
mod ground;
pub mod layout;
mod need;
pub mod options;
mod parts;
pub mod plan;
mod refused;
pub mod render;
mod script;
mod shape;
pub mod stock;
mod submission;

pub use admit::{Admission, by_reason};
pub use array::plan_array;
pub use plan::{Given, Planned, Start, admissions, plan};
pub use refused::{Refused, RefusedKind};
pub use submission::{Export, Passed, Reading, Submission, Untouched, Work, Written};

#[cfg(test)]
#[path = "../tests/property.rs"]
mod property;
