//! The decision with its grounds, ready to be shown.

use bandpilot_core::{ClusterState, LinkClass, Placement, Request, format_bytes};
use bandpilot_model::{Bottleneck, Evidence, Predictor, VirtualMerge};

use crate::baselines;
use crate::launch::{Launch, launch};
use crate::limits::{self, Limits};
use crate::scene::{Loss, Scene};
use crate::scope::{self, Impossible, Scope};
use crate::search::{Found, NotFound, Objective, Outcome, SearchOptions, search};
use crate::tradeoff::{Tradeoff, trade};

/// How to answer.
#[derive(Clone, Copy, Default)]
pub struct AnswerOptions<'a> {
    /// Asked now and then; `true` ends the search with what it has. `None`: the search ends by itself after as many steps as
    /// keep an answer within tens of milliseconds.
    pub should_stop: Option<&'a dyn Fn() -> bool>,
    /// Of the sets whose effective bandwidth is within this share (0 to 1) of the best, the one that leaves the least fragmentation.
    pub tradeoff: Option<f64>,
}

/// Bandwidths of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Valued {
    /// The GPUs.
    pub placement: Placement,
    /// Alone, GB/s.
    pub isolated: f64,
    /// Beside the running jobs, GB/s.
    pub effective: f64,
}

/// How sure a value is, what it rests on, and what decides it.
#[derive(Debug, Clone, PartialEq)]
pub struct Grounds {
    /// Low end of the effective bandwidth, GB/s.
    pub low: f64,
    /// High end, GB/s.
    pub high: f64,
    /// Relative half width of the band.
    pub band: f64,
    /// Where the band comes from.
    pub band_source: String,
    /// What the prediction rests on.
    pub evidence: Evidence,
    /// What holds the set back, by name.
    pub bottleneck: String,
}

impl Valued {
    /// A set with what it gets beside the running jobs.
    pub fn of(scene: &Scene<'_>, placement: Placement) -> Self {
        let worth = scene.effective(&placement);
        Self { placement, isolated: worth.isolated, effective: worth.effective }
    }
}

/// What a running job loses.
#[derive(Debug, Clone, PartialEq)]
pub struct Harm {
    /// Its name.
    pub job: String,
    /// Before, GB/s.
    pub before: f64,
    /// With the new job, GB/s.
    pub after: f64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The chosen set.
    pub chosen: Valued,
    /// Band, evidence and bottleneck of the chosen set.
    pub grounds: Grounds,
    /// No set is worth more than this under the model, GB/s; `None`: no certificate.
    pub upper_bound: Option<f64>,
    /// (upper bound - chosen) / upper bound.
    pub gap: Option<f64>,
    /// The best set of another shape.
    pub runner_up: Option<Valued>,
    /// Fewest hosts, packed.
    pub most_compact: Option<Valued>,
    /// What running jobs lose.
    pub harm: Vec<Harm>,
    /// Hosts that could take over, with the GPUs to take; as many as were asked for.
    pub spares: Placement,
    /// What was given up for less fragmentation, if that was asked for.
    pub tradeoff: Option<Tradeoff>,
    /// What to paste.
    pub launch: Launch,
    /// Steps of the search.
    pub steps: u64,
}

/// Chooses GPUs for a request.
///
/// # Errors
/// If no set meets the request: the constraint that binds and what would be possible.
pub fn dispatch(
    predictor: &Predictor<'_>,
    state: &ClusterState,
    request: &Request,
    options: AnswerOptions<'_>,
) -> Result<Answer, Impossible> {
    let scope = scope::check(predictor.cluster(), state, request)?;
    let contention = VirtualMerge;
    let scene = Scene::new(predictor, &contention, state);
    let limits = Limits::new(&scene, &scope, request);
    let allowed = |set: &Placement| limits.allow(set);
    let mut search_options = SearchOptions { runner_up: true, ..SearchOptions::default() };
    if !limits.is_none() {
        search_options.allowed = &allowed;
    }
    if let Some(should_stop) = options.should_stop {
        search_options.should_stop = should_stop;
        search_options.most_steps = u64::MAX;
    }
    let nothing = |not: NotFound| limits.refusal(not.proven).unwrap_or_else(out_of_time);
    let mut outcome = search(&scene, &scope, request, &search_options).map_err(nothing)?;
    if let Some(floor) = request.min_busbw_gbytes_per_s
        && low_end(predictor, &outcome.best.placement, outcome.best.effective) < floor
    {
        let careful = SearchOptions { objective: Objective::LowEnd, ..search_options };
        // The certificate stays about the effective bandwidth, which the careful search does not maximise.
        let upper_bound = outcome.upper_bound;
        outcome = search(&scene, &scope, request, &careful).map_err(nothing)?;
        if outcome.best.objective < floor {
            return Err(too_slow(predictor, request, floor, &outcome));
        }
        outcome.upper_bound = upper_bound;
    }
    let mut tradeoff = None;
    if let Some(share) = options.tradeoff {
        let best = (share, outcome.best);
        let (found, traded, steps) = trade(&scene, &scope, state, request, best, &search_options);
        outcome.best = found;
        outcome.steps += steps;
        tradeoff = Some(traded);
    }
    let answer = assemble(&scene, &scope, state, request, outcome);
    Ok(Answer { tradeoff, ..answer })
}

