//! The figures of a policy, each in one place: what it is called, where it comes from and what it means.

use bandpilot_report::Best;
use bandpilot_sim::Metrics;

use super::judge::Judged;

/// A figure. A new one gets a row in [`FIGURES`]: text, JSON and report follow.
pub struct Figure {
    /// Key in JSON.
    pub key: &'static str,
    /// Heading in the text table.
    pub head: &'static str,
    /// What it is, below the text tables; empty if the heading says it.
    pub legend: &'static str,
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
    /// Which table it stands in.
    pub kind: Kind,
    /// Where it comes from; nothing where no job has it.
    pub of: fn(&Metrics) -> Option<f64>,
}

/// What a figure is about: each kind has a table of its own, as one for all would be too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// How long jobs take.
    Times,
    /// What became of GPUs and network.
    Resources,
    /// How scattered over the hosts what ran was.
    Fragmentation,
}

/// When people see a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shown {
    Always,
    /// If any policy has one that is not this, which says nothing.
    IfNot(f64),
    /// If any policy has one.
    IfAny,
    /// In JSON only.
    Never,
}

const SECONDS: Figure = Figure {
    key: "",
    head: "",
    legend: "",
    name: "",
    unit: "s",
    scale: 1.0,
    decimals: 0,
    whole: false,
    shown: Shown::Always,
    best: Best::Lowest,
    meaning: "",
    kind: Kind::Times,
    of: |_| None,
};
const COUNT: Figure = Figure { unit: "", whole: true, best: Best::None, ..SECONDS };
const OF_GPUS: Figure = Figure { kind: Kind::Resources, ..SECONDS };
const OF_HOSTS: Figure = Figure { unit: "", kind: Kind::Fragmentation, ..SECONDS };
const COUNT_OF_GPUS: Figure = Figure { kind: Kind::Resources, ..COUNT };

