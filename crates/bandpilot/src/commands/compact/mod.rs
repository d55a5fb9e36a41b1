//! `bandpilot compact`.

mod advice;
mod show;

use bandpilot_fragmentation::Occupancy;
use bandpilot_readers::{Diagnostic, state_file};

use self::advice::{Verdict, advise};
use self::show::Shown;
use super::fragmentation::Stand;
use super::ground::Remarks;
use crate::cli::Compact;
use crate::exit::{Code, Failure};
use crate::io::replace;
use crate::output::Done;

/// Advises which jobs to move.
///
/// # Errors
/// If a file cannot be read, has errors or cannot be written, or a job is not there.
pub fn compact(args: &Compact) -> Result<Done, Failure> {
    let mut remarks = Remarks::new();
    let mut stand = Stand::read(&args.running, &mut remarks)?;
    pin(&mut stand, &args.pin)?;
    let advice = advise(&stand, args)?;
    if let Some(path) = &args.out {
        replace(path, &state_file::write(&advice.after, &stand.cluster))?;
    }
    let code = match advice.verdict {
        Verdict::NothingHelps if args.wanted.is_some() => Code::Impossible,
        _ => Code::Ok,
    };
    let out = args.out.as_ref().map(|path| path.display().to_string());
    let shown = Shown::new(stand, advice, args, out);
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

/// Pins jobs by name.
fn pin(stand: &mut Stand, names: &[String]) -> Result<(), Failure> {
    for name in names {
        let job = stand.state.jobs.iter_mut().find(|job| job.name == *name);
        let Some(job) = job else {
            let runs: Vec<&str> = stand.state.jobs.iter().map(|job| &*job.name).take(10).collect();
            let help = format!("jobs are named as in the state file: {}", runs.join(", "));
            return Err(Failure::usage("--pin", format!("no job is named '{name}'"), &help));
        };
        job.pinned = true;
    }
    stand.occupancy = Occupancy::of(&stand.cluster, &stand.state);
    Ok(())
}

/// A gang of no host of the cluster.
fn too_wide(message: &str, help: &str) -> Failure {
    Failure::new(Code::Impossible, "--for", Diagnostic::error("", message).help(help))
}
