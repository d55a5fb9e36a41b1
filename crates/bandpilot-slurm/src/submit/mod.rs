//! A job from the words of its user to the words for Slurm.
//!
//! ```text
//! words, environment, script --options::read--> Submission { Ask, ... } --plan--> Layout --render--> Call
//! ```
//!
//! * [`options`] reads what the user wrote. A job that asks for no GPUs is not touched: Slurm gets the user's own words,
//!   right or wrong. Of one that does, what bandpilot heeds becomes an [`ask::Ask`]; the rest is passed on.
//! * [`layout`] is where its parts go: one component for each set of GPU indexes.
//! * [`render`] writes one submit with the hosts, GPUs, tasks, CPUs and memory of the layout, and what the user said
//!   otherwise. The option lines of a script are made comments in the text that is handed over.
//!
//! All of it is a function of texts. Nothing here starts a command or reads a file.

pub mod ask;
pub mod layout;
pub mod options;
pub mod render;
mod script;
mod submission;

pub use submission::{Export, Passed, Reading, Submission, Untouched, Work, Written};
