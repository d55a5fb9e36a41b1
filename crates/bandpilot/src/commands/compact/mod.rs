//! `bandpilot compact`.

mod advice;
mod carry;
mod show;
mod tidy;

use std::path::Path;

use bandpilot_fragmentation::Occupancy;
use bandpilot_readers::{Diagnostic, state_file};

use self::advice::{Verdict, advise};
use self::show::Shown;
use super::fragmentation::Stand;
use super::ground::Remarks;
use super::simulate::exists;
use crate::cli::Compact;
use crate::exit::{Code, Failure};
use crate::io::{replace, write_new};
use crate::output::Done;

/// Advises which jobs to move.
///
/// # Errors
/// If a file cannot be read, has errors or cannot be written, or a job is not there.
pub fn compact(args: &Compact) -> Result<Done, Failure> {
    let mut remarks = Remarks::new();
    let mut stand = Stand::read(&args.running, &mut remarks)?;
    let pinned = pin(&mut stand, &args.pin)?;
    let mut advice = advise(&stand, args)?;
    // What only this run was told to leave alone is not pinned for good.
    for job in pinned {
        advice.after.jobs[job].pinned = false;
    }
    let code = match advice.verdict {
        Verdict::NothingHelps if args.wanted.is_some() => Code::Impossible,
        _ => Code::Ok,
    };
    let out = args.out.as_ref().filter(|_| code == Code::Ok);
    if let Some(path) = out {
        write(path, args.force, &state_file::write(&advice.after, &stand.cluster))?;
    }
    let told = std::mem::take(&mut advice.remarks).into_iter();
    remarks.extend(told.map(|remark| (stand.state_file.clone(), remark)));
    let out = out.map(|path| path.display().to_string());
    let shown = Shown::new(stand, advice, args, out, remarks.clone());
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

/// Pins jobs by name; gives those that were not pinned before.
fn pin(stand: &mut Stand, names: &[String]) -> Result<Vec<usize>, Failure> {
    let mut pinned = Vec::new();
    for name in names {
        let Some(at) = stand.state.jobs.iter().position(|job| job.name == *name) else {
            let runs: Vec<&str> = stand.state.jobs.iter().map(|job| &*job.name).take(10).collect();
            let help = format!("jobs are named as in the state file: {}", runs.join(", "));
            return Err(Failure::usage("--pin", format!("no job is named '{name}'"), &help));
        };
        let job = &mut stand.state.jobs[at];
        if !job.pinned {
            job.pinned = true;
            pinned.push(at);
        }
    }
    stand.occupancy = Occupancy::of(&stand.cluster, &stand.state);
    Ok(pinned)
}

fn write(path: &Path, force: bool, text: &str) -> Result<(), Failure> {
    if force {
        return replace(path, text);
    }
    if write_new(path, text)? { Ok(()) } else { Err(exists(path)) }
}

/// A gang of no host of the cluster.
fn too_wide(message: &str, help: &str) -> Failure {
    Failure::new(Code::Impossible, "--for", Diagnostic::error("", message).help(help))
}
