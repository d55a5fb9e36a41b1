//! The running jobs as the contention model sees them, and what a set would get and cost beside them.

use bandpilot_core::{ClusterState, Demand, GpuMask, HostId, Placement};
use bandpilot_model::{Aggregate, ContentionModel, Groups, Meeting, Predictor};

/// A running job that spans hosts (others do not contend).
#[derive(Debug, Clone)]
pub struct CrossHostJob {
    /// Index in the state's list of jobs.
    pub index: usize,
    /// Its GPUs.
    pub placement: Placement,
    /// What it asks for, GB/s.
    pub demand: f64,
    /// What it gets before the new job comes, GB/s.
    pub before: f64,
}

/// What a set gets beside the running jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effective {
    /// Alone, GB/s.
    pub isolated: f64,
    /// Beside the running jobs, GB/s.
    pub effective: f64,
    /// Index in the state's list of the job that decides, if any does.
    pub deciding_job: Option<usize>,
    /// Seconds a step of what goes on inside the hosts besides the rings; 0 without groups.
    pub inner_seconds: f64,
}

/// What a running job would lose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// Index in the state's list of jobs.
    pub job: usize,
    /// Before, GB/s.
    pub before: f64,
    /// With the new job, GB/s.
    pub after: f64,
}

/// A snapshot prepared for one predictor and one contention model.
pub struct Scene<'a> {
    predictor: &'a Predictor<'a>,
    contention: &'a dyn ContentionModel,
    jobs: Vec<CrossHostJob>,
    /// For each host the cross-host jobs on it, as indexes into `jobs`.
    on_host: Vec<Vec<usize>>,
}

impl<'a> Scene<'a> {
    /// Prepares `state`.
    pub fn new(
        predictor: &'a Predictor<'a>,
        contention: &'a dyn ContentionModel,
        state: &ClusterState,
    ) -> Self {
        // Where rings run side by side, all is seen as what falls to one of them.
        let rings = predictor.groups().map_or(1, Groups::unit) as f64;
        let jobs: Vec<CrossHostJob> = state
            .jobs
            .iter()
            .enumerate()
            .filter(|(_, job)| job.placement.is_cross_host())
            .map(|(index, job)| CrossHostJob {
                index,
                placement: job.placement.clone(),
                demand: {
                    let alone = predictor.isolated(&job.placement);
                    match job.demand {
                        Demand::Fraction(share) => share * alone,
                        // A job cannot use more than it reaches alone.
                        Demand::GBytesPerS(value) => (value / rings).min(alone),
                    }
                },
                before: 0.0,
            })
            .collect();
        let mut on_host = vec![Vec::new(); predictor.cluster().hosts.len()];
        for (position, job) in jobs.iter().enumerate() {
            for (host, _) in job.placement.shares() {
                on_host[host.index()].push(position);
            }
        }
        let mut scene = Self { predictor, contention, jobs, on_host };
        for position in 0..scene.jobs.len() {
            scene.jobs[position].before = scene.running(position, None);
        }
        scene
    }

    /// The predictor behind it.
    pub fn predictor(&self) -> &'a Predictor<'a> {
        self.predictor
    }

    /// The contention model behind it.
    pub fn contention(&self) -> &'a dyn ContentionModel {
        self.contention
    }

    /// Cross-host jobs on a host, as indexes into [`Scene::jobs`].
    pub fn jobs_on(&self, host: HostId) -> &[usize] {
        &self.on_host[host.index()]
    }

    /// The running cross-host jobs.
    pub fn jobs(&self) -> &[CrossHostJob] {
        &self.jobs
    }

    /// GPUs of a cross-host job on a host.
    pub fn job_mask(&self, job: usize, host: HostId) -> GpuMask {
        self.jobs[job].placement.on(host)
    }

    /// What `set` gets.
    pub fn effective(&self, set: &Placement) -> Effective {
        let isolated = self.predictor.isolated(set);
        let inner =
            set.shares().iter().map(|(host, mask)| self.predictor.inner_seconds(*host, *mask));
        let inner_seconds = inner.fold(0.0, f64::max);
        let met = self.met_by(set, usize::MAX);
        if !set.is_cross_host() || met.is_empty() {
            return Effective { isolated, effective: isolated, deciding_job: None, inner_seconds };
        }
        let meetings: Vec<Meeting> = met
            .iter()
            .map(|&job| self.meeting(set, &self.jobs[job].placement, self.jobs[job].demand))
            .collect();
        let (effective, deciding) = self.contention.effective(self.predictor, isolated, &meetings);
        let deciding_job = deciding.map(|meeting| self.jobs[met[meeting]].index);
        Effective { isolated, effective, deciding_job, inner_seconds }
    }

    /// What each running job that meets `set` would lose; jobs that lose nothing are listed too.
    pub fn losses(&self, set: &Placement) -> Vec<Loss> {
        if !set.is_cross_host() {
            return Vec::new();
        }
        self.met_by(set, usize::MAX)
            .into_iter()
            .map(|job| Loss {
                job: self.jobs[job].index,
                before: self.jobs[job].before,
                after: self.running(job, Some(set)),
            })
            .collect()
    }

    /// Sum of all losses, GB/s.
    pub fn harm(&self, set: &Placement) -> f64 {
        self.losses(set).iter().map(|loss| (loss.before - loss.after).max(0.0)).sum()
    }

    /// Jobs that share a host with `set`, `except` left out, ascending.
    fn met_by(&self, set: &Placement, except: usize) -> Vec<usize> {
        let mut met: Vec<usize> = Vec::new();
        for (host, _) in set.shares() {
            for &job in self.jobs_on(*host) {
                if job != except && !met.contains(&job) {
                    met.push(job);
                }
            }
        }
        met.sort_unstable();
        met
    }

    /// What a running job gets beside the others and, if given, the new set.
    fn running(&self, job: usize, new: Option<&Placement>) -> f64 {
        let own = &self.jobs[job];
        let mut meetings: Vec<Meeting> = self
            .met_by(&own.placement, job)
            .into_iter()
            .map(|other| {
                self.meeting(&own.placement, &self.jobs[other].placement, self.jobs[other].demand)
            })
            .collect();
        if let Some(set) = new
            && set.shares_host_with(&own.placement)
        {
            meetings.push(self.meeting(&own.placement, set, self.predictor.isolated(set)));
        }
        self.contention.effective(self.predictor, own.demand, &meetings).0
    }

    fn meeting(&self, own: &Placement, other: &Placement, demand: f64) -> Meeting {
        Meeting {
            demand,
            merged_own: self.merged(own, other),
            merged_other: self.merged(other, own),
        }
    }

    fn merged(&self, own: &Placement, other: &Placement) -> Aggregate {
        own.shares().iter().fold(Aggregate::EMPTY, |set, (host, mask)| {
            let mask = mask.union(other.on(*host));
            set.with(&self.predictor.share(*host, mask), 1)
        })
    }
}
