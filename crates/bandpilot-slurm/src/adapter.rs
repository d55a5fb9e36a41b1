//! Slurm as a cluster manager.

use bandpilot_manager::audit::plan_of_comment;
use bandpilot_manager::exchange::{Call, Reply, RunError, Runner};
use bandpilot_manager::{Committed, Fact, Manager, ManagerError, Plan, Undone};
use bandpilot_readers::Diagnostic;

use crate::submit::Submission;
use crate::submit::layout::Layout;
use crate::submit::render::{array_update, render, render_array};
use crate::{Form, ObserveError, Observed, Snapshot, fact, observe};

/// What Slurm's commands say when slurmctld does not answer.
const AWAY: [&str; 3] = [
    "Unable to contact slurm controller",
    "Socket timed out on send/recv",
    "Zero Bytes were transmitted or received",
];
/// A submit whose answer is lost is tried so often. Slurm's commands wait some seconds themselves each time.
const TRIES: usize = 5;
/// So many tasks of an array are given their GPUs by one run of scontrol, some seconds.
const TASKS_AT_ONCE: usize = 500;

/// True if a command that changes nothing got no answer because slurmctld was away.
pub fn ask_again(call: &Call, reply: &Reply) -> bool {
    let asks = ["squeue", "sinfo", "scontrol", "sacct"];
    let program = call.argv.first().map_or("", String::as_str);
    let shows = program != "scontrol" || call.argv.get(1).is_some_and(|word| word == "show");
    asks.contains(&program) && shows && is_away(reply)
}

fn is_away(reply: &Reply) -> bool {
    reply.code != Some(0) && AWAY.iter().any(|words| reply.stderr.contains(words))
}

/// Slurm through its commands.
pub struct Slurm<'r> {
    runner: &'r mut dyn Runner,
}

/// A planned job in Slurm's words.
#[derive(Debug, Clone)]
pub struct Order {
    /// What the user wrote.
    pub submission: Submission,
    /// Variables for the job beside those of the plan, where the user has not set them.
    pub hints: Vec<(String, String)>,
    /// Its GPUs.
    pub parts: Parts,
}

/// One set of GPUs, or one for each task of an array.
#[derive(Debug, Clone)]
pub enum Parts {
    /// A job.
    Job(Layout),
    /// An array.
    Array {
        /// Id of the plan of the whole; those of the tasks are in their layouts.
        id: String,
        /// Tasks by index.
        tasks: Vec<(u32, Layout)>,
    },
}

impl Order {
    /// The commands that hand it over, for people: an array's tasks are updated under the id `JOB`.
    pub fn calls(&self) -> Vec<Call> {
        match &self.parts {
            Parts::Job(layout) => vec![render(&self.submission, layout, &self.hints)],
            Parts::Array { id, tasks } => {
                let mut calls = vec![self.array(id, tasks)];
                calls.extend(self.updates("JOB", tasks));
                calls
            }
        }
    }

    /// All tasks of an array get their GPUs through few runs of scontrol, which reads many commands.
    fn updates(&self, job: &str, tasks: &[(u32, Layout)]) -> Vec<Call> {
        let line = |(index, layout): &(u32, Layout)| {
            array_update(&self.submission, job, *index, layout) + "\n"
        };
        let call = |some: &[(u32, Layout)]| Call {
            stdin: some.iter().map(line).collect(),
            ..Call::of(&["scontrol"])
        };
        tasks.chunks(TASKS_AT_ONCE).map(call).collect()
    }

    fn array(&self, id: &str, tasks: &[(u32, Layout)]) -> Call {
        let mut layout = tasks.first().map(|(_, layout)| layout.clone()).unwrap_or_default();
        id.clone_into(&mut layout.plan.id);
        render_array(&self.submission, &layout, &self.hints)
    }
}

impl Parts {
    /// The plans: one, or that of each task.
    fn plans(&self) -> Vec<&Plan> {
        match self {
            Self::Job(layout) => vec![&layout.plan],
            Self::Array { tasks, .. } => tasks.iter().map(|(_, layout)| &layout.plan).collect(),
        }
    }
}

impl<'r> Slurm<'r> {
    /// Slurm through a runner.
    pub fn new(runner: &'r mut dyn Runner) -> Self {
        Self { runner }
    }

    /// Submits; the id, and what else there was to say. If the answer is lost the queue is searched before it is tried
    /// again: the job is never there twice.
    fn submit(&mut self, call: &Call, plan: &str) -> Result<(String, String), ManagerError> {
        let mut lost = String::new();
        for _ in 0..TRIES {
            lost = match self.runner.call(call) {
                Ok(reply) if reply.code == Some(0) => {
                    return Ok((id_of(&reply.stdout)?, reply.stderr));
                }
                Ok(reply) if is_away(&reply) => said(&reply),
                Ok(reply) => return Err(ManagerError::Refused(said(&reply))),
                Err(error @ RunError::TimedOut(_)) => error.to_string(),
                Err(error) => return Err(silent(&call.argv[..1], &error.to_string())),
            };
            if let Some(job) = self.jobs_of(plan)?.into_iter().next() {
                return Ok((job, lost));
            }
        }
        Err(silent(&call.argv[..1], &lost))
    }

