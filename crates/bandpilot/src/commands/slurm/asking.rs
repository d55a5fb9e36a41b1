//! Asking Slurm, or a recording of it.

use std::path::Path;
use std::time::Duration;

use bandpilot_manager::exchange::{Process, Recorder, Replay, Runner};
use bandpilot_readers::Diagnostic;

use crate::exit::{Code, Failure};
use crate::io::{read_text, replace};

/// Where answers come from.
pub struct Asking<'a> {
    /// A file that everything is written down in.
    pub record: Option<&'a Path>,
    /// A recording instead of Slurm.
    pub replay: Option<&'a Path>,
    /// A command that takes longer is ended, seconds.
    pub timeout_s: u64,
}

impl Asking<'_> {
    /// Lets `ask` put its questions; it is told what code a failure has.
    ///
    /// # Errors
    /// If a recording cannot be read or written, and what `ask` fails with.
    pub fn run<T>(
        &self,
        ask: impl FnOnce(&mut dyn Runner, Code) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(path) = self.replay {
            let file = path.display().to_string();
            let read = Replay::read(&read_text(path)?).into_result();
            let (mut replay, _) =
                read.map_err(|reasons| Failure::all(Code::BadInput, &file, reasons))?;
            return ask(&mut replay, Code::BadInput);
        }
        let mut process =
            Process { timeout: Duration::from_secs(self.timeout_s), ..Process::default() };
        let Some(path) = self.record else {
            return ask(&mut process, Code::Io);
        };
        let mut recording = Vec::new();
        let result = Recorder::new(process, &mut recording)
            .map_err(|error| Failure::new(Code::Io, "", Diagnostic::error("", error.to_string())))
            .and_then(|mut recorder| ask(&mut recorder, Code::Io));
        // Also what failed is worth looking at elsewhere.
        replace(path, &String::from_utf8_lossy(&recording))?;
        result
    }
}
