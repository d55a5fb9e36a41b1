//! The audit against what Slurm says.

use bandpilot_core::GpuMask;
use bandpilot_manager::Fact;
use bandpilot_manager::audit::{Audit, Entry, HostGpus, Known, State, What};
use bandpilot_readers::Diagnostic;

use crate::Remark;
use crate::fact::{DoubleBooking, Jobs};

/// A plan without a job counts as being submitted for so long, seconds.
pub const SUBMIT_S: i64 = 60;

/// How a plan and its job stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The job has or had what was planned.
    AsPlanned,
    /// It has or had something else.
    Differs,
    /// It waits.
    Waits,
    /// It is over and never had GPUs.
    NeverRan,
    /// It is over, or Slurm does not know it any more, and what it had cannot be told.
    Unseen,
    /// Slurm's answer about it could not be read.
    Unread,
    /// Its submitter is at it.
    BeingSubmitted,
    /// It waits without GPUs, for ever: its submitter did not come to giving this task of an array its own.
    Stranded,
    /// Its submitter did not come to submitting it.
    NotSubmitted,
    /// Its submitter took it back.
    Withdrawn,
    /// Slurm refused it.
    Failed,
    /// What was planned is not in the file.
    NoPlan,
}

/// One plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its id.
    pub plan: String,
    /// Its job.
    pub job: Option<String>,
    /// What was planned, in the order of ranks.
    pub planned: Vec<(String, GpuMask)>,
    /// What the job was seen to have.
    pub held: Option<Vec<(String, GpuMask)>>,
    /// How they stand to each other.
    pub verdict: Verdict,
    /// What differs, why it waits, and the like; may be empty.
    pub why: String,
    /// True if Slurm was asked about it now.
    pub asked: bool,
}

/// What became of a look at all plans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Verified {
    /// The plans in the order of the file.
    pub rows: Vec<Row>,
    /// What is to be appended to the audit.
    pub entries: Vec<Entry>,
    /// GPUs that several jobs hold now.
    pub double_bookings: Vec<DoubleBooking>,
    /// What else there is to say.
    pub remarks: Vec<Remark>,
}

impl Verdict {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::AsPlanned => "as planned",
            Self::Differs => "differs",
            Self::Waits => "waits",
            Self::NeverRan => "over, never had GPUs",
            Self::Unseen => "over, never seen running",
            Self::Unread => "not readable",
            Self::Stranded => "never given its GPUs",
            Self::BeingSubmitted => "being submitted",
            Self::NotSubmitted => "planned, not submitted",
            Self::Withdrawn => "withdrawn",
            Self::Failed => "refused",
            Self::NoPlan => "no plan",
        }
    }

    /// True if a later look may say something else.
    pub const fn open(self) -> bool {
        matches!(self, Self::Waits | Self::BeingSubmitted | Self::Unread)
    }

    /// True if the audit does not show that the plan was kept, although it should.
    pub const fn bad(self) -> bool {
        matches!(self, Self::Differs | Self::Unseen | Self::Unread | Self::Stranded)
    }
}

impl Verified {
    /// True if something is not as it should be.
    pub fn bad(&self) -> bool {
        !self.double_bookings.is_empty() || self.rows.iter().any(|row| row.verdict.bad())
    }

    /// True if a later look may say something else.
    pub fn open(&self) -> bool {
        self.rows.iter().any(|row| row.verdict.open())
    }
}

/// Compares the plans with what Slurm says, all or those of one job. Nothing is asked again of plans whose job was seen.
///
/// The audit has to be read before Slurm is asked: a job that was submitted in between would be missed.
pub fn verify(audit: &Audit, jobs: &Jobs, only: Option<&str>) -> Verified {
    let mut verified = Verified::default();
    for known in &audit.plans {
        let mut known = known.clone();
        find_lost(&mut known, jobs, &mut verified);
        if only.is_some_and(|only| known.job.as_deref() != Some(only)) {
            continue;
        }
        let row = match &known.job {
            Some(job) if known.state == State::Submitted => look(&known, job, jobs, &mut verified),
            _ => Row { verdict: settled(&known, jobs.at_s), ..row(&known) },
        };
        verified.rows.push(row);
    }
    verified.double_bookings = jobs.double_bookings();
    verified
}

