//! Plan, submit, see; and where that was asked for, plan anew.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use bandpilot_manager::audit::{Entry, What, task_id};
use bandpilot_manager::exchange::{Call, Runner};
use bandpilot_manager::{Fact, Manager as _, ManagerError};
use bandpilot_readers::Diagnostic;
use bandpilot_slurm::Observed;
use bandpilot_slurm::adapter::Slurm;
use bandpilot_slurm::fact::Jobs;
use bandpilot_slurm::site::Site;
use bandpilot_slurm::submit::plan::Given;
use bandpilot_slurm::submit::{admit, plan, stock};

use super::desk::{Decision, Desk, withdrawn};
use super::show::{Explained, Shown, StockShown, submitted};
use super::{manager_failure, now_s, silent, undone};
use crate::commands::audit;
use crate::commands::ground::Remarks;
use crate::exit::{Code, Failure};
use crate::output::{Done, say};

/// How often a job that waits is asked for: soon at first, then as Slurm can bear from many submitters.
const POLL: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(1);
/// After so long of waiting it is said.
const A_WHILE: Duration = Duration::from_secs(1);
/// So rarely at last for one whose end is waited for.
const LONGEST_POLL: Duration = Duration::from_secs(10);

/// A job in the queue.
pub struct Placed {
    pub job: String,
    pub decision: Decision,
    pub fact: Fact,
}

/// The whole of a batch job; for srun only what it would do.
///
/// # Errors
/// If it cannot be planned, or Slurm refuses it or does not answer.
pub fn run(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    decision: Decision,
    (site, seen): (&Site, &Observed),
    (mut remarks, json): (Remarks, bool),
) -> Result<Done, Failure> {
    let explained = desk.args.explain.then(|| explain(desk, seen, site)).transpose()?;
    let stock = match &desk.args.compare {
        Some(_) => Some(compare(desk, runner, seen, site)?),
        None => None,
    };
    let (mut code, mut said) = (Code::Ok, false);
    let (placed, decision) = if desk.args.dry_run {
        (None, decision)
    } else {
        let path = audit::path(desk.args.audit.as_deref())?;
        let mut placed = place(desk, runner, &path, decision, seen)?;
        if let Some(seconds) = desk.args.replan {
            placed = stay(desk, runner, &path, placed, Duration::from_secs(seconds))?;
        }
        if desk.submission.waits {
            if !json {
                // sbatch says it before it waits.
                said = submitted(&mut io::stdout(), &desk.submission, &placed.job).is_ok();
            }
            code = outlast(desk, runner, &path, &mut placed)?;
        }
        (Some((placed.job, placed.fact)), placed.decision)
    };
    // Of what was handed over at last.
    let calls = desk.order(&decision).calls();
    let mut shown = Shown::new(desk, &decision, placed, calls, explained, stock, &remarks);
    shown.said = said;
    if !desk.args.dry_run {
        remarks.push(("bandpilot".to_owned(), Diagnostic::note("", shown.line())));
    }
    Ok(Done { remarks, code, ..Done::ok(shown) })
}

/// Hands a decision over; the audit has it before Slurm.
///
/// # Errors
/// If the audit cannot be written, or Slurm refuses the job or does not answer.
pub fn place(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    path: &Path,
    decision: Decision,
    seen: &Observed,
) -> Result<Placed, Failure> {
    audit::write(path, &desk.entries(&decision, now_s()))?;
    let committed = Slurm::new(runner).commit(&desk.order(&decision), seen);
    let each = |decision: &Decision, what: &dyn Fn(Option<u32>) -> What| -> Vec<Entry> {
        let one = |index: Option<u32>| Entry {
            plan: index.map_or_else(|| decision.id.clone(), |task| task_id(&decision.id, task)),
            at_s: now_s(),
            what: what(index),
        };
        decision.planned.iter().map(|(index, _)| one(*index)).collect()
    };
    let committed = match committed {
        Ok(committed) => committed,
        Err(error) => {
            // Without an answer the job may be there all the same: the plan stays open.
            if matches!(error, ManagerError::Refused(_)) {
                let why = error.to_string();
                audit::write(path, &each(&decision, &|_| What::Failed { why: why.clone() }))?;
            }
            return Err(manager_failure(error, desk.submission.program.name()));
        }
    };
    // What a plugin of the site has to say, for example.
    say(committed.said.trim_end());
    let job = committed.job;
    let named = |index: Option<u32>| match index {
        Some(task) => format!("{job}_{task}"),
        None => job.clone(),
    };
    audit::write(path, &each(&decision, &|index| What::Submitted { job: named(index) }))?;
    let placed = Placed { job, decision, fact: committed.fact };
    note_fact(path, desk, &placed)?;
    Ok(placed)
}

