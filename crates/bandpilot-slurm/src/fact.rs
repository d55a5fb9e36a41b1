//! What jobs were given.
//!
//! While a job runs, `scontrol show job -d` names its GPUs. When it is over the indexes are gone, but what it had of each
//! type over all its hosts stays until Slurm forgets the job (`MinJobAge`). Where each GPU of a host has a type of its
//! own, that says exactly which ones it had. (Measured on 22.05; its JSON has nothing of jobs that are over.)

use std::collections::BTreeMap;

use bandpilot_core::GpuMask;
use bandpilot_manager::Fact;
use bandpilot_manager::audit::{plan_of_comment, task_id};
use bandpilot_manager::exchange::Runner;
use bandpilot_readers::Diagnostic;

use crate::observe::Asking;
use crate::submit::render::FAR_S;
use crate::text::{self, Details};
use crate::{ArrayTasks, Host, Job, JobState, Remark};

const JOBS: [&str; 4] = ["scontrol", "show", "job", "-d"];
const HOSTS: [&str; 4] = ["scontrol", "show", "node", "-d"];
/// What scontrol says of a job that it does not know.
const UNKNOWN: &str = "Invalid job id";

type Gpus = Vec<(String, GpuMask)>;

/// What Slurm says of jobs at one moment, of those that are over too.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Jobs {
    /// When it was asked, seconds since 1970.
    pub at_s: i64,
    /// The jobs.
    pub jobs: Vec<Details>,
    /// The hosts; only asked for where a job is over.
    pub hosts: Vec<Host>,
    /// What there is to say about the answers, each with the command.
    pub remarks: Vec<Remark>,
    /// False if something could not be read: then a job that is not here may be there all the same.
    pub whole: bool,
}

/// A job as users name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    /// `12`, with all its components or tasks.
    Job(u32),
    /// `12_3`
    Task(u32, u32),
    /// `12+1`
    Part(u32, u32),
}

/// A GPU that several jobs hold at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoubleBooking {
    /// Its host.
    pub host: String,
    /// Its index.
    pub gpu: usize,
    /// The jobs.
    pub jobs: Vec<String>,
}

/// True if it names a job: `12`, `12_3`, `12+1`.
pub fn is_job(text: &str) -> bool {
    id(text).is_some()
}

fn id(text: &str) -> Option<Id> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    if let Some((job, task)) = text.split_once('_') {
        return Some(Id::Task(number(job)?, number(task)?));
    }
    match text.split_once('+') {
        Some((job, part)) => Some(Id::Part(number(job)?, number(part)?)),
        None => number(text).map(Id::Job),
    }
}

/// What a job was given.
///
/// # Errors
/// If Slurm does not answer: what was said, each with the command.
pub fn fact(runner: &mut dyn Runner, job: &str) -> Result<Fact, Vec<Remark>> {
    Ok(Jobs::ask(runner, Some(job))?.fact(job))
}

/// What each of these jobs was given, by its name here.
///
/// # Errors
/// If Slurm does not answer: what was said, each with the command.
pub fn facts(
    runner: &mut dyn Runner,
    jobs: &[String],
) -> Result<BTreeMap<String, Fact>, Vec<Remark>> {
    let one = if let [job] = jobs { Some(job.as_str()) } else { None };
    let all = Jobs::ask(runner, one)?;
    Ok(jobs.iter().map(|job| (job.clone(), all.fact(job))).collect())
}

