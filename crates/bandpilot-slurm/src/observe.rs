//! Asking Slurm what it has.

use bandpilot_manager::exchange::{Ahead, Reply, RunError, Runner};
use bandpilot_readers::{Diagnostic, Parsed};

use crate::{Host, Job, Remark, Snapshot, json, text};

/// A snapshot and what there is to say about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// Slurm's version as it names it; empty if it did not say.
    pub version: String,
    /// Remarks, each with the command whose output it is about.
    pub remarks: Vec<Remark>,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
#[error("Slurm does not say what it has")]
pub struct ObserveError {
    /// What went wrong, each with the command.
    pub reasons: Vec<Remark>,
}

/// Which outputs are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// JSON where the version has it, else text.
    #[default]
    Any,
    /// Text, else JSON. Slurm prints its jobs as text in a third of the time; both say the same (a test compares them).
    Quick,
    /// Text only.
    Text,
}

const TEXT_HOSTS: &[&str] = &["scontrol", "show", "node", "-d"];
pub(crate) const TEXT_JOBS: &[&str] = &["scontrol", "show", "job", "-d"];
const OLD_JSON_HOSTS: &[&str] = &["sinfo", "--json"];
const NEW_JSON_HOSTS: &[&str] = &["scontrol", "show", "nodes", "-d", "--json"];
pub(crate) const JSON_JOBS: &[&str] = &["squeue", "--json"];
const RESERVATIONS: &[&str] = &["scontrol", "show", "reservation"];
const VERSION: &[&str] = &["scontrol", "--version"];

/// What is said where the first form gave nothing.
const OTHERWISE: &str = "asked in another form instead";

pub(crate) type Reader<T> = fn(&str) -> Parsed<T>;

/// Slurm's version, and with it the form of its answers.
pub(crate) struct Known {
    version: String,
    hosts: Vec<(&'static [&'static str], Reader<Vec<Host>>)>,
    jobs: Vec<(&'static [&'static str], Reader<Vec<Job>>)>,
}

impl Known {
    /// Asks for the version.
    pub(crate) fn ask(runner: &mut dyn Runner, form: Form) -> Result<Self, ObserveError> {
        let reply = Asking::new(runner).ask(VERSION);
        let reply = reply.map_err(|reason| ObserveError { reasons: vec![reason] })?;
        let version = reply.stdout.split_whitespace().last().unwrap_or("").to_owned();
        let major: u32 = version.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        // From 23.02 on sinfo's JSON has rows of its table, and scontrol has the hosts.
        let json_hosts = if major >= 23 { NEW_JSON_HOSTS } else { OLD_JSON_HOSTS };
        let mut known = Self {
            version,
            hosts: vec![(json_hosts, json::hosts), (TEXT_HOSTS, text::hosts)],
            jobs: vec![(JSON_JOBS, json::jobs), (TEXT_JOBS, text::jobs)],
        };
        match form {
            Form::Any => {}
            Form::Quick => {
                known.hosts.reverse();
                known.jobs.reverse();
            }
            Form::Text => {
                known.hosts.remove(0);
                known.jobs.remove(0);
            }
        }
        Ok(known)
    }

    /// What will be asked first.
    pub(crate) fn questions(&self) -> Vec<&'static [&'static str]> {
        vec![self.hosts[0].0, self.jobs[0].0, RESERVATIONS]
    }

    /// Asks for hosts, jobs and reservations.
    pub(crate) fn observe(self, runner: &mut dyn Runner) -> Result<Observed, ObserveError> {
        let mut asking = Asking::new(runner);
        let read = (asking.first_of(&self.hosts), asking.first_of(&self.jobs));
        let reservations = asking.first_of(&[(RESERVATIONS, text::reservations)]);
        let Asking { mut remarks, at_s, .. } = asking;
        let ((Some(hosts), Some(jobs)), Some(reservations)) = (read, reservations) else {
            return Err(ObserveError { reasons: remarks });
        };
        let (snapshot, more) =
            Snapshot::assemble(at_s.unwrap_or_default(), hosts, jobs, reservations);
        remarks.extend(more.into_iter().map(|remark| ("slurm".to_owned(), remark)));
        Ok(Observed { snapshot, version: self.version, remarks })
    }
}

/// Asks for hosts, jobs and reservations, all at once.
///
/// Whichever answer is the older: a GPU is free in the snapshot only if its host had it idle at one moment, and no job that
/// was seen holds it. One that a job took in between is taken by nobody known, one that was given back may still be held.
///
/// # Errors
/// If hosts, jobs or reservations cannot be had in any form.
pub fn observe(runner: &mut dyn Runner, form: Form) -> Result<Observed, ObserveError> {
    let known = Known::ask(runner, form)?;
    let mut ahead = Ahead::ask(runner, &known.questions());
    known.observe(&mut ahead)
}

/// Questions to Slurm's commands, and what there is to say about the answers.
pub(crate) struct Asking<'r> {
    pub(crate) runner: &'r mut dyn Runner,
    pub(crate) remarks: Vec<Remark>,
    /// When the first question after the version was asked.
    pub(crate) at_s: Option<i64>,
}

impl<'r> Asking<'r> {
    pub(crate) fn new(runner: &'r mut dyn Runner) -> Self {
        Self { runner, remarks: Vec::new(), at_s: None }
    }

    /// A reply that says it worked.
    pub(crate) fn ask(&mut self, argv: &[&str]) -> Result<Reply, Remark> {
        let failed = |message: String| {
            let help = match argv.first() {
                Some(program) => format!("check that {program} works on this machine"),
                None => String::new(),
            };
            Err((argv.join(" "), Diagnostic::error("", message).help(help)))
        };
        match self.runner.run(argv) {
            Ok(reply) if reply.code == Some(0) => Ok(reply),
            Ok(reply) => {
                let said = reply.stderr.lines().chain(reply.stdout.lines());
                let said = said.map(str::trim).find(|line| !line.is_empty());
                let code = reply.code.map_or("by a signal".to_owned(), |c| format!("with {c}"));
                failed(format!("ended {code}: {}", said.unwrap_or("no message")))
            }
            Err(error @ (RunError::Start(_) | RunError::TimedOut(_))) => failed(error.to_string()),
            Err(error) => Err((argv.join(" "), Diagnostic::error("", error.to_string()))),
        }
    }

    /// What the first of several commands that works gives.
    pub(crate) fn first_of<T: Default + PartialEq>(
        &mut self,
        ways: &[(&[&str], Reader<T>)],
    ) -> Option<T> {
        for (at, (argv, reader)) in ways.iter().enumerate() {
            let last = at + 1 == ways.len();
            let reply = match self.ask(argv) {
                Ok(reply) => reply,
                Err((command, mut reason)) => {
                    if !last {
                        reason = Diagnostic::note("", reason.message).help(OTHERWISE);
                    }
                    self.remarks.push((command, reason));
                    continue;
                }
            };
            let Parsed { value, diagnostics } = reader(&reply.stdout);
            // Not the expected form at all; an empty list without a remark is just an empty list.
            let empty = value == T::default() && diagnostics.iter().any(|d| d.field.is_empty());
            let command = argv.join(" ");
            for mut reason in diagnostics {
                if empty && !last {
                    reason = Diagnostic::note(reason.field, reason.message)
                        .at(reason.line, reason.column)
                        .help(OTHERWISE);
                }
                self.remarks.push((command.clone(), reason));
            }
            if empty {
                continue;
            }
            self.at_s = self.at_s.or(Some(reply.at_s));
            return Some(value);
        }
        None
    }
}
