//! Judging policies: figures, intervals, and comparisons over the jobs that both ran.

use bandpilot_sim::bootstrap::{Bootstrap, Interval, Means, RESAMPLES};
use bandpilot_sim::{JobId, Metrics, Policy, Workload};
use rayon::prelude::*;

use super::figures::{AVG_JCT, AVG_WAIT, FIGURES, MEDIAN_JCT};
use super::runs::{Played, Run, Stage};

/// Fewer jobs say nothing of others: each resample is then the same.
const MIN_JOBS: usize = 3;

/// A policy with its runs and figures.
pub struct Judged {
    /// The policy.
    pub policy: Policy,
    /// True if its runs differ by seed; else there is one run, with the first seed.
    pub seeded: bool,
    /// One a seed.
    pub runs: Vec<Run>,
    /// Mean over the runs, one a row of [`FIGURES`].
    pub figures: Vec<Option<f64>>,
    /// 95 % intervals of figures, by key; none where no job finished.
    pub intervals: [(&'static str, Option<Interval>); 3],
    /// Against the first policy; none if there is no job that both ran.
    pub less_first: Option<Difference>,
    /// Jobs that it ran, and jobs that any policy ran which a cluster could have, with the seed where they differ most.
    pub ran: (usize, usize),
}

/// Mean JCT of one policy less that of another, over the jobs that both ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Jobs that both ran, with the first seed.
    pub jobs: usize,
    /// The difference.
    pub less_s: f64,
    /// The mean that it is less than.
    pub than_s: f64,
    /// 95 % interval, if there are enough jobs; both over the same jobs and seeds in each resample.
    pub interval: Option<Interval>,
    /// Every job takes the same time with both.
    pub equal: bool,
}

/// Which policy is best, if the trace decides that.
pub struct Verdict {
    /// The one with the lowest mean JCT of those that can be the best.
    pub lowest: Option<usize>,
    /// Policies that can be the best: those that a cluster could have and that ran all jobs that any policy ran.
    pub candidates: usize,
    /// Candidates with which every job takes the same time as with the lowest.
    pub equal: Vec<usize>,
    /// Other candidates that may be as good: the interval of the difference to the lowest reaches 0.
    pub undecided: Vec<usize>,
}

impl Verdict {
    /// The policy that is better than all others.
    pub fn winner(&self) -> Option<usize> {
        let alone = self.candidates > 1 && self.equal.is_empty() && self.undecided.is_empty();
        self.lowest.filter(|_| alone)
    }
}

impl Judged {
    /// The interval of a figure, if it has one.
    pub fn interval(&self, key: &str) -> Option<Interval> {
        self.intervals.iter().find(|(of, _)| *of == key).and_then(|(_, interval)| *interval)
    }

    /// A figure as people see it.
    pub fn shown(&self, at: usize) -> Option<f64> {
        self.figures[at].map(|value| value * FIGURES[at].scale)
    }

    /// Mean JCT over the runs; nothing if no job finished.
    pub fn avg_jct_s(&self) -> Option<f64> {
        FIGURES.iter().zip(&self.figures).find(|(figure, _)| figure.key == AVG_JCT)?.1.to_owned()
    }

    /// True if it can be the best: a cluster could place so, and it ran all jobs that any policy ran.
    pub fn candidate(&self) -> bool {
        !self.policy.placement.bound && self.ran.0 == self.ran.1 && self.ran.1 > 0
    }
}

fn mean(runs: &[Run], of: impl Fn(&Metrics) -> Option<f64>) -> Option<f64> {
    mean_of(runs.iter().filter_map(|run| of(&run.metrics)))
}

/// The mean, if there is anything to take one of. The figure of a single run stays as it is, to the last bit.
pub fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((None, 0_u32), |(sum, count), value| {
        (Some(sum.map_or(value, |sum: f64| sum + value)), count + 1)
    });
    Some(sum? / f64::from(count))
}

/// What a run gives for each job: NaN for one that did not finish.
fn of_jobs(workload: &Workload, run: &Run, of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let value = |(job, finish_s): (JobId, Option<f64>)| {
        finish_s.map_or(f64::NAN, |finish_s| {
            of(finish_s - workload.submit_s(job), workload.duration_s(job))
        })
    };
    (0..).map(JobId).zip(run.jobs.iter().map(|job| job.finish_s)).map(value).collect()
}

/// JCT of each job of a run.
pub fn jct_s(workload: &Workload, run: &Run) -> Vec<f64> {
    of_jobs(workload, run, |jct_s, _| jct_s)
}

/// JCT less duration of each job of a run.
pub fn wait_s(workload: &Workload, run: &Run) -> Vec<f64> {
    of_jobs(workload, run, |jct_s, duration_s| jct_s - duration_s)
}

/// Values of each run, one a job, NaN for a job that did not finish.
type Values = Vec<Vec<f64>>;

fn means(values: &Values) -> Means {
    Means::new(values.iter().map(Vec::as_slice))
}

/// Mean over runs of the mean over the jobs that count.
fn average(values: &Values) -> Option<f64> {
    let of_run = |run: &Vec<f64>| {
        let count = run.iter().filter(|value| !value.is_nan()).count();
        let sum: f64 = run.iter().filter(|value| !value.is_nan()).sum();
        (count > 0).then(|| sum / count as f64)
    };
    mean_of(values.iter().filter_map(of_run))
}

/// The run of a seed; a policy that no seed changes has one for all.
fn run_of(values: &Values, seed: usize) -> &[f64] {
    values.get(seed).or(values.first()).map_or(&[], Vec::as_slice)
}