impl Jobs {
    /// Asks Slurm for one job or for all.
    ///
    /// # Errors
    /// If Slurm does not answer: what was said, each with the command.
    pub fn ask(runner: &mut dyn Runner, one: Option<&str>) -> Result<Self, Vec<Remark>> {
        let mut asking = Asking::new(runner);
        let mut argv = JOBS.to_vec();
        argv.extend(one);
        let reply = match asking.ask(&argv) {
            Ok(reply) => reply,
            Err((_, reason)) if one.is_some() && reason.message.contains(UNKNOWN) => {
                return Ok(Self { whole: true, ..Self::default() });
            }
            Err(remark) => return Err(vec![remark]),
        };
        let read = text::details(&reply.stdout);
        let mut jobs = Self {
            at_s: reply.at_s,
            whole: !read.has_errors(),
            jobs: read.value,
            ..Self::default()
        };
        let command = argv.join(" ");
        jobs.remarks.extend(read.diagnostics.into_iter().map(|d| (command.clone(), d)));
        let over = |one: &Details| one.job.gpus.is_empty() && !one.in_all.is_empty();
        if jobs.jobs.iter().any(over) {
            match asking.ask(&HOSTS) {
                Ok(reply) => jobs.hosts = text::hosts(&reply.stdout).value,
                Err((command, reason)) => {
                    let reason = Diagnostic::warning("", reason.message);
                    let help = "which GPUs jobs had that are over cannot be told";
                    jobs.remarks.push((command, reason.help(help)));
                }
            }
        }
        Ok(jobs)
    }

    /// The exit code of a job with all its components and tasks, once nothing of it is in the queue: the greatest, and 1 for what a
    /// signal ended, as `sbatch --wait` has it. `None` while it is not over.
    pub fn exit_code(&self, job: &str) -> Option<u8> {
        let id = id(job)?;
        let mut parts = self.jobs.iter().filter(|one| belongs(&one.job, id)).peekable();
        // Slurm has forgotten it.
        let mut code = u8::from(parts.peek().is_none());
        for one in parts {
            code = match (one.job.state, one.exit) {
                (JobState::Finished, (own, 0)) => code.max(own),
                (JobState::Finished, _) => code.max(1),
                _ => return None,
            };
        }
        Some(code)
    }

    /// What a job was given: `12` with all components, `12_3`, or `12+1`.
    pub fn fact(&self, job: &str) -> Fact {
        let Some(id) = id(job) else { return Fact::Unknown };
        let parts: Vec<&Details> = self.jobs.iter().filter(|one| belongs(&one.job, id)).collect();
        let Some(first) = parts.first() else { return Fact::Unknown };
        let active = |one: &&Details| {
            matches!(one.job.state, JobState::Running | JobState::Suspended | JobState::Completing)
        };
        if let Some(waits) = parts.iter().find(|one| one.job.state == JobState::Pending) {
            return Fact::Waits(waits.job.reason.clone());
        }
        let held: Option<Vec<Gpus>> = parts.iter().map(|one| self.held(one)).collect();
        let held = held.map(|all| all.into_iter().flatten().collect::<Gpus>());
        if parts.iter().any(active) {
            let unnamed = parts.iter().map(|one| one.job.unnamed_gpus).sum();
            let named = || parts.iter().flat_map(|one| one.job.gpus.clone()).collect();
            return Fact::Runs { gpus: held.unwrap_or_else(named), unnamed };
        }
        let state = parts.iter().map(|one| &one.state).find(|state| *state != "COMPLETED");
        Fact::Over { state: state.unwrap_or(&first.state).clone(), gpus: held }
    }

    /// True if the job of this name carries the id of another plan: a slurmctld that lost its last jobs gives their ids anew.
    pub fn is_of_another_plan(&self, job: &str, plan: &str) -> bool {
        let Some(id) = id(job) else { return false };
        let mut parts = self.jobs.iter().filter(|one| belongs(&one.job, id));
        parts.any(|one| {
            let named = plan_of_comment(&one.comment);
            let task = if let Id::Task(_, task) = id { Some(task) } else { None };
            named.is_some_and(|named| !means(named, plan, task))
        })
    }

    /// True if the job is one of an array that waits for the far time of its submit: it has not been given its GPUs yet.
    pub fn is_stranded(&self, job: &str) -> bool {
        let Some(id) = id(job) else { return false };
        let mut parts = self.jobs.iter().filter(|one| belongs(&one.job, id));
        parts.any(|one| {
            let without = one.job.request.tres_per_host.is_empty();
            one.job.array.is_some() && without && one.job.start_s.is_some_and(|s| s >= FAR_S)
        })
    }

