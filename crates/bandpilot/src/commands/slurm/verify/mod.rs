//! `bandpilot slurm verify`.

mod here;
mod shown;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bandpilot_manager::audit::{self, Audit, Entry};
use bandpilot_readers::{Diagnostic, Severity};
use bandpilot_slurm::fact::{DoubleBooking, Jobs};
use bandpilot_slurm::verify::{Verified, verify as compare};

use super::runner::Asked;
use crate::cli::SlurmVerify;
use crate::commands::audit as audit_file;
use crate::commands::ground::Remarks;
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, say};
use shown::Shown;

/// Set by Ctrl-C. A second one ends the program at once.
static STOP: AtomicBool = AtomicBool::new(false);

/// Compares the plans of an audit with what Slurm says, once or again and again; appends what it says.
///
/// # Errors
/// If the audit cannot be read or appended to, or Slurm does not answer.
pub fn verify(args: &SlurmVerify) -> Result<Done, Failure> {
    if args.here {
        return here::here(args);
    }
    let file = &audit_file::path(args.audit.as_deref())?;
    let (verified, at_s, mut remarks) = match args.watch {
        Some(pause_s) => watch(args, file, Duration::from_secs(pause_s))?,
        None => look(args, file)?,
    };
    remarks.extend(verified.remarks.iter().cloned());
    let appended = if args.replay.is_some() { 0 } else { verified.entries.len() };
    let bad =
        verified.bad() || remarks.iter().any(|(_, remark)| remark.severity == Severity::Error);
    let code = if bad { Code::Problems } else { Code::Ok };
    let shown = Shown { verified, at_s, appended, remarks: remarks.clone() };
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

/// One look at all plans.
fn look(args: &SlurmVerify, file: &Path) -> Result<(Verified, i64, Remarks), Failure> {
    let (audit, mut remarks) = read(file)?;
    let (record, replay) = (args.record.as_deref(), args.replay.as_deref());
    let asked = Asked { record, replay, ..Asked::default() };
    let jobs = asked.with(args.timeout_s, |runner, code| {
        Jobs::ask(runner, None).map_err(|reasons| Failure { code, reasons })
    })?;
    remarks.extend(jobs.remarks.iter().cloned());
    let verified = compare(&audit, &jobs, args.job.as_deref());
    if let Some(job) = args.job.as_deref().filter(|_| verified.rows.is_empty()) {
        let reason = Diagnostic::error("", format!("has no plan of job {job}"));
        let reason = reason.help("without --job all of its plans are shown");
        return Err(Failure::new(Code::BadInput, &file.display().to_string(), reason));
    }
    if args.replay.is_none() {
        audit_file::write(file, &verified.entries)?;
    }
    Ok((verified, jobs.at_s, remarks))
}

/// The audit and what there is to say about it. Wrong lines are said and left out.
fn read(file: &Path) -> Result<(Audit, Remarks), Failure> {
    let name = file.display().to_string();
    let text = read_text(file)?;
    // Of another format or version: nothing of it is used.
    audit::append(&text, &[]).map_err(|reason| Failure::new(Code::BadInput, &name, reason))?;
    let read = audit::read(&text);
    let remarks = read.diagnostics.into_iter().map(|remark| (name.clone(), remark)).collect();
    Ok((read.value, remarks))
}

/// Looks again and again, and says what is new. A Slurm that does not answer is asked again, too.
fn watch(
    args: &SlurmVerify,
    file: &Path,
    pause: Duration,
) -> Result<(Verified, i64, Remarks), Failure> {
    let _ = ctrlc::set_handler(|| {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
    let mut silent = false;
    let mut all = Seen::default();
    let mut good = None;
    loop {
        let (over, last) = match look(args, file) {
            Ok((verified, at_s, remarks)) => {
                silent = false;
                shown::say_new(&verified);
                let over = args.until_idle && !verified.open();
                let looked = (all.with(verified), at_s, remarks);
                good = Some(looked.clone());
                (over, Ok(looked))
            }
            // Ctrl-C in a terminal also ends the command that was just asking.
            Err(failure) if STOP.load(Ordering::Relaxed) && !silent => {
                return good.ok_or(failure);
            }
            Err(failure) if failure.code == Code::Io && file.exists() => {
                if !silent {
                    say(&failure.human());
                }
                silent = true;
                (false, Err(failure))
            }
            Err(failure) => return Err(failure),
        };
        let end = Instant::now() + pause;
        while !over && Instant::now() < end && !STOP.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        if over || STOP.load(Ordering::Relaxed) {
            return last;
        }
    }
}

/// What all looks of a watch saw.
#[derive(Default)]
struct Seen {
    asked: BTreeSet<String>,
    entries: Vec<Entry>,
    double_bookings: Vec<DoubleBooking>,
}

impl Seen {
    /// The last look with what those before it saw.
    fn with(&mut self, mut last: Verified) -> Verified {
        for row in &mut last.rows {
            if row.asked {
                self.asked.insert(row.plan.clone());
            }
            row.asked = self.asked.contains(&row.plan);
        }
        self.entries.append(&mut last.entries);
        for double in last.double_bookings.drain(..) {
            if !self.double_bookings.contains(&double) {
                self.double_bookings.push(double);
            }
        }
        let (entries, double_bookings) = (self.entries.clone(), self.double_bookings.clone());
        Verified { entries, double_bookings, ..last }
    }
}