/// Low end of the effective bandwidth of a set, GB/s.
pub(crate) fn low_end(predictor: &Predictor<'_>, set: &Placement, effective: f64) -> f64 {
    effective * (1.0 - predictor.predict(set).band)
}

pub(crate) fn out_of_time() -> Impossible {
    Impossible {
        constraint: "deadline-ms",
        message: "the search ended before any set that meets the request was found".to_owned(),
        possible: "a longer --deadline-ms, or none".to_owned(),
    }
}

/// `careful` is what the search for the best low end found; only if it is proven may a floor be called out of reach.
fn too_slow(
    predictor: &Predictor<'_>,
    request: &Request,
    floor: f64,
    careful: &Outcome,
) -> Impossible {
    let best = &careful.best;
    let gpus = request.gpus;
    let found = format!(
        "the best low end is {:.1} GB/s ({})",
        best.objective,
        best.placement.display(predictor.cluster())
    );
    let out_of_reach = careful.upper_bound.is_some_and(|bound| bound < floor);
    let message = if careful.proven || out_of_reach {
        format!("no set of {gpus} GPUs is sure of {floor:.1} GB/s: {found}")
    } else {
        format!(
            "no set of {gpus} GPUs that is sure of {floor:.1} GB/s was found before the search ended, and none was ruled out: {found}"
        )
    };
    let mut possible = format!(
        "--min-busbw {:.1}; its effective bandwidth is {:.1} GB/s",
        (best.objective * 10.0).floor() / 10.0,
        best.effective
    );
    if !careful.proven && !out_of_reach {
        possible += "; a longer --deadline-ms may find more";
    }
    Impossible { constraint: "min-busbw", message, possible }
}

fn assemble(
    scene: &Scene<'_>,
    scope: &Scope,
    state: &ClusterState,
    request: &Request,
    outcome: Outcome,
) -> Answer {
    let predictor = scene.predictor();
    let Outcome { best, runner_up, upper_bound, steps, .. } = outcome;
    let compact = baselines::most_compact(&scope.cut(), request.gpus, scope.unit);
    Answer {
        grounds: grounds(scene, state, &best.placement),
        upper_bound: upper_bound.map(|bound| bound.max(best.effective)),
        gap: upper_bound.map(|bound| {
            if bound > best.effective { (bound - best.effective) / bound } else { 0.0 }
        }),
        runner_up: runner_up.map(valued),
        most_compact: meets(&compact, request).then(|| Valued::of(scene, compact)),
        harm: harm(scene, state, &best.placement),
        spares: Placement::new(
            limits::spare_hosts(scene, scope, &best.placement)
                .into_iter()
                .take(request.spare_hosts),
        ),
        tradeoff: None,
        launch: launch(predictor.cluster(), &best.placement),
        steps,
        chosen: valued(best),
    }
}

/// Band, evidence and bottleneck of a set.
pub fn grounds(scene: &Scene<'_>, state: &ClusterState, set: &Placement) -> Grounds {
    let predictor = scene.predictor();
    let prediction = predictor.predict(set);
    let worth = scene.effective(set);
    let bottleneck = match worth.deciding_job {
        Some(job) => {
            let job = &state.jobs[job];
            let common =
                set.shares().iter().filter(|(host, _)| !job.placement.on(*host).is_empty());
            let hosts: Vec<&str> =
                common.map(|(host, _)| predictor.cluster().host(*host).name.as_str()).collect();
            format!("contention with job '{}' on {}", job.name, hosts.join(", "))
        }
        None => bottleneck_name(predictor, set, &prediction.bottleneck),
    };
    Grounds {
        low: worth.effective * (1.0 - prediction.band),
        high: worth.effective * (1.0 + prediction.band),
        band: prediction.band,
        band_source: match (prediction.evidence, &prediction.bottleneck) {
            (Evidence::Measured | Evidence::MeasuredInside, _) => {
                "repeat noise of measured sets".to_owned()
            }
            (_, Bottleneck::InsideHost(_)) => "link classes are a rough guide".to_owned(),
            _ => predictor.model().bands.source.clone(),
        },
        evidence: prediction.evidence,
        bottleneck,
    }
}

