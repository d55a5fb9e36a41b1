//! What the windows say of each policy, and how often one of them is the best.

use bandpilot_sim::{Metrics, Policy};

use super::cut::Cut;
use super::play::{Played, Run};
use crate::commands::simulate::judge::mean_of;

/// A mean JCT that is greater by so much is still as good, for the softer of the two counts.
pub const CLOSE: f64 = 1e-3;
/// Sums of the same numbers in another order differ by less.
const ROUNDING: f64 = 1e-12;

/// How the figures of a policy become one over the windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Their mean.
    Mean,
    /// The greatest.
    Most,
    /// Their sum.
    Sum,
}

/// A figure over windows. A new one gets a row in [`FIGURES`]: text, JSON and report follow.
pub struct Figure {
    /// Key in JSON.
    pub key: &'static str,
    /// Heading in text and report.
    pub head: &'static str,
    /// What it is multiplied by for people.
    pub scale: f64,
    /// Decimals for people.
    pub decimals: usize,
    /// True if lower is better, false if higher, nothing if neither.
    pub lower: Option<bool>,
    /// What it means.
    pub meaning: &'static str,
    /// How windows are put together.
    pub over: Over,
    /// Where it comes from.
    pub of: fn(&Metrics) -> Option<f64>,
}

const SECONDS: Figure = Figure {
    key: "",
    head: "",
    scale: 1.0,
    decimals: 0,
    lower: Some(true),
    meaning: "",
    over: Over::Mean,
    of: |_| None,
};

/// True if GPUs were given on hosts, not only counted.
fn on_hosts(m: &Metrics) -> bool {
    m.n_sif_max.is_some()
}

/// Where nobody waited nothing was fragmented while somebody waited.
fn or_none_waited(m: &Metrics, figure: Option<f64>) -> Option<f64> {
    figure.or_else(|| (on_hosts(m) && m.queued_s == 0.0).then_some(0.0))
}

/// AFR of a run; 0 if nobody waited.
pub fn afr(m: &Metrics) -> Option<f64> {
    or_none_waited(m, m.afr)
}

/// Mean JCT of a run.
pub fn avg_jct_s(m: &Metrics) -> Option<f64> {
    (m.jobs > 0).then_some(m.avg_jct_s)
}

/// All figures.
pub const FIGURES: [Figure; 10] = [
    Figure {
        key: "avg_jct_s",
        head: "MEAN JCT S",
        meaning: "mean over the jobs of a window, from submission to the end",
        of: avg_jct_s,
        ..SECONDS
    },
    Figure {
        key: "afr",
        head: "AFR",
        decimals: 4,
        meaning: "share of the hosts that is avoidably partial (SIF) while jobs wait",
        of: afr,
        ..SECONDS
    },
    Figure {
        key: "agu",
        head: "AGU %",
        scale: 100.0,
        decimals: 2,
        lower: Some(false),
        meaning: "GPUs held while jobs wait",
        of: |m| m.busy_while_queued,
        ..SECONDS
    },
    Figure {
        key: "n_sif_mean",
        head: "N*SIF",
        decimals: 3,
        meaning: "avoidably partial hosts while jobs wait",
        of: |m| or_none_waited(m, m.n_sif_mean),
        ..SECONDS
    },
    Figure {
        key: "n_sif_max",
        head: "MOST",
        meaning: "the most of them at any time of any window",
        over: Over::Most,
        of: |m| m.n_sif_max.map(|hosts| hosts as f64),
        ..SECONDS
    },
    Figure {
        key: "enl_mean",
        head: "ENL",
        decimals: 3,
        meaning: "whole hosts that a repack would free, while jobs wait",
        of: |m| or_none_waited(m, m.enl_mean),
        ..SECONDS
    },
    Figure {
        key: "head_blocked_s",
        head: "BLOCKED S",
        meaning: "time the first job waits although enough GPUs are idle",
        of: |m| Some(m.head_blocked_s),
        ..SECONDS
    },
    Figure {
        key: "migrations",
        head: "MIGRATED",
        lower: None,
        meaning: "how often jobs went on elsewhere at once, over all windows",
        over: Over::Sum,
        of: |m| Some(m.migrations as f64),
        ..SECONDS
    },
    Figure {
        key: "wcc_throughout",
        head: "WCC %",
        scale: 100.0,
        decimals: 1,
        lower: None,
        meaning: "windows in which WCC always held",
        of: |m| m.wcc_share.map(|share| f64::from(u8::from(share == 1.0))),
        ..SECONDS
    },
    Figure {
        key: "bound_share",
        head: "BOUND %",
        scale: 100.0,
        decimals: 1,
        meaning: "time in which AFR, N*SIF and ENL may be less than is said",
        of: |m| m.bound_share,
        ..SECONDS
    },
];

/// Mean over the seeds.
pub fn of_runs(runs: &[Run], of: fn(&Metrics) -> Option<f64>) -> Option<f64> {
    mean_of(runs.iter().filter_map(|run| of(&run.metrics)))
}

/// Least of the policies that the judged one is set against, and whose it is.
pub type Least = (f64, usize);

