//! Who answers: the cluster, or a recording of it.

use std::path::Path;
use std::time::Duration;

use bandpilot_manager::exchange::{Patient, Process, Recorder, Replay, Runner};
use bandpilot_readers::Diagnostic;
use bandpilot_slurm::adapter::ask_again;

use crate::exit::{Code, Failure};
use crate::io::{read_text, replace};

/// Where the answers are written to, or taken from.
#[derive(Clone, Copy, Default)]
pub struct Asked<'a> {
    /// `--record`
    pub record: Option<&'a Path>,
    /// `--replay`
    pub replay: Option<&'a Path>,
    /// A slurmctld that is away is asked again, as long as a command may take.
    pub patient: bool,
}

impl Asked<'_> {
    /// Asks; `ask` is also given the exit code for the case that there is no answer.
    ///
    /// # Errors
    /// If a recording cannot be read or written, or `ask` fails.
    pub fn with<T>(
        self,
        timeout_s: u64,
        ask: impl FnOnce(&mut dyn Runner, Code) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(path) = self.replay {
            let file = path.display().to_string();
            let read = Replay::read(&read_text(path)?).into_result();
            let (mut replay, _) =
                read.map_err(|reasons| Failure::all(Code::BadInput, &file, reasons))?;
            return ask(&mut replay, Code::BadInput);
        }
        let timeout = Duration::from_secs(timeout_s);
        let inner = Process { timeout, ..Process::default() };
        let patience = if self.patient { timeout } else { Duration::ZERO };
        let mut process = Patient { inner, patience, again: ask_again };
        let Some(path) = self.record else { return ask(&mut process, Code::Io) };
        let mut recording = Vec::new();
        let answer = Recorder::new(process, &mut recording)
            .map_err(|error| Failure::new(Code::Io, "", Diagnostic::error("", error.to_string())))
            .and_then(|mut recorder| ask(&mut recorder, Code::Io));
        // Also what failed is worth looking at elsewhere.
        replace(path, &String::from_utf8_lossy(&recording))?;
        answer
    }
}
