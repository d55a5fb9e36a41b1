//! The best sets found so far.

use bandpilot_core::Placement;

use crate::scene::Scene;
use crate::search::leaving::{Key, Leaving};
use crate::search::{Found, Objective, SearchOptions};

/// Differences of this share are noise of the arithmetic, not better sets.
const TIE: f64 = 1e-12;

/// Counts per host type, largest first: two sets of one shape differ only in which alike hosts and GPUs they take.
type Shape = Vec<(u16, u32)>;

/// The best set and, if asked for, the best of another shape.
pub(super) struct Incumbents<'s, 'a> {
    scene: &'s Scene<'a>,
    objective: Objective,
    wants_runner_up: bool,
    allowed: &'s dyn Fn(&Placement) -> bool,
    /// Best objective of a set that was not allowed.
    refused: f64,
    best: Option<(Found, Shape)>,
    runner_up: Option<(Found, Shape)>,
    /// Where first comes what a set leaves.
    within: Option<Within<'s>>,
}

/// Sets worth enough, judged by what they leave.
struct Within<'s> {
    leaving: &'s Leaving<'s>,
    /// Sets worth less do not count.
    floor: f64,
    /// Among sets that leave the same, the better one is looked for.
    refines: bool,
    /// What the best set leaves.
    best: Option<Key>,
    /// Least that a set leaves that was not allowed.
    refused: Option<Key>,
}

impl<'s, 'a> Incumbents<'s, 'a> {
    pub(super) fn new(scene: &'s Scene<'a>, options: &SearchOptions<'s>) -> Self {
        Self {
            scene,
            objective: options.objective,
            wants_runner_up: options.runner_up,
            allowed: options.allowed,
            refused: f64::NEG_INFINITY,
            best: None,
            runner_up: None,
            within: None,
        }
    }

    /// Of the sets worth at least `floor` those that leave the least.
    pub(super) fn within(mut self, leaving: &'s Leaving<'s>, floor: f64) -> Self {
        let floor = floor - TIE * floor.abs();
        self.within = Some(Within { leaving, floor, refines: false, best: None, refused: None });
        self
    }

    /// From now on better sets are looked for that leave as little as the best one.
    pub(super) fn refine(&mut self) {
        if let Some(within) = &mut self.within {
            within.refines = true;
        }
    }

    /// What the best set leaves, and the least that a set leaves that was not allowed.
    pub(super) fn left(&self) -> (Option<Key>, Option<Key>) {
        self.within.as_ref().map_or((None, None), |within| (within.best, within.refused))
    }

    /// True if no set that leaves at least this could change anything.
    pub(super) fn leaves_too_much(&self, least: Key) -> bool {
        let Some(Within { refines, best: Some(best), .. }) = &self.within else { return false };
        if *refines { least > *best } else { least >= *best }
    }

    /// Best objective of a set that was not allowed.
    pub(super) fn refused(&self) -> f64 {
        self.refused
    }

    pub(super) fn into_sets(self) -> Option<(Found, Option<Found>)> {
        let (best, _) = self.best?;
        Some((best, self.runner_up.map(|(found, _)| found)))
    }

    /// True if no set with at most this objective bound and at least this many hosts could change anything.
    pub(super) fn rules_out(&self, bound: f64, hosts: usize) -> bool {
        if self.is_too_slow(bound) {
            return true;
        }
        if self.within.as_ref().is_some_and(|within| !within.refines) {
            return false;
        }
        let last = if self.wants_runner_up { &self.runner_up } else { &self.best };
        let Some((last, _)) = last else { return false };
        let tie = TIE * last.objective.abs();
        bound < last.objective - tie
            || (bound <= last.objective + tie
                && last.harm <= 0.0
                && last.placement.hosts() <= hosts)
    }

    /// Upper bound of the objective of sets with at most this effective bandwidth, and at least so much going on inside their
    /// hosts.
    pub(super) fn objective_bound(&self, effective: f64, inner_seconds: f64) -> f64 {
        let predictor = self.scene.predictor();
        let discount = match self.objective {
            Objective::Effective => 1.0,
            Objective::LowEnd => 1.0 - predictor.model().bands.least(),
        };
        predictor.score(effective * discount, inner_seconds)
    }

    /// Weighs a set and keeps it if it is among the best.
    pub(super) fn offer(&mut self, placement: Placement) {
        let left = self.within.as_ref().map(|within| within.leaving.after(&placement));
        if left.is_some_and(|left| self.left().0.is_some_and(|best| left > best)) {
            return;
        }
        let worth = self.scene.effective(&placement);
        let predictor = self.scene.predictor();
        let low_end = match self.objective {
            Objective::Effective => worth.effective,
            Objective::LowEnd => worth.effective * (1.0 - predictor.predict(&placement).band),
        };
        let objective = predictor.score(low_end, worth.inner_seconds);
        let hosts = placement.hosts();
        let leaves_less = left.is_some_and(|left| self.left().0.is_none_or(|best| left < best));
        if self.is_too_slow(objective) || !leaves_less && self.rules_out(objective, hosts) {
            return;
        }
        if !(self.allowed)(&placement) {
            self.refused = self.refused.max(objective);
            if let (Some(within), Some(left)) = (&mut self.within, left) {
                within.refused = Some(within.refused.map_or(left, |least| least.min(left)));
            }
            return;
        }
        let harm = self.scene.harm(&placement);
        let shape = self.shape(&placement);
        let found = Found {
            placement,
            isolated: worth.isolated,
            effective: worth.effective,
            harm,
            objective,
        };
        if let (Some(within), true) = (&mut self.within, leaves_less) {
            within.best = left;
            self.best = Some((found, shape));
            return;
        }
        self.keep(found, shape);
    }

    fn is_too_slow(&self, objective: f64) -> bool {
        self.within.as_ref().is_some_and(|within| objective < within.floor)
    }

    fn keep(&mut self, found: Found, shape: Shape) {
        let Some((best, best_shape)) = &self.best else {
            self.best = Some((found, shape));
            return;
        };
        let beats_best = better(&found, best);
        if *best_shape == shape {
            if beats_best {
                self.best = Some((found, shape));
            }
        } else if beats_best {
            self.runner_up = self.best.replace((found, shape));
        } else if self.runner_up.as_ref().is_none_or(|(second, _)| better(&found, second)) {
            self.runner_up = Some((found, shape));
        }
    }

    fn shape(&self, placement: &Placement) -> Shape {
        let cluster = self.scene.predictor().cluster();
        let mut shape: Shape = placement
            .shares()
            .iter()
            .map(|(host, mask)| (cluster.host(*host).host_type.0, mask.count() as u32))
            .collect();
        shape.sort_unstable_by(|a, b| b.cmp(a));
        shape
    }
}

/// Greater objective, else less harm, else fewer hosts.
fn better(a: &Found, b: &Found) -> bool {
    let tie = TIE * b.objective.abs();
    if (a.objective - b.objective).abs() > tie {
        return a.objective > b.objective;
    }
    if (a.harm - b.harm).abs() > 1e-9 {
        return a.harm < b.harm;
    }
    a.placement.hosts() < b.placement.hosts()
}
