//! Slurm: what hosts and jobs it has, as one [`Snapshot`], and how it is asked.
//!
//! [`text`] and [`json`] read what Slurm's commands print, [`Snapshot::assemble`] puts it together and
//! [`cluster_state`](mod@cluster_state) makes it the state that a decision is made on: all of that is a function of texts.
//! [`fact`] says what a job was given, [`verify`] compares that with the audit, [`host`] asks the driver on the host.
//! [`trace`] makes a trace of jobs of what Slurm tells of the past. Commands are started through [`bandpilot_manager::exchange`].

pub mod adapter;
pub mod cluster_state;
pub mod fact;
#[cfg(test)]
#[path = "tests/fixture.rs"]
mod fixture;
pub mod gres;
pub mod host;
pub mod json;
mod observe;
pub mod site;
mod snapshot;
pub mod submit;
pub mod text;
mod time;
pub mod trace;
pub mod verify;

pub use observe::{Form, ObserveError, Observed, observe};
pub use snapshot::{
    ArrayTasks, Gpu, HetPart, Host, Job, JobState, Limit, Request, Reservation, Snapshot,
};
pub use time::stamp;

/// Something to say about the output of a command: the command, and where in its output.
pub type Remark = (String, bandpilot_readers::Diagnostic);
