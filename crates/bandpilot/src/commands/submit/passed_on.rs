//! What Slurm gets as the user wrote it.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use bandpilot_manager::exchange::Call;
use bandpilot_readers::Diagnostic;
use bandpilot_slurm::submit::Untouched;
use serde_json::{Value, json};

use crate::cli::Submit;
use crate::exit::{Code, Failure};
use crate::output::{Done, Output};

/// Runs it. Without `--json` it has this program's input and outputs.
///
/// # Errors
/// If it cannot be started.
pub fn run(call: &Call, why: &str, args: &Submit, json: bool) -> Result<Done, Failure> {
    let shown = |printed| Passed { command: call.argv.clone(), why: why.to_owned(), printed };
    if args.dry_run {
        return Ok(Done::ok(shown(None)));
    }
    let start = |error: io::Error| {
        let reason = Diagnostic::error("", format!("failed to start it: {error}"));
        Failure::new(
            Code::Io,
            &call.argv[0],
            reason.help("check that Slurm's commands are installed here"),
        )
    };
    let mut command = Command::new(&call.argv[0]);
    command.args(&call.argv[1..]);
    if call.stdin.is_empty() {
        command.stdin(Stdio::inherit());
    } else {
        command.stdin(Stdio::piped());
    }
    if json {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = command.spawn().map_err(start)?;
    if let Some(mut pipe) = child.stdin.take() {
        // It may end without reading all of it.
        let _ = pipe.write_all(call.stdin.as_bytes());
    }
    let output = child.wait_with_output().map_err(start)?;
    let code = Code::theirs(output.status);
    if !json {
        return Ok(Done { code, ..Done::ok(Nothing) });
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = Some((text(&output.stdout), text(&output.stderr), output.status.code()));
    Ok(Done { code, ..Done::ok(shown(printed)) })
}

/// Why there is nothing to plan, in words.
pub fn reason(why: &Untouched) -> String {
    match why {
        Untouched::NoGpus => "it asks for no GPUs".to_owned(),
        Untouched::InsideJob => "it is a step of a job that has its GPUs".to_owned(),
        Untouched::NoJob(option) => format!("with {option} there is no job to plan"),
        Untouched::NothingToRun => "there is nothing to run".to_owned(),
    }
}

/// What was run has said it all.
pub struct Nothing;

impl Output for Nothing {
    fn human(&self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn json(&self) -> Value {
        Value::Null
    }
}

struct Passed {
    command: Vec<String>,
    why: String,
    printed: Option<(String, String, Option<i32>)>,
}

impl Output for Passed {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(w, "not planned: {}", self.why)?;
        writeln!(w, "would be run: {}", super::show::quoted(&self.command))
    }

    fn json(&self) -> Value {
        let (stdout, stderr, code) = match &self.printed {
            Some((stdout, stderr, code)) => (Some(stdout), Some(stderr), *code),
            None => (None, None, None),
        };
        json!({
            "planned": false,
            "why_not": self.why,
            "command": self.command,
            "stdout": stdout,
            "stderr": stderr,
            "code": code,
        })
    }
}
