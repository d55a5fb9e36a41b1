//! Does the table fit the collective and the number of ranks that it is said to be of?

use bandpilot_core::Collective;

use super::rows::{Printed, Row};
use crate::Diagnostic;

/// Below this both bandwidths are printed too coarsely to have a vote on the whole table, GB/s.
const MIN_GBYTES_PER_S: f64 = 1.0;
/// Half a unit is what rounding can do; a little more for numbers that were rounded twice.
const ROUNDING: f64 = 0.6;
/// How far busbw may be from factor x size / time besides rounding.
const BUSBW_SLACK: f64 = 0.005;

/// Rows that fit, and an error for each that does not.
pub(super) struct Checked {
    pub(super) good: Vec<Row>,
    pub(super) odd: Vec<Diagnostic>,
    /// True if at least one row was fast enough to check the bandwidth ratio.
    pub(super) by_bandwidth: bool,
}

/// Votes of the rows on one question.
#[derive(Default)]
struct Votes {
    fit: usize,
    odd: usize,
    first_odd: Option<Diagnostic>,
}

impl Votes {
    fn count(&mut self, verdict: &Result<(), Diagnostic>, line: u32) {
        match verdict {
            Ok(()) => self.fit += 1,
            Err(reason) => {
                self.odd += 1;
                self.first_odd.get_or_insert_with(|| reason.clone().at(line, 0));
            }
        }
    }

    /// The first odd row's reason if at least half of the rows are odd.
    fn against(self) -> Option<Diagnostic> {
        self.first_odd.filter(|_| self.odd >= self.fit)
    }
}

/// Checks all rows; an error for the whole table if at least half of the rows that can be asked
/// contradict it in one of the two ways. The two are counted apart: that `count` fits says nothing
/// about the number of ranks of an `all_reduce`.
pub(super) fn against(op: Collective, ranks: usize, rows: Vec<Row>) -> Result<Checked, Diagnostic> {
    let mut checked = Checked { good: Vec::new(), odd: Vec::new(), by_bandwidth: false };
    let (mut by_parts, mut by_ratio) = (Votes::default(), Votes::default());
    for row in rows {
        let parts = parts_fit(op, ranks, &row);
        let ratio = ratio_fits(op, ranks, &row);
        if row.parts.is_some() {
            by_parts.count(&parts, row.line);
        }
        if is_fast(&row) {
            by_ratio.count(&ratio, row.line);
            checked.by_bandwidth = true;
        }
        let verdict = parts
            .and(ratio)
            .and_then(|()| right(ranks, &row))
            .and_then(|()| busbw_fits(op, ranks, &row));
        match verdict {
            Err(reason) => checked.odd.push(reason.at(row.line, 0)),
            Ok(()) => checked.good.push(row),
        }
    }
    match by_parts.against().or_else(|| by_ratio.against()) {
        Some(reason) => Err(reason),
        None => Ok(checked),
    }
}

/// True if both bandwidths are printed finely enough to tell collectives and numbers of ranks apart.
pub(super) fn is_fast(row: &Row) -> bool {
    let fine = |number: Printed| number.value > MIN_GBYTES_PER_S * (number.unit * 100.0).min(1.0);
    fine(row.algbw) && fine(row.busbw)
}

/// Between what and what busbw / algbw may be, given how they are printed.
pub(super) fn ratio(row: &Row) -> (f64, f64) {
    let (algbw, busbw) = (row.algbw, row.busbw);
    let low = (busbw.value - ROUNDING * busbw.unit) / (algbw.value + ROUNDING * algbw.unit);
    let least = algbw.value - ROUNDING * algbw.unit;
    let high =
        if least > 0.0 { (busbw.value + ROUNDING * busbw.unit) / least } else { f64::INFINITY };
    (low, high)
}

/// busbw / algbw against the factor of the collective.
pub(super) fn ratio_fits(op: Collective, ranks: usize, row: &Row) -> Result<(), Diagnostic> {
    let (low, high) = ratio(row);
    let factor = op.busbw_factor(ranks);
    if (low..=high).contains(&factor) {
        return Ok(());
    }
    let ratio = row.busbw.value / row.algbw.value;
    let message =
        format!("busbw / algbw is {ratio:.4}, but {factor:.4} for {op} over {ranks} GPUs");
    Err(Diagnostic::error("busbw", message))
}

/// busbw against factor x size / time, which is printed more finely than algbw for small messages.
fn busbw_fits(op: Collective, ranks: usize, row: &Row) -> Result<(), Diagnostic> {
    let Some(speed) = row.speed else { return Ok(()) };
    let factor = op.busbw_factor(ranks);
    let expected = factor * speed.value;
    let slack = row.busbw.unit + factor * speed.unit + BUSBW_SLACK * expected;
    if (row.busbw.value - expected).abs() <= slack {
        return Ok(());
    }
    let message = format!(
        "{} GB/s, but {factor:.4} x size / time is {expected:.2} for {op} over {ranks} GPUs",
        row.busbw.value
    );
    Err(Diagnostic::error("busbw", message).help("a number of the row is wrong"))
}

/// The deviation of the results against what rounding can do.
fn right(ranks: usize, row: &Row) -> Result<(), Diagnostic> {
    let Some((deviation, for_two)) = row.deviation else { return Ok(()) };
    let allowed = for_two * ranks.saturating_sub(1) as f64;
    if deviation <= allowed {
        return Ok(());
    }
    let message = format!("{deviation:e}, but rounding explains at most {allowed:e}");
    Err(Diagnostic::error("error", message).help("a wrong run measures nothing"))
}

/// size / (count x element size): 1 where `count` is the whole message, else the number of ranks.
pub(super) fn parts_fit(op: Collective, ranks: usize, row: &Row) -> Result<(), Diagnostic> {
    let Some(parts) = row.parts else { return Ok(()) };
    let expected = if is_split(op) { ranks as f64 } else { 1.0 };
    if parts == expected {
        return Ok(());
    }
    let message =
        format!("the size is {parts} times count, but {expected} times for {op} over {ranks} GPUs");
    Err(Diagnostic::error("count", message))
}

/// True for collectives whose `count` is one rank's part of the message.
pub(super) fn is_split(op: Collective) -> bool {
    matches!(op, Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll)
}
