//! Exact search by branch and bound.
//!
//! A set that spans hosts is worth what (number of hosts, least injection bandwidth, share sizes that occur,
//! least local bandwidth) make of it, less what the running jobs that it meets take. So the search goes
//! over *cells*, one for each (number of hosts, smallest share, least injection bandwidth), best upper
//! bound first, and inside a cell over how many hosts of each class give how many GPUs. A cell or branch
//! whose bound does not reach the best set found is cut; when all others are cut, the best set is
//! proven optimal under the model. Stopped early, the bound of the cell at hand bounds everything
//! unseen.

mod cells;
mod jobs;
mod least;
mod leaving;
mod rails;
mod seeds;
mod state;
mod walk;

use bandpilot_core::{GpuMask, HostId, Placement, Request};

use crate::baselines;
use crate::classes;
use crate::scene::Scene;
use crate::scope::Scope;
use state::Incumbents;

pub use least::{Least, least_fragmentation};

/// A search that is not over after so many steps is begun anew from more good sets.
const EASY_STEPS: u64 = 20_000;

/// What counts as better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The effective bandwidth.
    #[default]
    Effective,
    /// The low end of the effective bandwidth's error band.
    LowEnd,
}

/// How to search.
#[derive(Clone, Copy)]
pub struct SearchOptions<'a> {
    /// What counts as better.
    pub objective: Objective,
    /// Also find the best set of another shape than the best.
    pub runner_up: bool,
    /// Give up after this many steps of the search; a step is 10 to 100 ns of work.
    pub most_steps: u64,
    /// Sets for which this is false are not wanted. The certificate counts them all the same.
    pub allowed: &'a dyn Fn(&Placement) -> bool,
    /// Asked now and then; `true` ends the search with what it has.
    pub should_stop: &'a dyn Fn() -> bool,
}

impl Default for SearchOptions<'_> {
    fn default() -> Self {
        Self {
            objective: Objective::Effective,
            runner_up: false,
            most_steps: 2_000_000,
            allowed: &|_| true,
            should_stop: &|| false,
        }
    }
}

/// A set that meets the request, with its worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The GPUs.
    pub placement: Placement,
    /// Alone, GB/s.
    pub isolated: f64,
    /// Beside the running jobs, GB/s.
    pub effective: f64,
    /// What the running jobs lose together, GB/s.
    pub harm: f64,
    /// What the objective makes of it: GB/s, or with groups steps per second.
    pub objective: f64,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The best set.
    pub best: Found,
    /// The best set of another shape (counts per host type), if asked for and there is one.
    pub runner_up: Option<Found>,
    /// No set is worth more than this under the model, in the unit of the objective; `None` if hosts with very many unlike GPUs
    /// kept some subsets from being looked at.
    pub upper_bound: Option<f64>,
    /// The best set is proven to be optimal.
    pub proven: bool,
    /// Steps taken.
    pub steps: u64,
}

/// Nothing was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFound {
    /// There is no set that meets the request and is allowed; else the search ended before it found one.
    pub proven: bool,
}

/// Finds the best set.
///
/// # Errors
/// If none was found.
pub fn search(
    scene: &Scene<'_>,
    scope: &Scope,
    request: &Request,
    options: &SearchOptions<'_>,
) -> Result<Outcome, NotFound> {
    let host_counts = scope.host_counts(request);
    let mut found = Incumbents::new(scene, options);
    let mut exhaustive = true;
    let mut beaten_left_out = false;
    if host_counts.first() == Some(&1) {
        exhaustive &= inside_hosts(scene, scope, request.gpus, &mut found);
    }
    let across: Vec<usize> = host_counts.iter().copied().filter(|&k| k > 1).collect();
    let mut ended = cells::End { bound: f64::NEG_INFINITY, steps: 0 };
    if !across.is_empty() {
        let classes = classes::classify(scene, scope);
        exhaustive &= classes.iter().all(|class| class.exhaustive);
        beaten_left_out = classes.iter().any(|class| class.beaten_left_out);
        for set in [
            baselines::balanced(&scope.cut(), request.gpus, scope.unit),
            baselines::most_compact(&scope.cut(), request.gpus, scope.unit),
        ] {
            let counts: Vec<usize> = set.shares().iter().map(|(_, mask)| mask.count()).collect();
            let even = counts.iter().all(|c| *c == counts[0]);
            if set.gpus() == request.gpus
                && across.contains(&set.hosts())
                && (even || !request.uniform)
            {
                found.offer(set);
            }
        }
        let first = SearchOptions { most_steps: options.most_steps.min(EASY_STEPS), ..*options };
        ended = cells::across_hosts(scene, &classes, request, &across, &first, &mut found);
        if ended.bound > f64::NEG_INFINITY {
            // Not one of the easy searches, which are most: more good sets to begin with are worth their while.
            seeds::offer(&classes, request, &across, &mut found);
            ended = cells::across_hosts(scene, &classes, request, &across, options, &mut found);
        }
    }
    // Where a set was not allowed, one that it beats may be.
    let unseen = if beaten_left_out { ended.bound.max(found.refused()) } else { ended.bound };
    let Some((best, runner_up)) = found.into_sets() else {
        return Err(NotFound { proven: exhaustive && unseen == f64::NEG_INFINITY });
    };
    let align = |found| aligned(scene, scope, found);
    let (best, runner_up) = (align(best), runner_up.map(align));
    let upper_bound = exhaustive.then_some(best.objective.max(unseen));
    Ok(Outcome {
        proven: exhaustive && unseen <= best.objective,
        upper_bound,
        best,
        runner_up,
        steps: ended.steps,
    })
}

/// Of GPUs that are all alike the same indexes on every host.
fn aligned(scene: &Scene<'_>, scope: &Scope, mut found: Found) -> Found {
    let alike = |host| classes::all_alike(scene, host);
    found.placement = rails::aligned(&found.placement, &scope.usable, alike);
    found
}

/// Sets inside one host. They meet no running job, so every host's best subset is a candidate. False if some host's subsets
/// were not all looked at.
fn inside_hosts(
    scene: &Scene<'_>,
    scope: &Scope,
    gpus: usize,
    found: &mut Incumbents<'_, '_>,
) -> bool {
    let predictor = scene.predictor();
    let usable = scope.usable.iter().enumerate();
    let mut tightest: Vec<(usize, HostId, GpuMask)> = usable
        .map(|(host, free)| (free.count(), HostId(host as u32), *free))
        .filter(|(_, host, _)| scope.most(*host) >= gpus)
        .collect();
    // Among equals the host that is left with the fewest GPUs.
    tightest.sort_unstable();
    let mut exhaustive = true;
    for (_, host, free) in tightest {
        let mut mask = free.lowest(gpus);
        if gpus > 1 && gpus < free.count() && predictor.subsets_differ(host) {
            let (masks, all) = classes::subsets(scene, host, free, gpus);
            exhaustive &= all;
            let worth = |mask: GpuMask| {
                predictor.score(predictor.inside(host, mask), predictor.inner_seconds(host, mask))
            };
            let better =
                |best: GpuMask, mask: GpuMask| if worth(mask) > worth(best) { mask } else { best };
            mask = masks.into_iter().reduce(better).unwrap_or(mask);
        }
        found.offer(Placement::new([(host, mask)]));
    }
    exhaustive
}