    /// Jobs that were submitted for this plan, by the id of the first component or of the array.
    ///
    /// # Errors
    /// If Slurm does not answer.
    pub fn jobs_of(&mut self, plan: &str) -> Result<Vec<String>, ManagerError> {
        let reply = self.must(&["squeue", "-h", "-a", "-t", "all", "-o", "%i %k"])?;
        let mine = |line: &&str| {
            let comment = line.split_once(' ').map_or("", |(_, comment)| comment);
            plan_of_comment(comment) == Some(plan)
        };
        let first = |line: &str| {
            let name = line.split(' ').next().unwrap_or("");
            name.split(['+', '_']).next().unwrap_or("").to_owned()
        };
        let mut found: Vec<String> = reply.stdout.lines().filter(mine).map(first).collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Gives each task of an array its GPUs. If one is refused, the whole array is taken back.
    fn place_tasks(
        &mut self,
        order: &Order,
        job: &str,
        tasks: &[(u32, Layout)],
    ) -> Result<(), ManagerError> {
        for call in order.updates(job, tasks) {
            let refused = match self.runner.call(&call) {
                Ok(reply) if reply.code == Some(0) => continue,
                Ok(reply) => said(&reply),
                Err(error) => error.to_string(),
            };
            self.must(&["scancel", job])?;
            let message = format!(
                "not all tasks were given their GPUs, so array {job} was cancelled: {refused}"
            );
            return Err(ManagerError::Refused(message));
        }
        Ok(())
    }

    fn must(&mut self, argv: &[&str]) -> Result<Reply, ManagerError> {
        match self.runner.run(argv) {
            Ok(reply) if reply.code == Some(0) => Ok(reply),
            Ok(reply) => Err(silent(argv, &said(&reply))),
            Err(error) => Err(silent(argv, &error.to_string())),
        }
    }
}

impl Manager for Slurm<'_> {
    type Snapshot = Observed;
    type Order = Order;
    type Job = String;

    fn observe(&mut self) -> Result<Observed, ManagerError> {
        observe(self.runner, Form::Any)
            .map_err(|ObserveError { reasons }| ManagerError::NoAnswer(reasons))
    }

    fn commit(&mut self, order: &Order, on: &Observed) -> Result<Committed<String>, ManagerError> {
        for plan in order.parts.plans() {
            stands(plan, &on.snapshot)?;
        }
        let (job, said) = match &order.parts {
            Parts::Job(layout) => {
                let call = render(&order.submission, layout, &order.hints);
                self.submit(&call, &layout.plan.id)?
            }
            Parts::Array { id, tasks } => {
                let (job, said) = self.submit(&order.array(id, tasks), id)?;
                self.place_tasks(order, &job, tasks)?;
                (job, said)
            }
        };
        let fact = self.verify(&job)?;
        Ok(Committed { job, fact, said })
    }

    fn verify(&mut self, job: &String) -> Result<Fact, ManagerError> {
        fact::fact(self.runner, job).map_err(ManagerError::NoAnswer)
    }

    fn undo(&mut self, job: &String) -> Result<Undone, ManagerError> {
        // Only what waits: a job that starts in this moment goes on.
        self.must(&["scancel", "--state=PENDING", job])?;
        match self.verify(job)? {
            Fact::Over { gpus: Some(gpus), .. } if gpus.is_empty() => Ok(Undone::Withdrawn),
            Fact::Unknown => Ok(Undone::Withdrawn),
            fact => Ok(Undone::Started(fact)),
        }
    }
}

/// A plan is of its snapshot if all hosts that it names had these GPUs.
fn stands(plan: &Plan, on: &Snapshot) -> Result<(), ManagerError> {
    for (name, mask) in &plan.gpus {
        let has = on.host(name).map_or(bandpilot_core::GpuMask::EMPTY, crate::Host::all_gpus);
        let lacks = mask.without(has);
        if !lacks.is_empty() {
            let message = format!("the plan names {name}:{lacks}, which was not there");
            return Err(ManagerError::Stale(message));
        }
    }
    Ok(())
}

/// The id of `12` or `12;cluster`.
fn id_of(stdout: &str) -> Result<String, ManagerError> {
    let line = stdout.lines().last().unwrap_or("").trim();
    let id = line.split(';').next().unwrap_or("");
    if id.is_empty() || !id.bytes().all(|b| b.is_ascii_digit()) {
        return Err(silent(&["sbatch"], &format!("printed '{line}' instead of a job id")));
    }
    Ok(id.to_owned())
}

/// What a command complained about.
fn said(reply: &Reply) -> String {
    let lines: Vec<&str> = reply
        .stderr
        .lines()
        .map(|line| line.trim().trim_start_matches("sbatch: error: "))
        .filter(|line| !line.is_empty())
        .collect();
    match reply.code {
        _ if !lines.is_empty() => lines.join("; "),
        Some(code) => format!("ended with {code} and said nothing"),
        None => "was ended by a signal".to_owned(),
    }
}

fn silent<S: AsRef<str>>(argv: &[S], message: &str) -> ManagerError {
    let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    ManagerError::NoAnswer(vec![(words.join(" "), Diagnostic::error("", message))])
}