    /// The jobs of a plan, by the comment that they carry.
    pub fn of_plan(&self, plan: &str, array_task: Option<u32>) -> Vec<String> {
        let mut found = Vec::new();
        for Details { job, comment, .. } in &self.jobs {
            let Some(named) = plan_of_comment(comment) else { continue };
            let name = match (array_task, &job.array) {
                (Some(task), Some(array)) if has_task(array, task) => {
                    means(named, plan, Some(task)).then(|| format!("{}_{task}", array.job))
                }
                (Some(_), _) => None,
                (None, Some(array)) => (named == plan).then(|| array.job.to_string()),
                (None, None) => {
                    (named == plan).then(|| job.het.map_or(job.id, |het| het.leader).to_string())
                }
            };
            found.extend(name.filter(|name| !found.contains(name)));
        }
        found
    }

    /// GPUs that more than one job holds, in order of hosts and indexes.
    pub fn double_bookings(&self) -> Vec<DoubleBooking> {
        let mut holders: BTreeMap<(&str, usize), Vec<String>> = BTreeMap::new();
        // A suspended job may have lent its GPUs.
        let holds =
            |one: &&Details| matches!(one.job.state, JobState::Running | JobState::Completing);
        for one in self.jobs.iter().filter(holds) {
            for (host, mask) in &one.job.gpus {
                for gpu in mask.iter() {
                    holders.entry((host, gpu)).or_default().push(one.job.label());
                }
            }
        }
        let double = holders.into_iter().filter(|(_, jobs)| jobs.len() > 1);
        double
            .map(|((host, gpu), jobs)| DoubleBooking { host: host.to_owned(), gpu, jobs })
            .collect()
    }

    /// What one component has or had; `None` if that cannot be told. A host without GPUs is there with none.
    fn held(&self, one: &Details) -> Option<Gpus> {
        let job = &one.job;
        if job.unnamed_gpus > 0 {
            return None;
        }
        if !job.gpus.is_empty() {
            return Some(job.gpus.clone());
        }
        let mut held: Gpus = job.hosts.iter().map(|host| (host.clone(), GpuMask::EMPTY)).collect();
        for entry in &one.in_all {
            // Of a type that every host has once, it can only have had that one GPU of each.
            let kind = entry.kind.as_deref().filter(|_| entry.count == held.len())?;
            for (name, mask) in &mut held {
                let host = self.hosts.iter().find(|host| host.name == *name)?;
                let alike = host.gpus.iter().zip(0..);
                let mut alike = alike.filter(|(gpu, _)| gpu.kind.as_deref() == Some(kind));
                let (Some((_, index)), None) = (alike.next(), alike.next()) else { return None };
                *mask = mask.union(GpuMask::single(index));
            }
        }
        Some(held)
    }
}

/// True if a comment that names `named` is that of a plan. A task carries the id of its array until it is given its GPUs,
/// then its own.
fn means(named: &str, plan: &str, task: Option<u32>) -> bool {
    named == plan || task.is_some_and(|task| task_id(named, task) == plan)
}

fn belongs(job: &Job, id: Id) -> bool {
    match id {
        Id::Job(number) => {
            job.id == number
                || job.het.is_some_and(|het| het.leader == number)
                || job.array.as_ref().is_some_and(|array| array.job == number)
        }
        Id::Part(leader, offset) => {
            job.het.is_some_and(|het| (het.leader, het.offset) == (leader, offset))
        }
        Id::Task(number, task) => {
            job.array.as_ref().is_some_and(|array| array.job == number && has_task(array, task))
        }
    }
}

/// True if the entry stands for this task: `7`, `1-3%1`, `1,5-9:2`, or `1-3,...` where Slurm cut a long list off.
fn has_task(array: &ArrayTasks, task: u32) -> bool {
    let list = array.tasks.split('%').next().unwrap_or("");
    list.trim_matches(['[', ']']).split(',').any(|part| {
        if part == "..." {
            return true;
        }
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        match (from.parse::<u32>(), to.parse::<u32>(), step.parse::<u32>()) {
            (Ok(from), Ok(to), Ok(step)) => {
                (from..=to).contains(&task) && (task - from).is_multiple_of(step.max(1))
            }
            _ => false,
        }
    })
}

#[cfg(test)]
#[path = "tests/fact.rs"]
mod tests;
