//! The best sets found so far.

use bandpilot_core::Placement;

use crate::scene::Scene;
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
        }
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
        let worth = self.scene.effective(&placement);
        let predictor = self.scene.predictor();
        let low_end = match self.objective {
            Objective::Effective => worth.effective,
            Objective::LowEnd => worth.effective * (1.0 - predictor.predict(&placement).band),
        };
        let objective = predictor.score(low_end, worth.inner_seconds);
        let hosts = placement.hosts();
        if self.rules_out(objective, hosts) {
            return;
        }
        if !(self.allowed)(&placement) {
            self.refused = self.refused.max(objective);
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
        self.keep(found, shape);
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