/// The job of a plan that has none in the file: the submit may have worked, and only its answer was lost.
fn find_lost(known: &mut Known, jobs: &Jobs, verified: &mut Verified) {
    if !matches!(known.state, State::Planned | State::Failed) {
        return;
    }
    let task = known.planned.as_ref().and_then(|planned| planned.array_task);
    let found = jobs.of_plan(&known.id, task);
    if found.len() > 1 {
        let message = format!("plan {} stands in the queue as jobs {}", known.id, found.join(", "));
        let help = "only the first is looked at; cancel the others";
        let remark = Diagnostic::error("", message).help(help);
        verified.remarks.push(("slurm".to_owned(), remark));
    }
    if let Some(job) = found.into_iter().next() {
        let what = What::Submitted { job: job.clone() };
        verified.entries.push(Entry { plan: known.id.clone(), at_s: jobs.at_s, what });
        (known.state, known.job) = (State::Submitted, Some(job));
    }
}

fn look(known: &Known, job: &str, jobs: &Jobs, verified: &mut Verified) -> Row {
    let row = Row { asked: true, ..row(known) };
    let other = jobs.is_of_another_plan(job, &known.id);
    let fact = if other { Fact::Unknown } else { jobs.fact(job) };
    let why = match &fact {
        Fact::Waits(_) if jobs.is_stranded(job) && jobs.at_s < known.at_s + SUBMIT_S => {
            return Row { verdict: Verdict::BeingSubmitted, ..row };
        }
        Fact::Waits(_) if jobs.is_stranded(job) => {
            let why = format!("its submitter was ended: scancel {job}, and submit it anew");
            return Row { verdict: Verdict::Stranded, why, ..row };
        }
        Fact::Waits(reason) => return Row { verdict: Verdict::Waits, why: reason.clone(), ..row },
        Fact::Unknown if !other && !jobs.whole => return Row { verdict: Verdict::Unread, ..row },
        _ => String::new(),
    };
    let Some(planned) = &known.planned else {
        return Row { verdict: Verdict::NoPlan, why, ..row };
    };
    let Some(seen) = planned.judge(job, &fact) else { return row };
    let held = seen.gpus.as_deref().map(HostGpus::masks);
    let verdict = verdict(seen.agrees, held.as_deref());
    let row = Row { verdict, held, why: seen.differs.clone(), ..row };
    let what = What::Fact(seen);
    verified.entries.push(Entry { plan: known.id.clone(), at_s: jobs.at_s, what });
    row
}

fn verdict(agrees: Option<bool>, held: Option<&[(String, GpuMask)]>) -> Verdict {
    match (agrees, held) {
        (Some(true), _) => Verdict::AsPlanned,
        (Some(false), _) => Verdict::Differs,
        (None, Some([])) => Verdict::NeverRan,
        (None, _) => Verdict::Unseen,
    }
}

/// What the file alone says.
fn settled(known: &Known, now_s: i64) -> Verdict {
    let last = known.facts.last().map(|(_, seen)| seen);
    match known.state {
        State::Planned if now_s - known.at_s <= SUBMIT_S => Verdict::BeingSubmitted,
        State::Planned => Verdict::NotSubmitted,
        State::Withdrawn => Verdict::Withdrawn,
        State::Failed => Verdict::Failed,
        State::Verified => Verdict::AsPlanned,
        State::Differs => Verdict::Differs,
        State::Submitted | State::Unseen => {
            let held = last.and_then(|seen| seen.gpus.as_deref()).map(HostGpus::masks);
            verdict(None, held.as_deref())
        }
    }
}

fn row(known: &Known) -> Row {
    let mut told = known.facts.iter().map(|(_, seen)| seen);
    // What differs is more than what somebody else found in order.
    let seen = told.clone().find(|seen| seen.agrees == Some(false)).or(told.next_back());
    let why = seen.map_or(&known.why, |seen| &seen.differs);
    let planned = known.planned.as_ref();
    Row {
        plan: known.id.clone(),
        job: known.job.clone(),
        planned: planned.map_or(Vec::new(), |planned| HostGpus::masks(&planned.gpus)),
        held: seen.and_then(|seen| seen.gpus.as_deref()).map(HostGpus::masks),
        verdict: Verdict::Unseen,
        why: why.clone(),
        asked: false,
    }
}

#[cfg(test)]
#[path = "tests/verify.rs"]
mod tests;