/// All figures.
pub const FIGURES: [Figure; 25] = [
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
        shown: Shown::IfNot(0.0),
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
        of: |m| (m.jobs > 0).then_some(m.avg_jct_s),
        ..SECONDS
    },
    Figure {
        key: MEDIAN_JCT,
        head: "MEDIAN",
        name: "Median JCT",
        meaning: "Half of the jobs are done within this time.",
        of: |m| (m.jobs > 0).then_some(m.median_jct_s),
        ..SECONDS
    },
    Figure {
        key: "p95_jct_s",
        head: "P95",
        name: "95 % JCT",
        meaning: "95 of 100 jobs are done within this time.",
        of: |m| (m.jobs > 0).then_some(m.p95_jct_s),
        ..SECONDS
    },
    Figure {
        key: "p99_jct_s",
        head: "P99",
        name: "99 % JCT",
        meaning: "99 of 100 jobs are done within this time: what the unluckiest ones see.",
        of: |m| (m.jobs > 0).then_some(m.p99_jct_s),
        ..SECONDS
    },
    Figure {
        key: AVG_WAIT,
        head: "WAIT S",
        name: "Mean wait",
        decimals: 2,
        meaning: "JCT less the duration of the job: all delay, before the start, after preemptions and by a lower speed.",
        of: |m| (m.jobs > 0).then_some(m.avg_wait_s),
        ..SECONDS
    },
    Figure {
        key: "makespan_s",
        head: "MAKESPAN S",
        name: "Makespan",
        meaning: "From the first submission to the last end.",
        of: |m| (m.jobs > 0).then_some(m.makespan_s),
        ..SECONDS
    },
    Figure {
        key: "preemptions",
        head: "PREEMPTED",
        name: "Preemptions",
        meaning: "How often jobs lost their GPUs to others and waited again.",
        of: |m| Some(m.preemptions as f64),
        ..COUNT_OF_GPUS
    },
    Figure {
        key: "migrations",
        head: "MIGRATED",
        name: "Migrations",
        shown: Shown::IfNot(0.0),
        meaning: "How often jobs went on elsewhere at once.",
        of: |m| Some(m.migrations as f64),
        ..COUNT_OF_GPUS
    },
    Figure {
        key: "faults",
        head: "FAULTS",
        name: "Faults",
        shown: Shown::IfNot(0.0),
        meaning: "How often failing hardware took jobs down.",
        of: |m| Some(m.faults as f64),
        ..COUNT_OF_GPUS
    },
    Figure {
        key: "lost_gpu_s",
        head: "LOST GPU S",
        name: "Lost work",
        unit: "GPU-s",
        shown: Shown::IfNot(0.0),
        meaning: "Work that faults undid.",
        of: |m| Some(m.lost_gpu_s),
        ..OF_GPUS
    },
    Figure {
        key: "busy_while_queued",
        head: "BUSY %",
        legend: "busy: GPUs held while jobs wait (AGU)",
        name: "Busy (AGU)",
        unit: "%",
        scale: 100.0,
        decimals: 1,
        best: Best::Highest,
        meaning: "Share of the GPUs that was held while jobs waited (average GPU utilisation): what is missing to 100 % is lost to fragmentation and to the order of the queue.",
        of: |m| m.busy_while_queued,
        ..OF_GPUS
    },
    Figure {
        key: "queued_s",
        head: "QUEUED S",
        name: "Queued",
        shown: Shown::Never,
        of: |m| Some(m.queued_s),
        ..OF_GPUS
    },
    Figure {
        key: "busbw_jobs",
        shown: Shown::Never,
        of: |m| Some(m.busbw_jobs as f64),
        ..COUNT_OF_GPUS
    },
    Figure {
        key: "avg_busbw_gbytes_per_s",
        head: "BUSBW GB/S",
        name: "Mean bus bandwidth",
        unit: "GB/s",
        decimals: 1,
        best: Best::Highest,
        shown: Shown::IfNot(0.0),
        meaning: "Mean over jobs of two or more GPUs of the effective bandwidth that they had (busbw), beside all others.",
        of: |m| m.avg_busbw_gbytes_per_s,
        ..OF_GPUS
    },
    Figure {
        key: "p05_busbw_gbytes_per_s",
        shown: Shown::Never,
        of: |m| m.p05_busbw_gbytes_per_s,
        ..OF_GPUS
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
        ..OF_GPUS
    },
    Figure {
        key: "afr",
        head: "AFR",
        legend: "AFR: share of the hosts that is avoidably partial (SIF) while jobs wait",
        name: "AFR",
        decimals: 4,
        shown: Shown::IfAny,
        meaning: "Average fragmentation ratio: share of the hosts that was avoidably partial (SIF), mean over the time in which jobs waited. A host is partial if some of its GPUs are held and some are not; avoidable are those beyond the fewest that what runs could be packed with.",
        of: |m| m.afr,
        ..OF_HOSTS
    },
    Figure {
        key: "n_sif_mean",
        head: "N*SIF",
        legend: "N*SIF: number of them",
        name: "N·SIF",
        unit: "hosts",
        decimals: 2,
        shown: Shown::IfAny,
        meaning: "The same as a number of hosts.",
        of: |m| m.n_sif_mean,
        ..OF_HOSTS
    },
    Figure {
        key: "n_sif_max",
        head: "MOST",
        legend: "most: the most at any time",
        name: "Most N·SIF",
        unit: "hosts",
        whole: true,
        shown: Shown::IfAny,
        meaning: "The most hosts that were avoidably partial at any time.",
        of: |m| m.n_sif_max.map(|hosts| hosts as f64),
        ..OF_HOSTS
    },
    Figure {
        key: "enl_mean",
        head: "ENL",
        legend: "ENL: whole hosts that a repack would free, while jobs wait",
        name: "ENL",
        unit: "hosts",
        decimals: 2,
        shown: Shown::IfAny,
        meaning: "Empty-host loss: whole hosts that a repack of what runs would free, mean over the time in which jobs waited.",
        of: |m| m.enl_mean,
        ..OF_HOSTS
    },
    Figure {
        key: "head_blocked_s",
        head: "BLOCKED S",
        legend: "blocked: time the first job waits although enough GPUs are idle",
        name: "Fragmentation-blocked",
        unit: "s",
        meaning: "Time during which the first waiting job did not start although as many GPUs as it asks for were idle: they were scattered.",
        of: |m| Some(m.head_blocked_s),
        ..OF_HOSTS
    },
    Figure {
        key: "wcc_share",
        head: "WCC %",
        legend: "WCC: single GPUs can fill what odd sizes leave",
        name: "WCC",
        unit: "%",
        scale: 100.0,
        decimals: 1,
        best: Best::None,
        shown: Shown::IfNot(1.0),
        meaning: "Share of the time in which the condition WCC held: enough single GPUs ran to fill the gaps beside instances of 3, 5, 6 or 7 GPUs, so that all could be packed with one partial host.",
        of: |m| m.wcc_share,
        ..OF_HOSTS
    },
    Figure {
        key: "bound_share",
        head: "BOUND %",
        legend: "bound: AFR, N*SIF and ENL may be less",
        name: "Bound",
        unit: "%",
        scale: 100.0,
        decimals: 1,
        best: Best::None,
        shown: Shown::IfNot(0.0),
        meaning: "Share of the time in which the fewest hosts, partial or in use, were not known, only a number that they cannot be below: AFR, N·SIF and ENL may be less than is said.",
        of: |m| m.bound_share,
        ..OF_HOSTS
    },
];

/// Keys of the figures that have intervals.
pub const AVG_JCT: &str = "avg_jct_s";
/// As above.
pub const MEDIAN_JCT: &str = "median_jct_s";
/// As above.
pub const AVG_WAIT: &str = "avg_wait_s";

/// The figures of one run.
pub fn figures(metrics: &Metrics) -> impl Iterator<Item = (&'static Figure, Option<f64>)> {
    FIGURES.iter().map(|figure| (figure, (figure.of)(metrics)))
}

/// Rows of [`FIGURES`] that people see in a table.
pub fn shown(judged: &[Judged], kind: Kind) -> Vec<usize> {
    let any = |at: usize, nothing: f64| {
        // To the decimals that are shown.
        let says = |value: f64| (value - nothing).abs() >= 5e-4;
        judged.iter().any(|row| row.figures[at].is_some_and(says))
    };
    let is = |at: &usize| match FIGURES[*at].shown {
        Shown::Always => true,
        Shown::IfNot(nothing) => any(*at, nothing),
        Shown::IfAny => judged.iter().any(|row| row.figures[*at].is_some()),
        Shown::Never => false,
    };
    (0..FIGURES.len()).filter(|at| FIGURES[*at].kind == kind).filter(is).collect()
}
