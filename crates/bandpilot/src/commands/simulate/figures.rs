//! The figures of a policy, each in one place: what it is called, where it comes from and what it means.

use bandpilot_report::Best;
use bandpilot_sim::bootstrap::{Bootstrap, Interval, Means, RESAMPLES};
use bandpilot_sim::{JobId, Metrics, Policy, Workload};
use rayon::prelude::*;

use super::runs::{Run, Stage};

/// A figure. A new one gets a row in [`FIGURES`]: text, JSON and report follow.
pub struct Figure {
    /// Key in JSON.
    pub key: &'static str,
    /// Heading in the text table.
    pub head: &'static str,
    /// Name in the report.
    pub name: &'static str,
    /// Unit in the report.
    pub unit: &'static str,
    /// What it is multiplied by for people.
    pub scale: f64,
    /// Decimals for people.
    pub decimals: usize,
    /// A whole number in each run.
    pub whole: bool,
    /// When people see it.
    pub shown: Shown,
    /// Which one is good.
    pub best: Best,
    /// What it means, in the report.
    pub meaning: &'static str,
    of: fn(&Metrics) -> Option<f64>,
}

/// When people see a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shown {
    Always,
    /// If any policy has one that is not this, which says nothing.
    IfNot(f64),
    /// In JSON only.
    Never,
}

const SECONDS: Figure = Figure {
    key: "",
    head: "",
    name: "",
    unit: "s",
    scale: 1.0,
    decimals: 0,
    whole: false,
    shown: Shown::Always,
    best: Best::Lowest,
    meaning: "",
    of: |_| None,
};
const COUNT: Figure = Figure { unit: "", whole: true, best: Best::None, ..SECONDS };

/// All figures.
pub const FIGURES: [Figure; 19] = [
    Figure {
        key: "jobs",
        head: "JOBS",
        name: "Jobs",
        meaning: "Jobs that finished; all other figures are over them.",
        of: |m| Some(m.jobs as f64),
        ..COUNT
    },
    Figure {
        key: "refused",
        head: "REFUSED",
        name: "Refused",
        meaning: "Jobs that would not fit on the idle cluster.",
        of: |m| Some(m.refused as f64),
        ..COUNT
    },
    Figure {
        key: AVG_JCT,
        head: "MEAN JCT S",
        name: "Mean JCT",
        decimals: 2,
        meaning: "Job completion time: from submission to the end. A mean that a few very long waits can make.",
        of: |m| Some(m.avg_jct_s),
        ..SECONDS
    },
    Figure {
        key: MEDIAN_JCT,
        head: "MEDIAN",
        name: "Median JCT",
        meaning: "Half of the jobs are done within this time.",
        of: |m| Some(m.median_jct_s),
        ..SECONDS
    },
    Figure {
        key: "p95_jct_s",
        head: "P95",
        name: "95 % JCT",
        meaning: "95 of 100 jobs are done within this time.",
        of: |m| Some(m.p95_jct_s),
        ..SECONDS
    },
    Figure {
        key: "p99_jct_s",
        head: "P99",
        name: "99 % JCT",
        meaning: "99 of 100 jobs are done within this time: what the unluckiest ones see.",
        of: |m| Some(m.p99_jct_s),
        ..SECONDS
    },
    Figure {
        key: AVG_WAIT,
        head: "MEAN WAIT S",
        name: "Mean wait",
        decimals: 2,
        meaning: "JCT less the duration of the job: all delay, before the start, after preemptions and by a lower speed.",
        of: |m| Some(m.avg_wait_s),
        ..SECONDS
    },
    Figure {
        key: "makespan_s",
        head: "MAKESPAN S",
        name: "Makespan",
        meaning: "From the first submission to the last end.",
        of: |m| Some(m.makespan_s),
        ..SECONDS
    },
    Figure {
        key: "preemptions",
        head: "PREEMPTIONS",
        name: "Preemptions",
        meaning: "How often jobs lost their GPUs to others and waited again.",
        of: |m| Some(m.preemptions as f64),
        ..COUNT
    },
    Figure {
        key: "migrations",
        head: "MIGRATIONS",
        name: "Migrations",
        shown: Shown::IfNot(0.0),
        meaning: "How often jobs went on elsewhere at once.",
        of: |m| Some(m.migrations as f64),
        ..COUNT
    },
    Figure {
        key: "faults",
        head: "FAULTS",
        name: "Faults",
        shown: Shown::IfNot(0.0),
        meaning: "How often failing hardware took jobs down.",
        of: |m| Some(m.faults as f64),
        ..COUNT
    },
    Figure {
        key: "lost_gpu_s",
        head: "LOST GPU S",
        name: "Lost work",
        unit: "GPU-s",
        shown: Shown::IfNot(0.0),
        meaning: "Work that faults undid.",
        of: |m| Some(m.lost_gpu_s),
        ..SECONDS
    },
    Figure {
        key: "busy_while_queued",
        head: "BUSY %",
        name: "Busy",
        unit: "%",
        scale: 100.0,
        decimals: 1,
        best: Best::Highest,
        meaning: "Share of the GPUs that was held while jobs waited: what is missing to 100 % is lost to fragmentation and to the order of the queue.",
        of: |m| m.busy_while_queued,
        ..SECONDS
    },
    Figure {
        key: "head_blocked_s",
        head: "HEAD BLOCKED S",
        name: "Head blocked",
        meaning: "Time during which the first waiting job did not start although as many GPUs as it asks for were idle: they were scattered.",
        of: |m| Some(m.head_blocked_s),
        ..SECONDS
    },
    Figure {
        key: "queued_s",
        head: "QUEUED S",
        name: "Queued",
        shown: Shown::Never,
        of: |m| Some(m.queued_s),
        ..SECONDS
    },
    Figure { key: "busbw_jobs", shown: Shown::Never, of: |m| Some(m.busbw_jobs as f64), ..COUNT },
    Figure {
        key: "avg_busbw_gbytes_per_s",
        head: "MEAN BUSBW GB/S",
        name: "Mean bus bandwidth",
        unit: "GB/s",
        decimals: 1,
        best: Best::Highest,
        shown: Shown::IfNot(0.0),
        meaning: "Mean over jobs of two or more GPUs of the effective bandwidth that they had (busbw), beside all others.",
        of: |m| m.avg_busbw_gbytes_per_s,
        ..SECONDS
    },
    Figure {
        key: "p05_busbw_gbytes_per_s",
        shown: Shown::Never,
        of: |m| m.p05_busbw_gbytes_per_s,
        ..SECONDS
    },
    Figure {
        key: "contention_slowdown",
        head: "CONTENTION",
        name: "Contention",
        unit: "times as long",
        decimals: 3,
        shown: Shown::IfNot(1.0),
        meaning: "Time that jobs over several hosts worked, over the time that they would have worked alone on the network.",
        of: |m| m.contention_slowdown,
        ..SECONDS
    },
];

