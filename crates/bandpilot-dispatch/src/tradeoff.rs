//! Bandwidth given up for less fragmentation.

use bandpilot_core::{ClusterState, Placement, Request};
use bandpilot_fragmentation::Occupancy;

use crate::answer::{Valued, low_end, valued};
use crate::fragmentation::{Fill, Fragmentation};
use crate::limits::Limits;
use crate::scene::Scene;
use crate::scope::Scope;
use crate::search::{Found, SearchOptions, least_fragmentation};

/// What was given up, and what for.
#[derive(Debug, Clone, PartialEq)]
pub struct Tradeoff {
    /// Share of the best effective bandwidth that may be given up, 0 to 1.
    pub share: f64,
    /// The set with the best bandwidth.
    pub best: Valued,
    /// How much less effective bandwidth the chosen set has than that, GB/s.
    pub price: f64,
    /// The cluster as it is.
    pub before: Fragmentation,
    /// What the best set would leave.
    pub best_leaves: Fragmentation,
    /// What the chosen set leaves.
    pub leaves: Fragmentation,
    /// No set within the share leaves less.
    pub proven: bool,
    /// No set within the share leaves fewer avoidable partial hosts; `None`: no certificate.
    pub avoidable_bound: Option<usize>,
}

/// The set that leaves the least within `share` of the best one, what was given up for it, and the steps that it took. Its low end
/// reaches the floor of the request like that of `best`.
pub(crate) fn trade(
    scene: &Scene<'_>,
    scope: &Scope,
    state: &ClusterState,
    request: &Request,
    (share, best): (f64, Found),
    options: &SearchOptions<'_>,
) -> (Found, Tradeoff, u64) {
    let predictor = scene.predictor();
    let limits = Limits::new(scene, scope, request);
    let allowed = |set: &Placement| {
        let fast_enough = |floor| low_end(predictor, set, scene.effective(set).effective) >= floor;
        limits.allow(set) && request.min_busbw_gbytes_per_s.is_none_or(fast_enough)
    };
    let fill = Fill::new(&Occupancy::of(predictor.cluster(), state));
    let options = SearchOptions { allowed: &allowed, ..*options };
    let floor = (1.0 - share) * best.effective;
    let known = Some(&best.placement);
    let least = least_fragmentation(scene, scope, request, &fill, floor, known, &options);
    let best_leaves = fill.after(&best.placement, scope.unit);
    let (found, leaves, proven, avoidable_bound, steps) = match least {
        Ok(least) => (least.found, least.left, least.proven, least.avoidable_bound, least.steps),
        // The best set is worth enough itself.
        Err(_) => (best.clone(), best_leaves, false, None, 0),
    };
    let tradeoff = Tradeoff {
        share,
        price: (best.effective - found.effective).max(0.0),
        best: valued(best),
        before: fill.now(),
        best_leaves,
        leaves,
        proven,
        avoidable_bound,
    };
    (found, tradeoff, steps)
}
