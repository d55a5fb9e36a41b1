//! Levels that running jobs sink through as they attain service.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{JobId, key};
use crate::jobs::Jobs;

/// Of a key, the bits below those of the level.
const PLACE_BITS: u32 = 48;

/// The key of a place on a level: by level, then by place.
pub(super) fn rank(level: u16, place: u64) -> u64 {
    u64::from(level) << PLACE_BITS | place & ((1 << PLACE_BITS) - 1)
}

/// The level and the place of a key.
pub(super) fn level_and_place(rank: u64) -> (u16, u64) {
    ((rank >> PLACE_BITS) as u16, rank & ((1 << PLACE_BITS) - 1))
}

/// What is compared with the thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Time that a job has held its GPUs, seconds.
    Seconds,
    /// The same times its GPUs, GPU-seconds.
    GpuSeconds,
}

#[derive(Debug)]
struct Run {
    rank: u64,
    /// When it would have started if it had run without a break.
    base_s: f64,
}

/// The running jobs, and when they sink.
#[derive(Debug)]
pub(super) struct Levels {
    thresholds: Vec<f64>,
    service: Service,
    running: BTreeMap<JobId, Run>,
    /// Times at which running jobs reach their next threshold.
    crossings: BTreeSet<(u64, JobId)>,
}

impl Levels {
    /// Levels between ascending thresholds; at most 65,535 of these count.
    pub(super) fn new(thresholds: &[f64], service: Service) -> Self {
        let thresholds = thresholds.iter().copied().take(usize::from(u16::MAX)).collect();
        Self { thresholds, service, running: BTreeMap::new(), crossings: BTreeSet::new() }
    }

    /// How long a job holds its GPUs until it leaves a level.
    fn leaves_s(&self, level: u16, job: JobId, jobs: &Jobs) -> Option<f64> {
        let threshold = self.thresholds.get(usize::from(level))?;
        Some(match self.service {
            Service::Seconds => *threshold,
            Service::GpuSeconds => threshold / jobs.size_gpus(job),
        })
    }

    fn crossing(&self, run: &Run, job: JobId, jobs: &Jobs) -> Option<(u64, JobId)> {
        let (level, _) = level_and_place(run.rank);
        let leaves_s = self.leaves_s(level, job, jobs)?;
        Some((key(run.base_s + leaves_s), job))
    }

    /// The level of a job that does not run.
    pub(super) fn of(&self, job: JobId, jobs: &Jobs) -> u16 {
        let held_s = jobs.held_s(job, 0.0);
        let left =
            |level| self.leaves_s(level, job, jobs).is_some_and(|leaves_s| leaves_s <= held_s);
        (0..u16::MAX).find(|level| !left(*level)).unwrap_or(u16::MAX)
    }

    /// A job runs.
    pub(super) fn start(&mut self, job: JobId, rank: u64, now_s: f64, jobs: &Jobs) {
        let run = Run { rank, base_s: now_s - jobs.held_s(job, now_s) };
        self.crossings.extend(self.crossing(&run, job, jobs));
        self.running.insert(job, run);
    }

    /// A job runs no more.
    pub(super) fn stop(&mut self, job: JobId, jobs: &Jobs) {
        if let Some(run) = self.running.remove(&job)
            && let Some(crossing) = self.crossing(&run, job, jobs)
        {
            self.crossings.remove(&crossing);
        }
    }

    /// The running jobs with their keys.
    pub(super) fn running(&self) -> impl Iterator<Item = (u64, JobId)> {
        self.running.iter().map(|(job, run)| (run.rank, *job))
    }

    /// Gives a running job another place on its level.
    pub(super) fn put(&mut self, job: JobId, place: u64) {
        if let Some(run) = self.running.get_mut(&job) {
            run.rank = rank(level_and_place(run.rank).0, place);
        }
    }

    /// Puts the first running job that has reached a threshold by now on a place of the level below.
    pub(super) fn sink(&mut self, now_s: f64, place: u64, jobs: &Jobs) -> Option<JobId> {
        let crossing = self.crossings.first().copied().filter(|(at, _)| *at <= key(now_s))?;
        self.crossings.remove(&crossing);
        let (_, job) = crossing;
        let run = self.running.get_mut(&job)?;
        run.rank = rank(level_and_place(run.rank).0 + 1, place);
        let (rank, base_s) = (run.rank, run.base_s);
        self.crossings.extend(self.crossing(&Run { rank, base_s }, job, jobs));
        Some(job)
    }

    /// When a running job reaches a threshold next.
    pub(super) fn next_s(&self) -> Option<f64> {
        self.crossings.first().map(|(at, _)| f64::from_bits(*at))
    }
}