/// Keys of the figures that have intervals.
const AVG_JCT: &str = "avg_jct_s";
const MEDIAN_JCT: &str = "median_jct_s";
const AVG_WAIT: &str = "avg_wait_s";

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
    /// 95 % intervals.
    pub intervals: Intervals,
}

/// 95 % intervals; none where no job finished.
pub struct Intervals {
    /// Of figures, by key.
    pub of: [(&'static str, Option<Interval>); 3],
    /// Mean JCT less that of the first policy.
    pub difference_s: f64,
    /// Of that, both over the same jobs and seeds in each resample.
    pub difference: Option<Interval>,
}

impl Judged {
    /// The interval of a figure, if it has one.
    pub fn interval(&self, key: &str) -> Option<Interval> {
        self.intervals.of.iter().find(|(of, _)| *of == key).and_then(|(_, interval)| *interval)
    }

    /// A figure as people see it.
    pub fn shown(&self, at: usize) -> Option<f64> {
        self.figures[at].map(|value| value * FIGURES[at].scale)
    }

    /// Mean JCT over the runs.
    pub fn avg_jct_s(&self) -> f64 {
        mean(&self.runs, |metrics| Some(metrics.avg_jct_s)).unwrap_or(0.0)
    }
}

/// The figures of one run.
pub fn figures(metrics: &Metrics) -> impl Iterator<Item = (&'static Figure, Option<f64>)> {
    FIGURES.iter().map(|figure| (figure, (figure.of)(metrics)))
}

/// Rows of [`FIGURES`] that people see.
pub fn shown(judged: &[Judged]) -> Vec<usize> {
    let any = |at: usize, nothing: f64| {
        // To the decimals that are shown.
        let says = |value: f64| (value - nothing).abs() >= 5e-4;
        judged.iter().any(|row| row.figures[at].is_some_and(says))
    };
    let is = |at: &usize| match FIGURES[*at].shown {
        Shown::Always => true,
        Shown::IfNot(nothing) => any(*at, nothing),
        Shown::Never => false,
    };
    (0..FIGURES.len()).filter(is).collect()
}

fn mean(runs: &[Run], of: impl Fn(&Metrics) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(|run| of(&run.metrics)).collect();
    // The figure of a single run stays as it is, to the last bit.
    let sum = values.iter().copied().reduce(|sum, value| sum + value)?;
    Some(sum / values.len() as f64)
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

/// Judges all policies. The runs of each are in the order of the seeds.
pub fn judge(stage: &Stage, policies: Vec<(Policy, Vec<Run>)>) -> Vec<Judged> {
    let jobs = stage.scene(0).workload.len();
    let bootstrap = Bootstrap::new(jobs, stage.seeds.len(), RESAMPLES, stage.seeds[0]);
    let values = |runs: &[Run], of: fn(&Workload, &Run) -> Vec<f64>| -> Vec<Vec<f64>> {
        runs.iter().enumerate().map(|(at, run)| of(&stage.scene(at).workload, run)).collect()
    };
    let means = |values: &[Vec<f64>]| Means::new(values.iter().map(Vec::as_slice));
    let first = policies.first().map(|(_, runs)| {
        let jct_s = means(&values(runs, jct_s));
        (jct_s, mean(runs, |metrics| Some(metrics.avg_jct_s)).unwrap_or(0.0))
    });
    let judge = |(policy, runs): (Policy, Vec<Run>)| {
        let (jct_s, wait_s) = (values(&runs, jct_s), values(&runs, wait_s));
        let mean_jct = means(&jct_s);
        let figures: Vec<Option<f64>> =
            FIGURES.iter().map(|figure| mean(&runs, figure.of)).collect();
        let own_s = mean(&runs, |metrics| Some(metrics.avg_jct_s)).unwrap_or(0.0);
        let intervals = Intervals {
            of: [
                (AVG_JCT, bootstrap.mean_interval(&mean_jct)),
                (MEDIAN_JCT, bootstrap.median_interval(jct_s.iter().map(Vec::as_slice))),
                (AVG_WAIT, bootstrap.mean_interval(&means(&wait_s))),
            ],
            difference_s: first.as_ref().map_or(0.0, |(_, first_s)| own_s - first_s),
            difference: first
                .as_ref()
                .and_then(|(first, _)| bootstrap.difference_interval(&mean_jct, first)),
        };
        Judged { policy, seeded: stage.seeded(policy), runs, figures, intervals }
    };
    policies.into_par_iter().map(judge).collect()
}