/// Writes down what a job holds, once it holds anything.
fn note_fact(path: &Path, desk: &Desk<'_>, placed: &Placed) -> Result<(), Failure> {
    let held = match &placed.fact {
        Fact::Runs { .. } => true,
        Fact::Over { gpus: Some(gpus), .. } => !gpus.is_empty(),
        _ => false,
    };
    if !held || desk.submission.ask.array.is_some() {
        return Ok(());
    }
    let seen = desk.judged(&placed.decision, &placed.job, &placed.fact);
    let Some(seen) = seen else { return Ok(()) };
    let fact = Entry { plan: placed.decision.id.clone(), at_s: now_s(), what: What::Fact(seen) };
    audit::write(path, &[fact])
}

/// Stays until the job runs or is over. Each time it has waited for so long and other GPUs would start it at once, it is
/// taken back and submitted with these.
///
/// # Errors
/// If Slurm does not answer or refuses it.
fn stay(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    path: &Path,
    mut placed: Placed,
    patience: Duration,
) -> Result<Placed, Failure> {
    let program = desk.submission.program.name();
    let mut since = Instant::now();
    let mut poll = *POLL.start();
    let mut told = String::new();
    loop {
        placed.fact = Slurm::new(runner)
            .verify(&placed.job)
            .map_err(|error| left(manager_failure(error, program), &placed.job))?;
        if !matches!(placed.fact, Fact::Waits(_)) {
            note_fact(path, desk, &placed)?;
            return Ok(placed);
        }
        // One that starts at once needs no word.
        if told != placed.job && since.elapsed() >= A_WHILE {
            told.clone_from(&placed.job);
            say(&format!(
                "bandpilot: note: job {told} waits for its GPUs; it stays in the queue if this is ended"
            ));
        }
        if since.elapsed() < patience {
            std::thread::sleep(poll.min(patience.saturating_sub(since.elapsed())));
            poll = (poll * 2).min(*POLL.end());
            continue;
        }
        since = Instant::now();
        if let Some(next) = anew(desk, runner, path, &placed)? {
            placed = next;
        }
    }
}

/// A failure after which the job is still in the queue: its id would otherwise be lost.
fn left(mut failure: Failure, job: &str) -> Failure {
    let note = Diagnostic::note("", format!("job {job} was submitted, and is left as it is"));
    failure.reasons.push(("bandpilot".to_owned(), note));
    failure
}

/// Stays until the job is over; its exit code. It is asked for less and less often.
///
/// # Errors
/// If Slurm does not answer.
fn outlast(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    path: &Path,
    placed: &mut Placed,
) -> Result<Code, Failure> {
    let mut pause = *POLL.start();
    let mut noted = matches!(placed.fact, Fact::Runs { .. });
    loop {
        let jobs = Jobs::ask(runner, Some(&placed.job))
            .map_err(|reasons| left(silent(reasons), &placed.job))?;
        placed.fact = jobs.fact(&placed.job);
        // A short one is over before it was seen running.
        if !noted && !matches!(placed.fact, Fact::Waits(_)) {
            note_fact(path, desk, placed)?;
            noted = true;
        }
        if let Some(code) = jobs.exit_code(&placed.job) {
            return Ok(if code == 0 { Code::Ok } else { Code::Theirs(code) });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_POLL);
    }
}

/// The job on other GPUs, if these would start it and it has not started yet.
fn anew(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    path: &Path,
    placed: &Placed,
) -> Result<Option<Placed>, Failure> {
    let Some((next, seen)) = desk.better(runner, &placed.decision, &placed.job)? else {
        return Ok(None);
    };
    if !undone(runner, &placed.job, desk.submission.program.name())? {
        return Ok(None);
    }
    let what = withdrawn(&placed.job, &next);
    audit::write(path, &[Entry { plan: placed.decision.id.clone(), at_s: now_s(), what }])?;
    place(desk, runner, path, next, &seen).map(Some)
}

fn explain(desk: &Desk<'_>, seen: &Observed, site: &Site) -> Result<Explained, Failure> {
    desk.with_given(&seen.snapshot, site, "", |given: &Given<'_>| {
        let all = plan::admissions(given, &desk.submission.ask).map_err(|r| desk.refusal(&r))?;
        let hosts = all.iter().map(|(name, hosts)| (name.clone(), admit::by_reason(hosts)));
        Ok(Explained { left_out: hosts.collect() })
    })
}

/// What stock Slurm would choose for the words as the user wrote them.
fn compare(
    desk: &Desk<'_>,
    runner: &mut dyn Runner,
    seen: &Observed,
    site: &Site,
) -> Result<StockShown, Failure> {
    let mut call: Call = desk.submission.untouched.clone();
    call.argv.insert(1, "--test-only".to_owned());
    let reply = runner.call(&call).map_err(|error| {
        let reason = Diagnostic::error("", error.to_string());
        silent(vec![("--compare".to_owned(), reason)])
    })?;
    let choice = match stock::read(&reply.stderr) {
        Ok(choice) => choice,
        Err(why) => return Ok(StockShown::Refused(why)),
    };
    desk.with_given(&seen.snapshot, site, "", |given: &Given<'_>| {
        Ok(match stock::worth(given, &desk.submission.ask, &choice) {
            Ok(worth) => StockShown::Worth(choice, worth),
            Err(refused) => StockShown::Refused(refused.to_string()),
        })
    })
}
