//! `bandpilot sbatch` and `bandpilot srun`.
//!
//! `desk` plans and puts plans into words, `cycle` submits and plans anew, `foreground` is `srun`, `show` prints,
//! `hints` are what the job is told beside its GPUs.

mod cycle;
mod desk;
mod foreground;
mod hints;
mod passed_on;
mod show;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bandpilot_manager::exchange::Runner;
use bandpilot_manager::{Manager as _, ManagerError, Undone};
use bandpilot_readers::{Diagnostic, Severity};
use bandpilot_slurm::cluster_state::cluster_state;
use bandpilot_slurm::site::{self, Site};
use bandpilot_slurm::submit::Reading;
use bandpilot_slurm::submit::options::{self, Environment, Program};
use bandpilot_slurm::{Observed, adapter};

use self::desk::{Decision, Desk};
use crate::cli::Submit;
use crate::commands::ground::Remarks;
use crate::commands::slurm::runner::Asked;
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::Done;

/// Why a job whose GPUs are named one by one is not planned.
const NAMED: &str = "it names its GPUs itself";

/// Plans a job and hands it to Slurm.
///
/// # Errors
/// If the words or a file are wrong, the job cannot be planned, or Slurm refuses it or does not answer.
pub fn submit(program: Program, args: &Submit, json: bool) -> Result<Done, Failure> {
    let env: Environment = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let mut file_failure = None;
    let mut script = |name: &str| {
        read_text(&found(name)).map_err(|failure| {
            let said = failure.reasons.first().map_or_else(String::new, |(_, r)| r.message.clone());
            file_failure = Some(failure);
            said
        })
    };
    let reading = match options::read(program, &args.words, &env, &mut script) {
        Ok(reading) => reading,
        Err(reasons) => return Err(file_failure.unwrap_or(Failure { code: Code::Usage, reasons })),
    };
    let mut remarks = Remarks::new();
    let submission = match reading {
        Reading::Untouched { why, call } => {
            return passed_on::run(&call, &passed_on::reason(&why), args, json);
        }
        Reading::Planned(submission) => *submission,
    };
    if args.replan.is_some() && submission.ask.array.is_some() {
        // Some tasks may run while others wait: it cannot be taken back as a whole.
        let help = "leave it out; tasks that cannot start wait for their GPUs";
        return Err(Failure::usage("--replan", "an array is not planned anew", help));
    }
    remarks.extend(submission.remarks.iter().cloned());
    let desk = Desk::new(args, submission, &mut remarks)?;
    let asked = Asked { record: args.record.as_deref(), patient: true, ..Asked::default() };
    asked.with(args.timeout_s, |runner, _| {
        let (site, seen) = look(runner, &mut remarks)?;
        // GPU counts that differ, names that only one of both knows.
        let state = cluster_state(&seen.snapshot, &desk.cluster).diagnostics.into_iter();
        let warnings = state.filter(|remark| remark.severity == Severity::Warning);
        remarks.extend(warnings.map(|remark| ("slurm".to_owned(), remark)));
        if desk.names_its_gpus(&seen.snapshot)? {
            return passed_on::run(&desk.submission.untouched, NAMED, args, json);
        }
        let (decision, site, seen) = decide(&desk, runner, site, seen)?;
        remarks.extend(desk.remarks(&decision));
        if program == Program::Srun && !args.dry_run {
            foreground::run(&desk, runner, decision, remarks, json)
        } else {
            cycle::run(&desk, runner, decision, (&site, &seen), (remarks, json))
        }
    })
}

/// The file that sbatch means: a name without a folder is looked for here, then in the search path.
fn found(name: &str) -> PathBuf {
    let here = PathBuf::from(name);
    if name.contains('/') || name == "-" || here.exists() {
        return here;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).map(|folder| folder.join(name));
    there.into_iter().find(|file| file.is_file()).unwrap_or(here)
}

/// Plans. Hosts that a slurmctld that has just been started has not heard of yet are waited for, if nothing fits without
/// them: what is taken on them is not known yet.
fn decide(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    mut site: Site,
    mut seen: Observed,
) -> Result<(Decision, Site, Observed), Failure> {
    let end = Instant::now() + Duration::from_secs(desk.args.timeout_s);
    loop {
        let starting = seen.snapshot.hosts.iter().any(|host| host.state == "UNKNOWN");
        let decided = desk.decide(&seen, &site, &new_id(), None);
        let settled = decided.as_ref().is_ok_and(Decision::starts_now);
        if settled || !starting || Instant::now() >= end {
            return Ok((decided?, site, seen));
        }
        std::thread::sleep(Duration::from_millis(250));
        (site, seen) = look(runner, &mut Remarks::new())?;
    }
}

/// How the site is set up and what it has.
///
/// # Errors
/// If Slurm does not answer.
fn look(runner: &mut dyn Runner, remarks: &mut Remarks) -> Result<(Site, Observed), Failure> {
    let (seen, observed) = site::look(runner).map_err(|error| silent(error.reasons))?;
    remarks.extend(seen.remarks);
    remarks.extend(observed.remarks.iter().cloned());
    Ok((seen.site, observed))
}

fn silent(mut reasons: Remarks) -> Failure {
    reasons.sort_by_key(|(_, reason)| std::cmp::Reverse(reason.severity));
    Failure { code: Code::Io, reasons }
}

/// Takes a job back; false if it had started.
///
/// # Errors
/// If Slurm does not answer.
fn undone(runner: &mut dyn Runner, job: &String, program: &str) -> Result<bool, Failure> {
    let undone = adapter::Slurm::new(runner).undo(job);
    let undone = undone.map_err(|error| manager_failure(error, program))?;
    Ok(matches!(undone, Undone::Withdrawn))
}

/// What a manager's refusal or silence is to the user.
fn manager_failure(error: ManagerError, program: &str) -> Failure {
    match error {
        ManagerError::NoAnswer(reasons) => silent(reasons),
        ManagerError::Refused(words) => {
            Failure::new(Code::Impossible, program, Diagnostic::error("", words))
        }
        ManagerError::Stale(words) => {
            Failure::new(Code::Internal, program, Diagnostic::error("", words))
        }
    }
}

/// Seconds since 1970.
fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs().cast_signed())
}

/// A new id for a plan.
fn new_id() -> String {
    format!("{:016x}", rand::random::<u64>())
}
