//! Which jobs to move.

use std::collections::BTreeMap;

use bandpilot_core::{ClusterState, GpuMask, HostId, Placement};
use bandpilot_fragmentation::{
    Gang, Goal, Measures, Occupancy, Plan, Price, Rules, Shift, Space, measures,
};

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

/// An instance that goes on elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Its job, by place in the state.
    pub job: usize,
    /// Where it is.
    pub from: (HostId, GpuMask),
    /// Where it goes.
    pub to: (HostId, GpuMask),
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
        None => tidy(stand, args, &before),
    };
    let (moves, after) = applied(stand, &shifts);
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
    let of = |_: u32, gpus: usize| gpus as f64 * args.migration_cost;
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

/// Moves after which fewer hosts are partial, pool by pool as few as can be had.
fn tidy(stand: &Stand, args: &Compact, before: &Measures) -> (Verdict, Vec<Shift>) {
    let (mut shifts, mut left) = (Vec::new(), false);
    for (pool, space) in spaces(stand) {
        let of = &before.pools[pool];
        let most = of.figures.least.partial + args.tau;
        if of.figures.partial <= most {
            continue;
        }
        // Pinned instances may keep some partial.
        let first = most.max(of.least_movable.partial);
        let plan = (first..of.figures.partial)
            .find_map(|most| space.plan(&Goal::Partial(most), &Price::GPUS));
        left |= plan.is_none();
        shifts.extend(plan.into_iter().flat_map(|plan| plan.shifts));
    }
    let verdict = match (shifts.is_empty(), left) {
        (false, _) => Verdict::Moves,
        (true, true) => Verdict::NothingHelps,
        (true, false) => Verdict::NothingToDo,
    };
    (verdict, shifts)
}

/// The shifts with GPUs by index, and what runs then. All jobs that are moved give their GPUs back first; each instance then gets
/// those with the lowest indexes.
fn applied(stand: &Stand, shifts: &[Shift]) -> (Vec<Moved>, ClusterState) {
    let mut after = stand.state.clone();
    let mut instances: BTreeMap<usize, Vec<(HostId, GpuMask)>> = BTreeMap::new();
    let mut leaving = Vec::new();
    for shift in shifts {
        let job = shift.job as usize;
        let of_job =
            instances.entry(job).or_insert_with(|| stand.state.jobs[job].instances().collect());
        let at = of_job
            .iter()
            .position(|(host, mask)| *host == shift.from && mask.count() == shift.gpus);
        let Some(at) = at else { continue };
        let from = of_job.remove(at);
        let free = &mut after.free[from.0.index()];
        *free = free.union(from.1);
        leaving.push((job, from, shift.to));
    }
    leaving.sort_by_key(|(job, from, to)| (*to, std::cmp::Reverse(from.1.count()), *job, *from));
    let mut moves = Vec::with_capacity(leaving.len());
    for (job, from, to) in leaving {
        let free = &mut after.free[to.index()];
        let mask = free.lowest(from.1.count());
        *free = free.without(mask);
        instances.entry(job).or_default().push((to, mask));
        moves.push(Moved { job, from, to: (to, mask) });
    }
    for (job, of_job) in instances {
        let size = of_job.first().map_or(0, |(_, mask)| mask.count());
        let alike = of_job.iter().all(|(_, mask)| mask.count() == size);
        let job = &mut after.jobs[job];
        // Two of them on one host would otherwise be taken for one.
        job.instance_gpus = if alike { Some(size) } else { job.instance_gpus };
        job.placement = Placement::new(of_job);
    }
    moves.sort_by_key(|moved| (moved.job, moved.from));
    (moves, after)
}

/// Where the job goes then.
fn places(stand: &Stand, occupancy: &Occupancy, wanted: Wanted) -> Vec<(HostId, usize)> {
    let place = |pool| {
        let gang = gang(stand, wanted, pool)?;
        Space::of(occupancy, pool, Rules::Repaired).place_off_space(&gang)
    };
    (0..occupancy.pools.len()).find_map(place).unwrap_or_default()
}
