//! From what a job asks for to where its parts go.
//!
//! A job starts now if some set of free GPUs meets it; sets that nobody waits for come first. Else it is planned ahead:
//! the earliest time at which the job fits is taken, as limits tell, and the best set of what is free by then.

use std::collections::BTreeMap;

use bandpilot_core::Request;
use bandpilot_dispatch::{Answer, Impossible};
use bandpilot_model::Predictor;

use super::admit::{Admission, When};
use super::ask::Ask;
use super::clock::{self, Clock};
use super::ground::{Candidate, Ground};
use super::layout::Layout;
use super::parts::layout;
use super::refused::{Refused, RefusedKind};
use crate::site::Site;
use crate::{Host, Snapshot};

/// A plan ahead is given up after so many times at which there are GPUs but no set meets its limits.
const MOST_REFUSALS: usize = 8;

/// What a job is planned on.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// What Slurm has.
    pub snapshot: &'a Snapshot,
    /// How it is set up.
    pub site: &'a Site,
    /// The model on the site's cluster file.
    pub predictor: &'a Predictor<'a>,
    /// Further wishes: bandwidth floor, protection, spare hosts, most hosts, instances. Its number of GPUs does not count.
    pub wishes: &'a Request,
    /// The id of the plan; tasks of an array have their index behind it.
    pub plan_id: &'a str,
    /// Asked now and then; `true` ends a search with what it has. `None`: it ends by itself.
    pub should_stop: Option<&'a dyn Fn() -> bool>,
}

/// When a planned job starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// Everything is free.
    Now,
    /// It waits.
    After {
        /// For these jobs, ascending; may be empty if it is a reservation that it waits for.
        jobs: Vec<u32>,
        /// Until then as limits tell, seconds since 1970; `None` if one of them has no limit.
        at_s: Option<i64>,
    },
}

/// A planned job with its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Where its parts go.
    pub layout: Layout,
    /// Why there.
    pub answer: Answer,
    /// When.
    pub start: Start,
    /// What there is to say beside.
    pub remarks: Vec<String>,
}

/// Plans a job. Where there is no set on the hosts that take jobs, hosts that are drained or down are waited for.
///
/// # Errors
/// If it can never be met, with what would be possible and why hosts were left out.
pub fn plan(given: &Given<'_>, ask: &Ask) -> Result<Planned, Refused> {
    let refused = match plan_on_open_hosts(given, ask) {
        Err(refused) if refused.kind == RefusedKind::Impossible => refused,
        settled => return settled,
    };
    let mut opened = given.snapshot.clone();
    let closed: BTreeMap<String, String> = opened.hosts.iter_mut().filter_map(open).collect();
    let again = Given { snapshot: &opened, ..*given };
    let wished = matches!(refused.constraint.as_str(), "min-busbw" | "protect" | "spare-hosts");
    if closed.is_empty() || wished {
        return Err(refused);
    }
    let Ok(mut planned) = plan_on_open_hosts(&again, ask) else { return Err(refused) };
    for (host, _) in &planned.layout.plan.gpus {
        if let Some(why) = closed.get(host) {
            planned.remarks.push(format!("waits for {host}, which takes no jobs now ({why})"));
        }
    }
    let jobs = match planned.start {
        Start::After { jobs, .. } => jobs,
        Start::Now => Vec::new(),
    };
    planned.start = Start::After { jobs, at_s: None };
    Ok(planned)
}

/// Makes a host one that takes jobs; its name and what keeps jobs off it, if anything does.
fn open(host: &mut Host) -> Option<(String, String)> {
    let mut why = host.closed_by()?.to_lowercase();
    if !host.reason.is_empty() {
        why = format!("{why}: {}", host.reason);
    }
    "IDLE".clone_into(&mut host.state);
    host.flags.clear();
    Some((host.name.clone(), why))
}

fn plan_on_open_hosts(given: &Given<'_>, ask: &Ask) -> Result<Planned, Refused> {
    let clock = Clock::new(given.snapshot, given.site);
    let ground = Ground::new(given, ask, &clock)?;
    let (candidate, when) = earliest(&ground)?;
    Ok(planned(&ground, &candidate, when, given.plan_id))
}

/// What each host could give to a job now, for each partition that it may go to and each alternative of features.
///
/// # Errors
/// If the options contradict one another or the site.
pub fn admissions(given: &Given<'_>, ask: &Ask) -> Result<Vec<(String, Vec<Admission>)>, Refused> {
    let clock = Clock::new(given.snapshot, given.site);
    let ground = Ground::new(given, ask, &clock)?;
    let now = When { from: clock.now, yields: true };
    let of_variant = |(at, way): (usize, &super::ground::Variant<'_>)| {
        (way.gate.partition.name.clone(), ground.admissions(at, now))
    };
    Ok(ground.variants.iter().enumerate().map(of_variant).collect())
}

