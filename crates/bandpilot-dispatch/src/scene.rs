//! The running jobs as the contention model sees them, and what a set would get and cost beside them.

use std::cell::OnceCell;

use bandpilot_core::{ClusterState, Demand, GpuMask, HostId, Placement};
use bandpilot_model::{Aggregate, ContentionModel, Groups, Meeting, Predictor};
use rustc_hash::FxHashMap;

/// A running job that spans hosts (others do not contend).
#[derive(Debug, Clone)]
pub struct CrossHostJob {
    /// Index in the state's list of jobs.
    pub index: usize,
    /// Its GPUs.
    pub placement: Placement,
    /// What it asks for, GB/s.
    pub demand: f64,
    known: OnceCell<Known>,
}

/// How a running job gets on beside the others.
#[derive(Debug, Clone)]
struct Known {
    /// Its meetings with them.
    met: Vec<Meeting>,
    /// What it gets, GB/s.
    before: f64,
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
    /// Where in `jobs` the job of an index is.
    positions: FxHashMap<usize, usize>,
}

impl<'a> Scene<'a> {
    /// Prepares `state`.
    pub fn new(
        predictor: &'a Predictor<'a>,
        contention: &'a dyn ContentionModel,
        state: &ClusterState,
    ) -> Self {
        let mut scene = Self::empty(predictor, contention);
        for (index, job) in state.jobs.iter().enumerate() {
            scene.insert(index, &job.placement, job.demand);
        }
        scene
    }

    /// Nothing runs.
    pub fn empty(predictor: &'a Predictor<'a>, contention: &'a dyn ContentionModel) -> Self {
        let on_host = vec![Vec::new(); predictor.cluster().hosts.len()];
        Self { predictor, contention, jobs: Vec::new(), on_host, positions: FxHashMap::default() }
    }

    /// A job starts: the scene is then what it would be if prepared anew, but for the order of jobs. `index` stands for the
    /// job in answers. False if the job does not span hosts, which changes nothing.
    pub fn add(&mut self, index: usize, placement: &Placement, demand: Demand) -> bool {
        let spans = self.insert(index, placement, demand);
        if spans {
            self.forget(placement);
        }
        spans
    }

    /// The job that was added as `index` stops; false if there is none.
    pub fn remove(&mut self, index: usize) -> bool {
        let Some(position) = self.positions.remove(&index) else { return false };
        let gone = self.jobs.swap_remove(position);
        let last = self.jobs.len();
        for (host, _) in gone.placement.shares() {
            self.on_host[host.index()].retain(|&job| job != position);
        }
        if let Some(moved) = self.jobs.get(position) {
            self.positions.insert(moved.index, position);
            for (host, _) in moved.placement.shares() {
                let here = &mut self.on_host[host.index()];
                here.retain(|&job| job != last);
                here.insert(here.partition_point(|&job| job < position), position);
            }
        }
        self.forget(&gone.placement);
        true
    }

    /// Puts a job that spans hosts into the lists.
    fn insert(&mut self, index: usize, placement: &Placement, demand: Demand) -> bool {
        if !placement.is_cross_host() {
            return false;
        }
        // Where rings run side by side, all is seen as what falls to one of them.
        let rings = self.predictor.groups().map_or(1, Groups::unit) as f64;
        let alone = self.predictor.isolated(placement);
        let demand = match demand {
            Demand::Fraction(share) => share * alone,
            // A job cannot use more than it reaches alone.
            Demand::GBytesPerS(value) => (value / rings).min(alone),
        };
        for (host, _) in placement.shares() {
            self.on_host[host.index()].push(self.jobs.len());
        }
        let placement = placement.clone();
        self.positions.insert(index, self.jobs.len());
        self.jobs.push(CrossHostJob { index, placement, demand, known: OnceCell::new() });
        true
    }

    /// Forgets what the jobs get that share a host with `set`.
    fn forget(&mut self, set: &Placement) {
        for position in self.met_by(set, usize::MAX) {
            self.jobs[position].known = OnceCell::new();
        }
    }

    /// What a running job gets before the new job comes, GB/s; `job` is an index into [`Scene::jobs`].
    pub fn before(&self, job: usize) -> f64 {
        self.known(job).before
    }

