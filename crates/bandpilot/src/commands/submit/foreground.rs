//! `srun`: the job ends with its command, and this program with it.

use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use bandpilot_manager::Manager as _;
use bandpilot_manager::audit::{Entry, What};
use bandpilot_manager::exchange::{Call, Runner};
use bandpilot_readers::Diagnostic;
use bandpilot_slurm::adapter::Slurm;

use super::desk::{Decision, Desk, withdrawn};
use super::passed_on::Nothing;
use super::{now_s, undone};
use crate::commands::audit;
use crate::commands::ground::Remarks;
use crate::exit::{Code, Failure};
use crate::output::{Done, say};

const POLL: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_millis(10);

/// How it ended.
enum End {
    /// By itself.
    Ended(ExitStatus),
    /// It was taken back, and this is to be run instead.
    Anew(Decision),
}

/// Runs Slurm's command with this program's input and outputs, and ends as it does.
///
/// # Errors
/// If it cannot be started or the audit cannot be written.
pub fn run(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    mut decision: Decision,
    mut remarks: Remarks,
    json: bool,
) -> Result<Done, Failure> {
    if json {
        let help = "the output is Slurm's; --dry-run --json shows the plan";
        return Err(Failure::usage("--json", "there is no result but the job's own", help));
    }
    let path = audit::path(desk.args.audit.as_deref())?;
    // A signal to the group reaches Slurm's command, too; this program ends with it.
    let interrupted = ctrlc::set_handler(|| {});
    if let Err(error) = interrupted {
        remarks.push(("bandpilot".to_owned(), Diagnostic::warning("", error.to_string())));
    }
    loop {
        let remark = |(file, remark): &(String, Diagnostic)| remark.display(file).to_string();
        let mut lines: Vec<String> = remarks.drain(..).as_slice().iter().map(remark).collect();
        lines.push(format!("bandpilot: note: {}", super::show::plan_line(&decision)));
        say(&lines.join("\n"));
        audit::write(&path, &desk.entries(&decision, now_s()))?;
        let call = desk.order(&decision).calls().swap_remove(0);
        let mut child = start(&call)?;
        match attend(desk, runner, &path, &mut child, &decision)? {
            End::Ended(status) => {
                return Ok(Done { code: Code::theirs(status), ..Done::ok(Nothing) });
            }
            End::Anew(next) => decision = next,
        }
    }
}

fn start(call: &Call) -> Result<Child, Failure> {
    let mut command = Command::new(&call.argv[0]);
    command.args(&call.argv[1..]);
    for name in &call.without {
        command.env_remove(name);
    }
    command.envs(call.env.iter().map(|(key, value)| (key, value)));
    command.spawn().map_err(|error| {
        let reason = Diagnostic::error("", format!("failed to start it: {error}"));
        Failure::new(Code::Io, &call.argv[0], reason.help("check that it works on this machine"))
    })
}

/// Waits for it. Meanwhile the audit is told its job and what that was given, and where that was asked for it is
/// planned anew.
fn attend(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    path: &std::path::Path,
    child: &mut Child,
    decision: &Decision,
) -> Result<End, Failure> {
    let program = desk.submission.program.name();
    let wait = |error: std::io::Error| {
        Failure::new(Code::Io, program, Diagnostic::error("", format!("failed to wait: {error}")))
    };
    let note = |what: What| {
        audit::write(path, &[Entry { plan: decision.id.clone(), at_s: now_s(), what }])
    };
    let patience = desk.args.replan.map(Duration::from_secs);
    let mut since = Instant::now();
    let mut job: Option<String> = None;
    let mut settled = false;
    loop {
        let ended = child.try_wait().map_err(wait)?;
        // While it runs, a Slurm that does not answer is no reason to give it up.
        if job.is_none()
            && let Ok(found) = Slurm::new(runner).jobs_of(&decision.id)
            && let Some(id) = found.into_iter().next()
        {
            note(What::Submitted { job: id.clone() })?;
            job = Some(id);
        }
        if let Some(id) = job.as_ref().filter(|_| !settled)
            && let Ok(fact) = Slurm::new(runner).verify(id)
            && let Some(seen) = desk.judged(decision, id, &fact)
        {
            note(What::Fact(seen))?;
            settled = true;
        }
        if let Some(status) = ended {
            if job.is_none() {
                note(What::Failed { why: format!("{program} ended with {status}") })?;
            }
            return Ok(End::Ended(status));
        }
        let late = patience.is_some_and(|patience| since.elapsed() >= patience);
        if let Some(id) = job.as_ref().filter(|_| late && !settled) {
            since = Instant::now();
            // Nor is it one here: srun would go on without anybody who waits for it.
            if let Ok(Some((next, _))) = desk.better(runner, decision, id)
                && undone(runner, id, program).unwrap_or(false)
            {
                // It says that its job was cancelled.
                child.wait().map_err(wait)?;
                note(withdrawn(id, &next))?;
                return Ok(End::Anew(next));
            }
        }
        // Slurm is asked now and then; that the command has ended is to be seen at once.
        let next = Instant::now() + POLL;
        while Instant::now() < next && child.try_wait().map_err(wait)?.is_none() {
            std::thread::sleep(LOOK);
        }
    }
}
