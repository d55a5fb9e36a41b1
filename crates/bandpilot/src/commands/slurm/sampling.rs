//! `bandpilot slurm trace --sample`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bandpilot_readers::{Diagnostic, Severity};
use bandpilot_slurm::trace::samples::{HEADER, Sample, take};
use serde_json::{Value, json};

use super::trace::with_runner;
use crate::cli::SlurmTrace;
use crate::commands::ground::Remarks;
use crate::exit::{Code, Failure};
use crate::io::append_locked;
use crate::output::{Done, Output, counted, remarks_json, say};

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// Appends one sample, or one every few seconds until Ctrl-C.
///
/// # Errors
/// If the first sample cannot be had, or the file cannot be written.
pub fn sample(args: &SlurmTrace, path: &Path) -> Result<Done, Failure> {
    if args.every.is_some() {
        // Where that is not to be had, Ctrl-C ends the program as ever: a line is whole or not there.
        let _ = ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed));
    }
    let mut last = one(args, path)?;
    let (mut taken, mut failed) = (1, 0);
    if let Some(every) = args.every {
        let every = Duration::from_secs(every);
        let mut due = Instant::now() + every;
        while waited(due) {
            match one(args, path) {
                Ok(sample) => {
                    taken += 1;
                    last = sample;
                }
                // Slurm may be restarted under it. A file that cannot be written stays so.
                Err(failure) if failure.reasons.iter().any(|(file, _)| *file == name(path)) => {
                    return Err(failure);
                }
                Err(failure) => {
                    failed += 1;
                    for (command, reason) in &failure.reasons {
                        say(&reason.display(command).to_string());
                    }
                }
            }
            // Without catching up on what was missed.
            due = (due + every).max(Instant::now());
        }
    }
    let remarks: Remarks = last.remarks.clone();
    let bad = remarks.iter().any(|(_, remark)| remark.severity == Severity::Error);
    let code = if bad { Code::Problems } else { Code::Ok };
    let shown = Sampling { last, taken, failed, file: name(path), remarks: remarks.clone() };
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

/// Waits until then; false if Ctrl-C came first.
fn waited(due: Instant) -> bool {
    loop {
        if STOP.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

fn one(args: &SlurmTrace, path: &Path) -> Result<Sample, Failure> {
    let sample = with_runner(args, take)?;
    append_locked(path, |existing| {
        let line = &sample.line;
        let text = match existing.lines().next() {
            None => format!("{HEADER}\n{line}\n"),
            Some(first) if first.trim() == HEADER => {
                // A line that a crash has torn is closed, and left out when it is read.
                let end = if existing.ends_with('\n') { "" } else { "\n" };
                format!("{end}{line}\n")
            }
            Some(_) => {
                let message = "is there, and is no file of samples of this version";
                let reason = Diagnostic::error("", message).at(1, 0).help("choose another file");
                return Err(Failure::new(Code::BadInput, &name(path), reason));
            }
        };
        Ok((text, ()))
    })?;
    Ok(sample)
}

struct Sampling {
    last: Sample,
    taken: usize,
    failed: usize,
    file: String,
    remarks: Remarks,
}

impl Output for Sampling {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let Sample { at_s, running, waiting, .. } = &self.last;
        let at = crate::output::time(*at_s);
        writeln!(w, "{at}: {} running, {waiting} waiting", counted(*running, "job"))?;
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} more could not be had"),
        };
        writeln!(w, "appended: {} to {}{failed}", counted(self.taken, "sample"), self.file)
    }

    fn json(&self) -> Value {
        json!({
            "sample": {
                "file": self.file,
                "taken": self.taken,
                "failed": self.failed,
                "last_at_s": self.last.at_s,
                "running": self.last.running,
                "waiting": self.last.waiting,
            },
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