    /// Most jobs come and go without anybody asking what they get, so that is found out when it is asked for.
    fn known(&self, job: usize) -> &Known {
        let own = &self.jobs[job];
        own.known.get_or_init(|| {
            if own.demand <= 0.0 {
                // It asks for nothing, and nobody gets more than that.
                return Known { met: Vec::new(), before: own.demand };
            }
            let others =
                self.met_by(&own.placement, job).into_iter().map(|other| &self.jobs[other]);
            let meeting =
                |other: &CrossHostJob| self.meeting(&own.placement, &other.placement, other.demand);
            let met: Vec<Meeting> = others.map(meeting).collect();
            let before = self.contention.effective(self.predictor, own.demand, &met).0;
            Known { met, before }
        })
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
                before: self.before(job),
                after: self.beside(job, set),
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

    /// What a running job gets beside the others and a new set that it meets.
    fn beside(&self, job: usize, set: &Placement) -> f64 {
        let own = &self.jobs[job];
        if own.demand <= 0.0 {
            return own.demand;
        }
        let mut meetings = self.known(job).met.clone();
        meetings.push(self.meeting(&own.placement, set, self.predictor.isolated(set)));
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

#[cfg(test)]
mod tests {
    use bandpilot_core::{ClusterBuilder, RunningJob};
    use bandpilot_model::{BandwidthModel, VirtualMerge};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Jobs that come and go leave the scene that preparing it anew gives.
        #[test]
        fn is_kept_up_to_date(steps in proptest::collection::vec((0..5_usize, any::<u64>()), 1..40)) {
            let cluster =
                ClusterBuilder::new("c").host_type("h", "H100", 8).nvswitch().rails(400.0).hosts("h", 1, 4).build();
            let model = BandwidthModel::closed_form();
            let predictor = Predictor::new(&model, &cluster, 2 << 30);
            let mut scene = Scene::empty(&predictor, &VirtualMerge);
            let mut jobs: Vec<Option<Placement>> = vec![None; 5];
            for (index, bits) in steps {
                let other = |host: usize| (0..5).filter(|job| *job != index).fold(GpuMask::EMPTY, |taken, job| {
                    taken.union(jobs[job].as_ref().map_or(GpuMask::EMPTY, |set| set.on(HostId(host as u32))))
                });
                let share = |host: usize| {
                    (HostId(host as u32), GpuMask(bits >> (8 * host) & bits >> 32 & 255).without(other(host)))
                };
                let set = Placement::new((0..4).map(share));
                if jobs[index].take().is_some_and(|before| before.is_cross_host()) {
                    prop_assert!(scene.remove(index));
                } else {
                    prop_assert_eq!(scene.add(index, &set, Demand::Fraction(0.7)), set.is_cross_host());
                    jobs[index] = Some(set);
                }
                let job = |set: &Placement| {
                    RunningJob::new(String::new(), set.clone(), Demand::Fraction(0.7))
                };
                let running = jobs.iter().flatten().map(job).collect();
                let state = ClusterState { free: vec![GpuMask::EMPTY; 4], jobs: running };
                let anew = Scene::new(&predictor, &VirtualMerge, &state);
                let told = |scene: &Scene<'_>| {
                    let jobs = scene.jobs().iter().enumerate();
                    let mut told: Vec<(Placement, u64, u64)> = jobs.map(|(at, job)| {
                        let before = (scene.before(at) * 1e6).round();
                        (job.placement.clone(), job.demand.to_bits(), before.to_bits())
                    }).collect();
                    told.sort();
                    told
                };
                prop_assert_eq!(told(&scene), told(&anew));
                for host in 0..4 {
                    let names = |scene: &Scene<'_>| {
                        let jobs = scene.jobs_on(HostId(host)).iter();
                        let mut sets: Vec<Placement> = jobs.map(|&j| scene.jobs()[j].placement.clone()).collect();
                        sets.sort();
                        sets
                    };
                    prop_assert!(scene.jobs_on(HostId(host)).is_sorted());
                    prop_assert_eq!(names(&scene), names(&anew));
                }
            }
        }
    }
}