/// The judged policy against the others in one window.
#[derive(Debug, Clone, Copy)]
pub struct Match {
    /// Index of the window.
    pub window: usize,
    /// Hosts of the cluster, with the first seed.
    pub hosts: usize,
    /// AFR and the least of the others.
    pub afr: (f64, Least),
    /// Mean JCT and the least of the others.
    pub jct_s: (f64, Least),
    /// WCC always held.
    pub wcc: bool,
}

impl Match {
    /// No other has a lower AFR.
    pub fn afr_lowest(&self) -> bool {
        self.afr.0 <= self.afr.1.0 * (1.0 + ROUNDING)
    }

    /// Every other has a higher one.
    pub fn afr_alone(&self) -> bool {
        self.afr.0 < self.afr.1.0 * (1.0 - ROUNDING)
    }

    /// No other has a lower mean JCT.
    pub fn jct_no_worse(&self) -> bool {
        self.jct_s.0 <= self.jct_s.1.0 * (1.0 + ROUNDING)
    }

    /// None by more than [`CLOSE`].
    pub fn jct_close(&self) -> bool {
        self.jct_s.0 <= self.jct_s.1.0 * (1.0 + CLOSE)
    }

    /// It is not the best in both.
    pub fn lost(&self) -> bool {
        !self.afr_lowest() || !self.jct_no_worse()
    }
}

/// What came out for one size of clusters.
pub struct OfEta {
    pub eta: f64,
    pub played: Vec<Played>,
    /// Indexes into `played` of windows in which jobs waited with some policy.
    pub counted: Vec<usize>,
    /// One row a policy, one entry a row of [`FIGURES`], over the counted windows.
    pub figures: Vec<Vec<Option<f64>>>,
    /// Of the counted windows.
    pub matches: Vec<Match>,
}

impl OfEta {
    /// Numbers of the windows in which nobody waited.
    pub fn calm<'a>(&'a self, cut: &'a Cut) -> impl Iterator<Item = i64> + 'a {
        let calm = (0..self.played.len()).filter(|at| !self.counted.contains(at));
        calm.map(|at| cut.windows[self.played[at].window].number)
    }

    /// Fewest and most hosts.
    pub fn hosts(&self) -> Option<(usize, usize)> {
        let all = self.played.iter().flat_map(|window| window.runs.iter().flatten());
        let hosts = || all.clone().map(|run| run.hosts);
        hosts().min().zip(hosts().max())
    }

    /// In how many windows something holds for the judged policy.
    pub fn count(&self, holds: fn(&Match) -> bool) -> usize {
        self.matches.iter().filter(|one| holds(one)).count()
    }
}

/// Why the judged policy is not set against another one.
pub fn no_rival(judged: Policy, other: Policy) -> Option<&'static str> {
    if other.placement.bound {
        Some("only counts GPUs")
    } else if other.repacks() {
        Some("packs everything anew")
    } else if other.splits() && !judged.splits() {
        Some("splits instances")
    } else {
        None
    }
}

/// Policies that the judged one is set against.
pub fn rivals(policies: &[Policy], judged: usize) -> Vec<usize> {
    let is = |at: &usize| *at != judged && no_rival(policies[judged], policies[*at]).is_none();
    (0..policies.len()).filter(is).collect()
}

fn over_windows(how: Over, values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    match how {
        Over::Mean => mean_of(values),
        Over::Most => values.reduce(f64::max),
        Over::Sum => values.clone().next().map(|_| values.sum()),
    }
}

fn compare(played: &Played, policies: &[Policy], judged: usize) -> Option<Match> {
    let least = |of: fn(&Metrics) -> Option<f64>| -> Option<Least> {
        let others = rivals(policies, judged).into_iter();
        let others = others.filter_map(|at| Some((of_runs(&played.runs[at], of)?, at)));
        others.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let own = &played.runs[judged];
    let wcc = |run: &Run| run.metrics.wcc_share == Some(1.0);
    Some(Match {
        window: played.window,
        hosts: own.first()?.hosts,
        afr: (of_runs(own, afr)?, least(afr)?),
        jct_s: (of_runs(own, avg_jct_s)?, least(avg_jct_s)?),
        wcc: own.iter().all(wcc),
    })
}

/// Judges the runs of one size of clusters.
pub fn judge(eta: f64, played: Vec<Played>, policies: &[Policy], judged: usize) -> OfEta {
    let waited =
        |played: &Played| played.runs.iter().flatten().any(|run| run.metrics.queued_s > 0.0);
    let counted: Vec<usize> = (0..played.len()).filter(|at| waited(&played[*at])).collect();
    let figure = |policy: usize, figure: &Figure| {
        let windows = counted.iter().map(|at| &played[*at].runs[policy]);
        let values = windows.filter_map(|runs| of_runs(runs, figure.of));
        over_windows(figure.over, values)
    };
    let figures =
        (0..policies.len()).map(|at| FIGURES.iter().map(|of| figure(at, of)).collect()).collect();
    let matches = counted.iter().filter_map(|at| compare(&played[*at], policies, judged)).collect();
    OfEta { eta, played, counted, figures, matches }
}
