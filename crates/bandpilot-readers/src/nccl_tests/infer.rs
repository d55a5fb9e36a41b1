//! What the rows themselves tell about the number of ranks and the collective.

use std::fmt;

use bandpilot_core::Collective;

use super::check::{is_fast, is_split, parts_fit, ratio, ratio_fits};
use super::rows::Row;

/// No more ranks than this are told from a table.
const MAX_RANKS: usize = 1 << 20;

/// The numbers of ranks that most rows allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ranks {
    /// The rows say nothing about it.
    Unknown,
    /// No number fits the collective.
    None,
    Between(usize, usize),
}

impl Ranks {
    /// The number if there is only one.
    pub(super) fn exactly(self) -> Option<usize> {
        match self {
            Self::Between(low, high) if low == high => Some(low),
            _ => None,
        }
    }
}

impl fmt::Display for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the rows do not tell how many GPUs ran"),
            Self::None => f.write_str("busbw / algbw fits no number of GPUs"),
            Self::Between(low, high) if low == high => write!(f, "its rows are of {low} GPUs"),
            Self::Between(low, high) if *high >= MAX_RANKS => {
                write!(f, "its rows are of {low} or more GPUs")
            }
            Self::Between(low, high) => write!(f, "its rows are of {low} to {high} GPUs"),
        }
    }
}

/// The number of ranks from busbw / algbw, as far as the printed digits tell: each row allows an
/// interval, and the answer is where most of them meet. Size / count says it exactly where `count` is
/// a rank's part.
pub(super) fn ranks(op: Collective, rows: &[Row]) -> Ranks {
    let mut allowed: Vec<(usize, usize)> = Vec::new();
    let mut asked = 0;
    for row in rows {
        let by_parts = row.parts.filter(|_| is_split(op));
        if !is_fast(row) && by_parts.is_none() {
            continue;
        }
        asked += 1;
        let interval = match by_parts {
            Some(parts) => Some((parts, parts)),
            None => by_ratio(op, ratio(row)),
        };
        let Some((low, high)) = interval else { continue };
        let (low, high) = (low.ceil().max(2.0), high.floor().min(MAX_RANKS as f64));
        if low <= high {
            allowed.push((low as usize, high as usize));
        }
    }
    if asked == 0 || op.busbw_factor(2) == op.busbw_factor(3) {
        return Ranks::Unknown;
    }
    let meeting =
        |at: usize| allowed.iter().filter(move |(low, high)| (*low..=*high).contains(&at)).copied();
    // Most rows meet at the lower end of one of them; the first of several such places is taken.
    let mut starts: Vec<usize> = allowed.iter().map(|(low, _)| *low).collect();
    starts.sort_unstable();
    starts.dedup();
    let best = starts.into_iter().rev().max_by_key(|at| meeting(*at).count());
    match best {
        Some(at) if meeting(at).count() * 2 > asked => {
            let low = meeting(at).map(|(low, _)| low).max().unwrap_or(at);
            let high = meeting(at).map(|(_, high)| high).min().unwrap_or(at);
            Ranks::Between(low, high)
        }
        _ => Ranks::None,
    }
}

/// Solves the factor for the number of ranks.
fn by_ratio(op: Collective, (low, high): (f64, f64)) -> Option<(f64, f64)> {
    let scale = if op == Collective::AllReduce { 2.0 } else { 1.0 };
    // factor = scale (n - 1) / n, so n = scale / (scale - factor)
    let solve = |factor: f64| {
        if factor < scale { scale / (scale - factor) } else { f64::INFINITY }
    };
    (high > 0.0).then(|| (solve(low), solve(high)))
}

/// The collectives that most rows may be of, if they ran on so many ranks.
pub(super) fn collectives(rows: &[Row], ranks: usize) -> Vec<Collective> {
    let most = |rows: &[&Row], fits: &dyn Fn(&Row) -> bool| {
        rows.is_empty() || rows.iter().filter(|row| fits(row)).count() * 2 > rows.len()
    };
    // Fast and slow rows are asked apart: many slow ones must not outvote those that can tell.
    let all: Vec<&Row> = rows.iter().collect();
    let fast: Vec<&Row> = rows.iter().filter(|row| is_fast(row)).collect();
    // Without a fast row only the keys would be left to tell, and a single cell of them may be damaged.
    if fast.is_empty() && by_parts(rows).is_none() {
        return Vec::new();
    }
    let may_be = |op: Collective| {
        most(&all, &|row| parts_fit(op, ranks, row).is_ok() && keys_fit(op, row))
            && most(&fast, &|row| ratio_fits(op, ranks, row).is_ok())
    };
    Collective::ALL.into_iter().filter(|op| may_be(*op)).collect()
}

/// The number of ranks from size / count, where `count` is a rank's part in most rows.
pub(super) fn by_parts(rows: &[Row]) -> Option<usize> {
    let parts: Vec<f64> = rows.iter().filter_map(|row| row.parts).collect();
    let agree = |wanted: f64| parts.iter().filter(|parts| **parts == wanted).count() * 2;
    let found = parts.iter().copied().find(|wanted| agree(*wanted) > rows.len())?;
    (found > 1.0 && found.fract() == 0.0 && found <= MAX_RANKS as f64).then_some(found as usize)
}

/// True if most fast rows have more bus bandwidth than algorithm bandwidth: only `all_reduce` has that.
pub(super) fn is_surely_all_reduce(rows: &[Row]) -> bool {
    let fast: Vec<&Row> = rows.iter().filter(|row| is_fast(row)).collect();
    let above = fast.iter().filter(|row| ratio(row).0 > 1.0 && ratio(row).0 < 2.0);
    let whole = fast.iter().all(|row| row.parts.is_none_or(|parts| parts == 1.0));
    whole && above.count() * 2 > fast.len()
}

/// Reduction and root as nccl-tests prints them for each collective.
fn keys_fit(op: Collective, row: &Row) -> bool {
    let rooted = matches!(op, Collective::Broadcast | Collective::Reduce);
    let root_fits = row.root.is_none_or(|root| (root >= 0) == rooted);
    let redop_fits = match (op, row.redop.as_deref()) {
        // Before 2021 a column that does not apply was left out.
        (Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter, redop) => {
            redop.is_some_and(|redop| redop != "none")
        }
        (Collective::AllGather | Collective::AllToAll | Collective::Broadcast, redop) => {
            redop.is_none_or(|redop| redop == "none")
        }
        (Collective::SendRecv, _) => true,
    };
    root_fits && redop_fits && (row.root.is_some() || !rooted)
}
