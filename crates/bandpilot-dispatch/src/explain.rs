//! What a named set is worth, what holds it back, and what would be better.

use bandpilot_core::{ClusterState, HostId, Placement, Request};
use bandpilot_model::{Predictor, VirtualMerge};

use crate::answer::{self, Answer, AnswerOptions, Grounds, Harm, Valued, grounds};
use crate::scene::Scene;
use crate::scope::Impossible;

/// One host's part of the set.
#[derive(Debug, Clone, PartialEq)]
pub struct HostPart {
    /// The host.
    pub host: HostId,
    /// Sum of the line rates of the healthy NICs that serve its GPUs, GB/s.
    pub nic_gbytes_per_s: f64,
    /// Number of those NICs.
    pub rails: usize,
    /// busbw of its GPUs among themselves, GB/s; `None` for a single GPU.
    pub inside: Option<f64>,
    /// Names of running jobs across hosts that use the host too.
    pub jobs: Vec<String>,
    /// Bandwidth of the set without this host, beside the running jobs, GB/s; `None` if less than two GPUs are left.
    pub without: Option<f64>,
}

/// A set explained.
#[derive(Debug, Clone, PartialEq)]
pub struct Explained {
    /// The set and its bandwidths.
    pub set: Valued,
    /// Band, evidence and bottleneck.
    pub grounds: Grounds,
    /// Host by host.
    pub hosts: Vec<HostPart>,
    /// What running jobs lose through it.
    pub harm: Vec<Harm>,
    /// The best set of as many GPUs among those that are free and its own.
    pub better: Result<Box<Answer>, Impossible>,
}

impl Explained {
    /// What the best set gains over this one, as a share of this one's effective bandwidth; 0 if it is the best.
    pub fn gain(&self) -> Option<f64> {
        let best = self.better.as_ref().ok()?.chosen.effective;
        (self.set.effective > 0.0).then(|| (best / self.set.effective - 1.0).max(0.0))
    }
}

/// The snapshot in which the set's GPUs are free: that of a running job without it.
///
/// # Errors
/// The GPUs of the set that some other job holds, if the set is not just one running job's, with that job's name.
pub fn with_set_free(
    state: &ClusterState,
    set: &Placement,
) -> Result<ClusterState, (Placement, String)> {
    let mut state = state.clone();
    let own = state.jobs.iter().position(|job| job.placement == *set);
    if let Some(own) = own {
        let job = state.jobs.remove(own);
        for (host, mask) in job.placement.shares() {
            state.free[host.index()] = state.free[host.index()].union(*mask);
        }
    }
    for job in &state.jobs {
        let common = Placement::new(
            set.shares()
                .iter()
                .map(|(host, mask)| (*host, mask.intersection(job.placement.on(*host)))),
        );
        if common.gpus() > 0 {
            return Err((common, job.name.clone()));
        }
    }
    for (host, mask) in set.shares() {
        state.free[host.index()] = state.free[host.index()].union(*mask);
    }
    Ok(state)
}

/// Explains `set` in a snapshot in which its GPUs are free; `request` constrains what counts as better (its number of GPUs is
/// that of the set).
pub fn explain(
    predictor: &Predictor<'_>,
    state: &ClusterState,
    set: &Placement,
    request: &Request,
    options: AnswerOptions<'_>,
) -> Explained {
    let scene = Scene::new(predictor, &VirtualMerge, state);
    let hosts = set.shares().iter().map(|(host, _)| part(&scene, state, set, *host)).collect();
    let request = Request { gpus: set.gpus(), ..request.clone() };
    Explained {
        grounds: grounds(&scene, state, set),
        hosts,
        harm: answer::harm(&scene, state, set),
        better: answer::dispatch(predictor, state, &request, options).map(Box::new),
        set: Valued::of(&scene, set.clone()),
    }
}

fn part(scene: &Scene<'_>, state: &ClusterState, set: &Placement, host: HostId) -> HostPart {
    let predictor = scene.predictor();
    let mask = set.on(host);
    let share = predictor.share(host, mask);
    let rest = Placement::new(set.shares().iter().copied().filter(|(other, _)| *other != host));
    let jobs = scene.jobs_on(host).iter();
    HostPart {
        host,
        nic_gbytes_per_s: share.injection,
        rails: share.rails as usize,
        inside: (mask.count() > 1).then(|| predictor.inside(host, mask)),
        jobs: jobs.map(|&job| state.jobs[scene.jobs()[job].index].name.clone()).collect(),
        without: (rest.gpus() > 1).then(|| scene.effective(&rest).effective),
    }
}
