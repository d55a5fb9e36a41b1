//! The running jobs as the search needs them: where they are, and bounds of what can be shared with them.

use bandpilot_core::HostId;
use bandpilot_model::{Aggregate, Predictor, Share};

use crate::classes::HostClass;
use crate::scene::{CrossHostJob, Scene};

/// A running cross-host job.
pub(super) struct Job {
    /// What it asks for, GB/s.
    pub(super) demand: f64,
    /// Upper bound of the capacity that a set meeting it can share with it, GB/s.
    pub(super) capacity: f64,
    /// Class, and the job's position in the class's list of jobs.
    pub(super) classes: Vec<(usize, usize)>,
    /// Its shares on hosts without a usable GPU.
    pub(super) elsewhere: Aggregate,
    /// The job with every usable GPU of its hosts.
    widest: Aggregate,
    /// Most that the correction makes of the closed form for any merger.
    factor: f64,
    /// Best measured value of any merger, GB/s.
    measured: f64,
}

impl Job {
    /// Like `capacity`, for mergers with at most this injection bandwidth.
    pub(super) fn capacity_at(&self, predictor: &Predictor<'_>, injection: f64) -> f64 {
        if injection >= self.widest.injection {
            return self.capacity;
        }
        let ceiling = predictor.closed_form_ceiling(&Aggregate { injection, ..self.widest });
        (ceiling * self.factor).max(self.measured).min(self.capacity)
    }
}

/// Prepares all running cross-host jobs.
pub(super) fn prepare(scene: &Scene<'_>, classes: &[HostClass]) -> Vec<Job> {
    scene
        .jobs()
        .iter()
        .enumerate()
        .map(|(index, job)| prepare_job(scene, classes, index, job))
        .collect()
}

fn prepare_job(scene: &Scene<'_>, classes: &[HostClass], index: usize, job: &CrossHostJob) -> Job {
    let predictor = scene.predictor();
    let position = |class: &HostClass| class.jobs.iter().position(|&j| j == index);
    let places: Vec<(usize, usize)> =
        classes.iter().enumerate().filter_map(|(at, class)| Some((at, position(class)?))).collect();
    // Class, position in its jobs, and usable GPUs of a host.
    let usable = |host: HostId| {
        places.iter().find_map(|&(at, position)| {
            let member = classes[at].hosts.iter().find(|member| member.host == host)?;
            Some((&classes[at], position, member.free))
        })
    };
    let mut widest = Aggregate::EMPTY;
    let mut elsewhere = Aggregate::EMPTY;
    let mut local_cap = f64::INFINITY;
    let mut rails = (u8::MAX, 1);
    let mut levels = 0;
    let mut own_ranks = 0;
    for (host, mask) in job.placement.shares() {
        let alone = predictor.share(*host, *mask);
        own_ranks += alone.ranks as usize;
        let mut full = alone;
        if let Some((class, position, free)) = usable(*host) {
            full = predictor.share(*host, mask.union(free));
            local_cap = local_cap.min(best_union(class, position, &alone));
        } else {
            elsewhere = elsewhere.with(&alone, 1);
            local_cap = local_cap.min(alone.local_cap);
        }
        widest = widest.with(&full, 1);
        rails = (rails.0.min(alone.rails), rails.1.max(full.rails));
        levels |= (full.level << 1).wrapping_sub(1) & !(alone.level - 1);
    }
    widest = Aggregate {
        local_cap: f64::INFINITY,
        switch_cap: f64::INFINITY,
        nic_per_gpu: f64::INFINITY,
        nic_rate: f64::INFINITY,
        ..widest
    };
    let (mut capacity, mut factor, mut measured) = (0.0_f64, 0.0_f64, 0.0_f64);
    let fastest = fastest(predictor, &widest, own_ranks);
    for rails in rails.0..=rails.1 {
        let set = Aggregate { rails, ..fastest };
        let bounds = predictor.cross_bounds(&set, 0, levels);
        capacity = capacity.max(bounds.at(0, local_cap));
        factor = factor.max(bounds.predicted(0) / predictor.closed_form(&set));
        measured = measured.max(bounds.measured(0));
    }
    Job { demand: job.demand, capacity, classes: places, elsewhere, widest, factor, measured }
}

/// The number of GPUs between the job's own and all that makes the closed form fastest: latency makes neither end surely it.
fn fastest(predictor: &Predictor<'_>, widest: &Aggregate, own: usize) -> Aggregate {
    let with = |ranks: usize| Aggregate { ranks, ..*widest };
    (own..=widest.ranks)
        .map(with)
        .max_by(|a, b| predictor.closed_form(a).total_cmp(&predictor.closed_form(b)))
        .unwrap_or(*widest)
}

/// Best local bandwidth that a job's GPUs on a host can have alone or merged with a new set's.
fn best_union(class: &HostClass, position: usize, alone: &Share) -> f64 {
    let merged = class.groups.iter().map(|group| group.relaxed.unions[position].local_cap);
    merged.fold(alone.local_cap, f64::max)
}