/// What the running jobs lose beside a set.
pub(crate) fn harm(scene: &Scene<'_>, state: &ClusterState, set: &Placement) -> Vec<Harm> {
    let of = |loss: Loss| Harm {
        job: state.jobs[loss.job].name.clone(),
        before: loss.before,
        after: loss.after,
    };
    scene.losses(set).into_iter().map(of).collect()
}

pub(crate) fn valued(found: Found) -> Valued {
    Valued { placement: found.placement, isolated: found.isolated, effective: found.effective }
}

pub(crate) fn meets(set: &Placement, request: &Request) -> bool {
    let counts: Vec<usize> = set.shares().iter().map(|(_, mask)| mask.count()).collect();
    request.hosts.is_none_or(|hosts| hosts == counts.len())
        && request.max_hosts.is_none_or(|most| counts.len() <= most)
        && (!request.uniform || counts.iter().all(|count| *count == counts[0]))
        && counts.iter().all(|count| count.is_multiple_of(request.multiple_of))
        && request.most_on_host.iter().all(|(host, most)| set.on(*host).count() <= *most)
        && set.gpus() == request.gpus
}

/// Names what holds a set back, as a person would.
pub fn bottleneck_name(
    predictor: &Predictor<'_>,
    set: &Placement,
    bottleneck: &Bottleneck,
) -> String {
    let cluster = predictor.cluster();
    match bottleneck {
        Bottleneck::None => "none: a single GPU exchanges nothing".to_owned(),
        Bottleneck::Rails(host) => {
            let share = predictor.share(*host, set.on(*host));
            let healthy =
                cluster.type_of(*host).nics.len() > cluster.host(*host).unhealthy_nics.len();
            if !healthy {
                return format!(
                    "{} has no usable NIC: 10 Gbit/s Ethernet is assumed",
                    cluster.host(*host).name
                );
            }
            format!(
                "NICs of {}: {} rail{} of {:.0} GB/s in all",
                cluster.host(*host).name,
                share.rails,
                if share.rails == 1 { "" } else { "s" },
                share.injection
            )
        }
        Bottleneck::Switch(host) => {
            format!("NVSwitch of {} with {} GPUs", cluster.host(*host).name, set.on(*host).count())
        }
        Bottleneck::InsideHost(host) => {
            let gpus = set.on(*host);
            let kind = cluster.type_of(*host);
            let pairs = gpus.iter().flat_map(|a| gpus.iter().map(move |b| (a, b)));
            let worst = pairs
                .filter(|(a, b)| a < b)
                .filter_map(|(a, b)| kind.link(a, b))
                .min()
                .map_or_else(String::new, |link: LinkClass| format!(", worst link {link}"));
            format!("links inside {} between GPUs {gpus}{worst}", cluster.host(*host).name)
        }
        Bottleneck::Latency => {
            format!("latency: {} over {} GPUs", format_bytes(predictor.bytes()), set.gpus())
        }
    }
}

#[cfg(test)]
mod tests {
    use bandpilot_core::{ClusterBuilder, GpuMask, HostId};
    use bandpilot_model::model::BandwidthModel;

    use super::*;

    #[test]
    fn a_floor_is_called_out_of_reach_only_if_it_is_proven() {
        let cluster = ClusterBuilder::new("t")
            .host_type("h100", "H100", 8)
            .nvswitch()
            .rails(400.0)
            .hosts("h", 1, 2)
            .build();
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, &cluster, 2 << 30);
        let placement = Placement::new([(HostId(0), GpuMask::first(8))]);
        let best =
            Found { placement, isolated: 100.0, effective: 90.0, harm: 0.0, objective: 80.0 };
        let outcome = |proven, bound| Outcome {
            best: best.clone(),
            runner_up: None,
            upper_bound: Some(bound),
            proven,
            steps: 1,
        };
        let refusal = |outcome: &Outcome| too_slow(&predictor, &Request::gpus(8), 120.0, outcome);
        for certain in [outcome(true, 80.0), outcome(false, 110.0)] {
            let refusal = refusal(&certain);
            assert!(refusal.message.starts_with("no set of 8 GPUs is sure"), "{refusal}");
            assert!(!refusal.possible.contains("deadline"), "{}", refusal.possible);
        }
        let open = refusal(&outcome(false, 200.0));
        assert!(open.message.contains("none was ruled out"), "{open}");
        assert!(open.possible.contains("--deadline-ms"), "{}", open.possible);
    }
}