/// The best set at the earliest time at which there is one.
pub(super) fn earliest(ground: &Ground<'_>) -> Result<(Candidate, When), Refused> {
    let now = When { from: ground.clock.now, yields: true };
    let first = match ground.best_at(now) {
        Ok(candidate) => return Ok((candidate, now)),
        Err(why) => why,
    };
    if let Some(never) = ground.never() {
        return Err(ground.refuse(never, now));
    }
    // Over before those start who wait for its GPUs, and if need be later.
    let moments = ground.clock.moments(&ground.given.snapshot.reservations);
    let mut refusals = usize::from(!is_count(&first));
    for from in std::iter::once(now.from).chain(moments) {
        let when = When { from, yields: false };
        match ground.best_at(when) {
            Ok(candidate) => return Ok((candidate, when)),
            Err(why) => refusals += usize::from(!is_count(&why)),
        }
        if refusals > MOST_REFUSALS {
            break;
        }
    }
    Err(ground.refuse(first, now))
}

/// True if it is only that too few GPUs are free.
fn is_count(why: &Impossible) -> bool {
    !matches!(why.constraint, "protect" | "spare-hosts" | "min-busbw" | "deadline-ms")
}

pub(super) fn planned(ground: &Ground<'_>, candidate: &Candidate, when: When, id: &str) -> Planned {
    let gate = &ground.variants[candidate.variant].gate;
    let layout = layout(gate, &candidate.shape, &candidate.answer.chosen.placement, id);
    let start = start(ground, &layout, when);
    let mut remarks = Vec::new();
    if let Some(groups) = &gate.partition.allowed_groups {
        let name = &gate.partition.name;
        remarks.push(format!("partition {name} is for groups {}", groups.join(", ")));
    }
    let delayed: Vec<String> =
        if start == Start::Now { claims_on(ground, &layout, when) } else { Vec::new() };
    if !delayed.is_empty() {
        let jobs = delayed.join(", ");
        remarks.push(format!(
            "job {jobs} waits for some of these GPUs and starts after the job's limit"
        ));
    }
    Planned { layout, answer: candidate.answer.clone(), start, remarks }
}

/// Jobs that wait for GPUs of the plan and start later.
fn claims_on(ground: &Ground<'_>, layout: &Layout, when: When) -> Vec<String> {
    let mut jobs: Vec<u32> = Vec::new();
    for (at, host) in ground.given.snapshot.hosts.iter().enumerate() {
        let Some((_, gpus)) = layout.plan.gpus.iter().find(|(name, _)| *name == host.name) else {
            continue;
        };
        let claims =
            ground.clock.stays(at).iter().filter(|stay| stay.claim && stay.from > when.from);
        let meets = claims.filter(|stay| !stay.gpus.intersection(*gpus).is_empty());
        jobs.extend(meets.map(|stay| stay.job));
    }
    jobs.sort_unstable();
    jobs.dedup();
    jobs.iter().map(ToString::to_string).collect()
}

/// What a plan waits for.
fn start(ground: &Ground<'_>, layout: &Layout, when: When) -> Start {
    if when.from == ground.clock.now {
        return Start::Now;
    }
    let whole = layout.plan.whole_hosts;
    let mut jobs: Vec<u32> = Vec::new();
    for (at, host) in ground.given.snapshot.hosts.iter().enumerate() {
        let part = layout.plan.gpus.iter().find(|(name, _)| *name == host.name);
        let Some((_, gpus)) = part else { continue };
        let over = ground.clock.stays(at).iter().filter(|stay| stay.to <= when.from);
        let held: Vec<u32> = over
            .clone()
            .filter(|stay| whole || !stay.gpus.intersection(*gpus).is_empty())
            .map(|stay| stay.job)
            .collect();
        // If its GPUs are free already, it is cores or memory that it waits for.
        let load: Vec<u32> = over.filter(|stay| stay.cpus > 0).map(|stay| stay.job).collect();
        jobs.extend(if held.is_empty() && crowded(ground, layout, at) { load } else { held });
    }
    jobs.sort_unstable();
    jobs.dedup();
    Start::After { jobs, at_s: clock::known(when.from) }
}

/// True if a host of the plan lacks cores or memory now.
fn crowded(ground: &Ground<'_>, layout: &Layout, at: usize) -> bool {
    let host = &ground.given.snapshot.hosts[at];
    let part = layout.components.iter().find(|part| part.hosts.contains(&host.name));
    let cpus = part.map_or(0, |part| part.tasks_per_host * part.cpus_per_task.unwrap_or(1));
    let memory = part.and_then(|part| part.memory_mib_per_host).unwrap_or(0);
    let memory = if memory == 0 { host.memory_mib } else { memory };
    let left = ground.clock.left(at, host, ground.clock.now, i64::MAX, true);
    left.cpus < cpus || left.memory_mib < memory
}

#[cfg(test)]
#[path = "../tests/plan.rs"]
mod tests;
