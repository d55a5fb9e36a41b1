//! `bandpilot slurm`.

mod config;
mod doctor;
mod human;
mod json;
pub mod runner;
mod sampling;
pub mod trace;
pub mod verify;

pub use config::config;
pub use doctor::doctor;

use std::io::{self, Write};

use bandpilot_readers::{Severity, state_file};
use bandpilot_slurm::cluster_state::cluster_state;
use bandpilot_slurm::{Form, ObserveError, Observed, observe};
use serde_json::Value;

use crate::cli::SlurmState;
use crate::commands::ground;
use crate::exit::{Code, Failure};
use crate::io::replace;
use crate::output::{Done, Output};
use runner::Asked;

/// Shows what Slurm has; writes the state file.
///
/// # Errors
/// If Slurm does not answer or a file cannot be read or written.
pub fn state(args: &SlurmState) -> Result<Done, Failure> {
    let mut remarks = ground::Remarks::new();
    // A wrong file is told before Slurm is asked.
    let cluster = match &args.cluster {
        Some(path) => Some(ground::cluster(path, &mut remarks)?),
        None => None,
    };
    let observed = observed(args)?;
    remarks.extend(observed.remarks.iter().cloned());
    if let (Some(cluster), Some(out)) = (&cluster, &args.out) {
        let state = cluster_state(&observed.snapshot, cluster);
        remarks.extend(state.diagnostics.into_iter().map(|remark| ("slurm".to_owned(), remark)));
        replace(out, &state_file::write(&state.value, cluster))?;
    }
    let bad = remarks.iter().any(|(_, remark)| remark.severity == Severity::Error);
    let out = args.out.as_ref().map(|out| out.display().to_string());
    let output = Shown { observed, out, remarks: remarks.clone() };
    let code = if bad { Code::Problems } else { Code::Ok };
    Ok(Done { remarks, code, ..Done::ok(output) })
}

fn observed(args: &SlurmState) -> Result<Observed, Failure> {
    let (record, replay) = (args.record.as_deref(), args.replay.as_deref());
    let asked = Asked { record, replay, ..Asked::default() };
    asked.with(args.timeout_s, |runner, code| {
        observe(runner, Form::Any).map_err(|error| failure(error, code))
    })
}

fn failure(error: ObserveError, code: Code) -> Failure {
    let mut reasons = error.reasons;
    reasons.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.severity));
    Failure { code, reasons }
}

struct Shown {
    observed: Observed,
    out: Option<String>,
    remarks: ground::Remarks,
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        human::write(w, &self.observed)?;
        match &self.out {
            Some(out) => writeln!(w, "\nwritten: {out}"),
            None => Ok(()),
        }
    }

    fn json(&self) -> Value {
        json::value(&self.observed, self.out.as_deref(), &self.remarks)
    }
}
