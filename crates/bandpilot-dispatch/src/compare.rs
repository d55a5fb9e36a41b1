//! What rules that need no measurement would choose instead.

use bandpilot_core::{ClusterState, Request};
use bandpilot_model::{Predictor, VirtualMerge};

use crate::answer::{Valued, meets};
use crate::baselines;
use crate::limits::{self, Limits};
use crate::scene::Scene;
use crate::scope::{self, Impossible};

/// A rule that needs no measurement, to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Fewest hosts, best linked GPUs.
    Topo,
    /// Packing, whole quads first.
    Default,
    /// Fewest hosts, even.
    Balanced,
    /// Fewest hosts, packed.
    MostCompact,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Topo, Self::Default, Self::Balanced, Self::MostCompact];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Topo => "topo",
            Self::Default => "default",
            Self::Balanced => "balanced",
            Self::MostCompact => "most-compact",
        }
    }
}

/// What another rule would have chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The rule.
    pub policy: Policy,
    /// Its set.
    pub set: Valued,
    /// False if the set does not meet the request (such rules know no constraints but which GPUs are usable): its
    /// shape, its limits or its bandwidth floor.
    pub meets_request: bool,
    /// Greatest share that a running job loses.
    pub greatest_loss: f64,
}

/// What these rules would choose of the GPUs that the request may use.
///
/// # Errors
/// If no set meets the request.
pub fn compare(
    predictor: &Predictor<'_>,
    state: &ClusterState,
    request: &Request,
    policies: &[Policy],
) -> Result<Vec<Compared>, Impossible> {
    let scope = scope::check(predictor.cluster(), state, request)?;
    let scene = Scene::new(predictor, &VirtualMerge, state);
    let limits = Limits::new(&scene, &scope, request);
    let unit = scope.unit;
    let usable = scope.cut();
    let compared = |policy: &Policy| {
        let set = match policy {
            Policy::Topo => baselines::topo(predictor.cluster(), &usable, request.gpus),
            Policy::Default => baselines::default(&usable, request.gpus),
            Policy::Balanced => baselines::balanced(&usable, request.gpus, unit),
            Policy::MostCompact => baselines::most_compact(&usable, request.gpus, unit),
        };
        let set = Valued::of(&scene, set);
        let low = set.effective * (1.0 - predictor.predict(&set.placement).band);
        let fast_enough = request.min_busbw_gbytes_per_s.is_none_or(|floor| low >= floor);
        Compared {
            policy: *policy,
            meets_request: meets(&set.placement, request)
                && limits.allow(&set.placement)
                && fast_enough,
            greatest_loss: limits::greatest_loss(&scene.losses(&set.placement)),
            set,
        }
    };
    Ok(policies.iter().map(compared).collect())
}
