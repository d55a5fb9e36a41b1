//! Which jobs to move.

use bandpilot_core::{ClusterState, HostId};
use bandpilot_fragmentation::{
    Gang, Goal, Measures, Occupancy, Plan, Price, Rules, Shift, Space, measures,
};
use bandpilot_readers::Diagnostic;

use super::carry::{Carried, Moved, carry};
use super::tidy::tidy_pool;
use super::too_wide;
use crate::cli::{Compact, Wanted};
use crate::commands::fragmentation::Stand;
use crate::exit::Failure;

/// What is advised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// The goal is reached as things are.
    NothingToDo,
    /// To move jobs.
    Moves,
    /// No moves were found that lead there.
    NothingHelps,
    /// The moves cost more than they may, GPU-seconds.
    DoesNotPay {
        /// What they would cost.
        cost_gpu_s: f64,
    },
}

/// What is advised, with what comes of it.
pub struct Advice {
    /// In a word.
    pub verdict: Verdict,
    /// The moves, all at one instant.
    pub moves: Vec<Moved>,
    /// GPUs of the jobs that are moved.
    pub gpus: usize,
    /// Jobs that are moved.
    pub jobs: usize,
    /// GPU-seconds that moves may cost.
    pub worth_gpu_s: Option<f64>,
    /// Figures before.
    pub before: Measures,
    /// Figures after.
    pub after_figures: Measures,
    /// What runs afterwards.
    pub after: ClusterState,
    /// What the state afterwards does not tell.
    pub remarks: Vec<Diagnostic>,
    /// Hosts for the job that waits, with the GPUs of its instances there.
    pub then: Vec<(HostId, usize)>,
}

/// Advises.
///
/// # Errors
/// If no host has as many GPUs as an instance wants.
pub fn advise(stand: &Stand, args: &Compact) -> Result<Advice, Failure> {
    let before = measures(&stand.occupancy);
    let (verdict, shifts) = match args.wanted {
        Some(wanted) => fit(stand, args, wanted)?,
        None => tidy(stand, args.tau, &before),
    };
    let Carried { moves, after, remarks } = carry(stand, &shifts);
    let occupancy = Occupancy::of(&stand.cluster, &after);
    let mut jobs: Vec<usize> = moves.iter().map(|moved| moved.job).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let reached = matches!(verdict, Verdict::Moves | Verdict::NothingToDo);
    let then = match args.wanted.filter(|_| reached) {
        Some(wanted) => places(stand, &occupancy, wanted),
        None => Vec::new(),
    };
    Ok(Advice {
        verdict,
        gpus: jobs.iter().map(|job| stand.state.jobs[*job].placement.gpus()).sum(),
        jobs: jobs.len(),
        worth_gpu_s: worth_gpu_s(args),
        after_figures: measures(&occupancy),
        before,
        moves,
        after,
        then,
        remarks,
    })
}

/// What the wait of the job is worth.
fn worth_gpu_s(args: &Compact) -> Option<f64> {
    let gpus = match args.wanted? {
        Wanted::Gpus(gpus) => gpus,
        Wanted::Instances(instances, gpus) => instances * gpus,
    };
    Some(args.beta * gpus as f64 * args.expected_wait?)
}

/// A job as a gang on the hosts of a pool; `None` if they have too few GPUs for an instance.
fn gang(stand: &Stand, wanted: Wanted, pool: usize) -> Option<Gang> {
    let host_gpus = stand.occupancy.pools[pool].host_gpus;
    let job = stand.state.jobs.len() as u32;
    match wanted {
        Wanted::Gpus(all) => {
            let gpus = all.min(host_gpus).max(1);
            Some(Gang { job, instances: all / gpus, gpus, rest: all % gpus })
        }
        Wanted::Instances(instances, gpus) => {
            (gpus <= host_gpus).then_some(Gang { job, instances, gpus, rest: 0 })
        }
    }
}

fn spaces(stand: &Stand) -> impl Iterator<Item = (usize, Space)> + '_ {
    let pools = 0..stand.occupancy.pools.len();
    pools.map(|pool| (pool, Space::of(&stand.occupancy, pool, Rules::Repaired)))
}

/// GPUs of a job, on hosts of all pools: it is stopped as a whole.
fn gpus(stand: &Stand, job: u32) -> f64 {
    stand.state.jobs.get(job as usize).map_or(f64::INFINITY, |job| job.placement.gpus() as f64)
}

/// Moves that let a job start, on the hosts where they cost least.
fn fit(stand: &Stand, args: &Compact, wanted: Wanted) -> Result<(Verdict, Vec<Shift>), Failure> {
    let gangs: Vec<(Gang, Space)> = spaces(stand)
        .filter_map(|(pool, space)| Some((gang(stand, wanted, pool)?, space)))
        .collect();
    if gangs.is_empty() {
        return Err(too_wide(
            "no host has as many GPUs as an instance wants",
            "ask for smaller instances",
        ));
    }
    if gangs.iter().any(|(gang, space)| space.reached(&Goal::Fit(*gang))) {
        return Ok((Verdict::NothingToDo, Vec::new()));
    }
    let of = |job: u32, _: usize| gpus(stand, job) * args.migration_cost;
    let best = |most: f64| -> Option<Plan> {
        let price = Price { of: &of, most };
        let plans = gangs.iter().filter_map(|(gang, space)| space.plan(&Goal::Fit(*gang), &price));
        plans.min_by(|a, b| a.cost.total_cmp(&b.cost))
    };
    if let Some(plan) = best(worth_gpu_s(args).unwrap_or(f64::INFINITY)) {
        return Ok((Verdict::Moves, plan.shifts));
    }
    Ok(match best(f64::INFINITY) {
        Some(plan) => (Verdict::DoesNotPay { cost_gpu_s: plan.cost }, Vec::new()),
        None => (Verdict::NothingHelps, Vec::new()),
    })
}

/// Moves after which fewer hosts are partial, pool by pool as few as were found.
fn tidy(stand: &Stand, tau: usize, before: &Measures) -> (Verdict, Vec<Shift>) {
    let (mut shifts, mut left) = (Vec::new(), false);
    let of = |job: u32, _: usize| gpus(stand, job);
    let price = Price { of: &of, most: f64::INFINITY };
    for (pool, of_pool) in before.pools.iter().enumerate() {
        if of_pool.figures.avoidable() > tau {
            let most = of_pool.figures.least.partial + tau;
            let found = tidy_pool(&stand.occupancy, pool, most, &price);
            left |= found.is_empty();
            shifts.extend(found);
        }
    }
    let verdict = match (shifts.is_empty(), left) {
        (false, _) => Verdict::Moves,
        (true, true) => Verdict::NothingHelps,
        (true, false) => Verdict::NothingToDo,
    };
    (verdict, shifts)
}

/// Where the job goes then.
fn places(stand: &Stand, occupancy: &Occupancy, wanted: Wanted) -> Vec<(HostId, usize)> {
    let place = |pool| {
        let gang = gang(stand, wanted, pool)?;
        Space::of(occupancy, pool, Rules::Repaired).place_off_space(&gang)
    };
    (0..occupancy.pools.len()).find_map(place).unwrap_or_default()
}