/// Both over the jobs that both ran.
fn paired(a: &Values, b: &Values) -> (Values, Values) {
    let seeds = a.len().max(b.len());
    let same = |seed| {
        let pairs = run_of(a, seed).iter().zip(run_of(b, seed));
        pairs.fold(true, |same, (a, b)| same && a.is_nan() == b.is_nan())
    };
    if (0..seeds).all(same) {
        return (a.clone(), b.clone());
    }
    let only = |values: &Values, other: &Values| {
        let masked = |(value, other): (&f64, &f64)| if other.is_nan() { f64::NAN } else { *value };
        let run = |seed| run_of(values, seed).iter().zip(run_of(other, seed)).map(masked).collect();
        (0..seeds).map(run).collect()
    };
    (only(a, b), only(b, a))
}

fn difference(bootstrap: &Bootstrap, a: &Values, b: &Values) -> Option<Difference> {
    let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    let equal =
        (0..a.len().max(b.len())).all(|seed| run_of(a, seed).iter().zip(run_of(b, seed)).all(same));
    let (a, b) = paired(a, b);
    let than_s = average(&b)?;
    let jobs = a.first()?.iter().filter(|value| !value.is_nan()).count();
    let interval =
        (jobs >= MIN_JOBS).then(|| bootstrap.difference_interval(&means(&a), &means(&b))).flatten();
    Some(Difference { jobs, less_s: average(&a)? - than_s, than_s, interval, equal })
}

/// Jobs that each policy ran and jobs that any ran which a cluster could have, with the seed where most are missing.
fn ran(policies: &Played, all: &[Values], seeds: usize) -> Vec<(usize, usize)> {
    let bound: Vec<bool> = policies.iter().map(|(policy, _)| policy.placement.bound).collect();
    let only_bounds = bound.iter().all(|bound| *bound);
    let mut ran = vec![(0_usize, 0_usize); all.len()];
    for seed in 0..seeds {
        let runs = || all.iter().map(|values| run_of(values, seed));
        let jobs = runs().map(<[f64]>::len).max().unwrap_or(0);
        let real = || runs().zip(&bound).filter(|(_, bound)| only_bounds || !**bound);
        let ran_job = |run: &[f64], job| run.get(job).is_some_and(|jct: &f64| !jct.is_nan());
        let any = |job: &usize| real().any(|(run, _)| ran_job(run, *job));
        let any = (0..jobs).filter(any).count();
        for (ran, run) in ran.iter_mut().zip(runs()) {
            let own = run.iter().filter(|jct| !jct.is_nan()).count();
            if seed == 0 || own.abs_diff(any) > ran.0.abs_diff(ran.1) {
                *ran = (own, any);
            }
        }
    }
    ran
}

/// Judges all policies. The runs of each are in the order of the seeds.
pub fn judge(stage: &Stage, policies: Played) -> (Vec<Judged>, Verdict) {
    let jobs = stage.scene(0).workload.len();
    let bootstrap = Bootstrap::new(jobs, stage.seeds.len(), RESAMPLES, stage.seeds[0]);
    let values = |runs: &[Run], of: fn(&Workload, &Run) -> Vec<f64>| -> Values {
        runs.iter().enumerate().map(|(at, run)| of(&stage.scene(at).workload, run)).collect()
    };
    let jct: Vec<Values> = policies.iter().map(|(_, runs)| values(runs, jct_s)).collect();
    let ran = ran(&policies, &jct, stage.seeds.len());
    let judge = |(at, (policy, runs)): (usize, (Policy, Vec<Run>))| {
        let (jct_s, wait_s) = (&jct[at], values(&runs, wait_s));
        let intervals = [
            (AVG_JCT, bootstrap.mean_interval(&means(jct_s))),
            (MEDIAN_JCT, bootstrap.median_interval(jct_s.iter().map(Vec::as_slice))),
            (AVG_WAIT, bootstrap.mean_interval(&means(&wait_s))),
        ];
        Judged {
            policy,
            seeded: stage.seeded(policy),
            figures: FIGURES.iter().map(|figure| mean(&runs, figure.of)).collect(),
            runs,
            intervals,
            less_first: difference(&bootstrap, jct_s, &jct[0]),
            ran: ran[at],
        }
    };
    let judged: Vec<Judged> = policies.into_par_iter().enumerate().map(judge).collect();
    let verdict = verdict(&bootstrap, &judged, &jct);
    (judged, verdict)
}

fn verdict(bootstrap: &Bootstrap, judged: &[Judged], jct: &[Values]) -> Verdict {
    let can = |(at, row): (usize, &Judged)| {
        row.avg_jct_s().filter(|_| row.candidate()).map(|jct_s| (at, jct_s))
    };
    let candidates: Vec<(usize, f64)> = judged.iter().enumerate().filter_map(can).collect();
    let lowest = candidates.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| *at);
    let mut verdict =
        Verdict { lowest, candidates: candidates.len(), equal: Vec::new(), undecided: Vec::new() };
    let Some(lowest) = lowest else { return verdict };
    let others = candidates.par_iter().map(|(at, _)| *at).filter(|at| *at != lowest);
    let compare = |at| (at, difference(bootstrap, &jct[at], &jct[lowest]));
    let compared: Vec<(usize, Option<Difference>)> = others.map(compare).collect();
    for (at, difference) in compared {
        let Some(difference) = difference else { continue };
        if difference.equal {
            verdict.equal.push(at);
        } else if difference.interval.is_none_or(|interval| interval.low <= 0.0) {
            verdict.undecided.push(at);
        }
    }
    verdict
}
