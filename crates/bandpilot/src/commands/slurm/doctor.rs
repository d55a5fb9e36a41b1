//! `bandpilot slurm doctor`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bandpilot_slurm::doctor::{Device, Exam, Files, Finding, State, ask, device_paths, examine};
use serde_json::{Value, json};

use super::runner::Asked;
use crate::cli::SlurmDoctor;
use crate::commands::ground;
use crate::exit::{Code, Failure};
use crate::io::{device_of, read_text};
use crate::output::{Done, Output, remarks_json};

/// Checks an installation.
///
/// # Errors
/// If a file that was given cannot be read, or a recording not be written. What Slurm refuses is a finding.
pub fn doctor(args: &SlurmDoctor) -> Result<Done, Failure> {
    let mut remarks = ground::Remarks::new();
    let cluster = match &args.cluster {
        Some(path) => Some(ground::cluster(path, &mut remarks)?),
        None => None,
    };
    let (record, replay) = (args.record.as_deref(), args.replay.as_deref());
    let asked = Asked { record, replay, ..Asked::default() };
    let facts = asked.with(args.timeout_s, |runner, _| Ok(ask(runner)))?;
    let said = facts.folder().map(PathBuf::from).filter(|_| args.replay.is_none());
    let files = args.config.clone().or(said).map_or_else(Files::default, |folder| files(&folder));
    let mut devices = BTreeMap::new();
    // A recording is of another moment, maybe of another machine.
    if args.replay.is_none() {
        for path in device_paths(&facts, &files) {
            let device = match device_of(Path::new(&path)) {
                Ok(minor) => Device::Character(minor),
                Err(what) => Device::Other(what),
            };
            devices.insert(path, device);
        }
    }
    let exam = Exam { facts: &facts, files: &files, devices: &devices, cluster: cluster.as_ref() };
    let findings = examine(&exam);
    let bad = findings.iter().any(|finding| finding.state == State::Error);
    let code = if bad { Code::Problems } else { Code::Ok };
    let output = Shown { findings, remarks: remarks.clone() };
    Ok(Done { remarks, code, ..Done::ok(output) })
}

fn files(folder: &Path) -> Files {
    let read = |name: &str| {
        let path = folder.join(name);
        path.is_file().then(|| read_text(&path).ok()).flatten()
    };
    Files {
        seen: folder.is_dir(),
        gres: read("gres.conf"),
        cgroup: read("cgroup.conf"),
        job_submit: read("job_submit.lua"),
    }
}

struct Shown {
    findings: Vec<Finding>,
    remarks: ground::Remarks,
}

impl Shown {
    fn count(&self, state: State) -> usize {
        self.findings.iter().filter(|finding| finding.state == state).count()
    }
}

/// What Slurm prints may hold control characters, which a terminal would obey.
fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let width = self.findings.iter().map(|finding| finding.id.len()).max().unwrap_or(0);
        for Finding { id, state, found, mend } in &self.findings {
            writeln!(w, "{:<7}  {id:<width$}  {}", state.name(), plain(found))?;
            if !mend.is_empty() {
                writeln!(w, "{:<7}  {:<width$}  mend: {}", "", "", plain(mend))?;
            }
        }
        let counts = [State::Error, State::Warning, State::Unknown, State::Ok]
            .map(|state| format!("{} {}", self.count(state), state.name()));
        writeln!(w, "\n{}", counts.join(", "))
    }

    fn json(&self) -> Value {
        let checks = self.findings.iter().map(|finding| {
            json!({
                "id": finding.id,
                "state": finding.state.name(),
                "found": finding.found,
                "mend": finding.mend,
            })
        });
        json!({
            "checks": checks.collect::<Vec<_>>(),
            "errors": self.count(State::Error),
            "warnings": self.count(State::Warning),
            "unknown": self.count(State::Unknown),
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
