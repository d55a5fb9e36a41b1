//! Does the table fit the collective and the number of ranks that it is said to be of?

use bandpilot_core::Collective;

use super::rows::Row;
use crate::Diagnostic;

/// Below this both bandwidths are printed too coarsely to say anything, GB/s.
const MIN_GBYTES_PER_S: f64 = 1.0;

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
    fn count(&mut self, verdict: Option<&Result<(), Diagnostic>>, line: u32) {
        match verdict {
            None => {}
            Some(Ok(())) => self.fit += 1,
            Some(Err(reason)) => {
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
        by_parts.count(parts.as_ref(), row.line);
        by_ratio.count(ratio.as_ref(), row.line);
        checked.by_bandwidth |= ratio.is_some();
        match (parts, ratio) {
            (Some(Err(reason)), _) | (_, Some(Err(reason))) => {
                checked.odd.push(reason.at(row.line, 0));
            }
            _ => checked.good.push(row),
        }
    }
    match by_parts.against().or_else(|| by_ratio.against()) {
        Some(reason) => Err(reason.help("give the --op and --placement that were really run")),
        None => Ok(checked),
    }
}

/// busbw / algbw against the factor of the collective; `None` if too slow to tell.
fn ratio_fits(op: Collective, ranks: usize, row: &Row) -> Option<Result<(), Diagnostic>> {
    let (algbw, busbw) = (row.algbw, row.busbw);
    if algbw.value <= MIN_GBYTES_PER_S || busbw.value <= MIN_GBYTES_PER_S {
        return None;
    }
    // Half a unit is what rounding can do; a little more for numbers that were rounded twice.
    let low = (busbw.value - 0.6 * busbw.unit) / (algbw.value + 0.6 * algbw.unit);
    let high = (busbw.value + 0.6 * busbw.unit) / (algbw.value - 0.6 * algbw.unit);
    let factor = op.busbw_factor(ranks);
    if (low..=high).contains(&factor) {
        return Some(Ok(()));
    }
    let ratio = busbw.value / algbw.value;
    let message =
        format!("busbw / algbw is {ratio:.4}, but {factor:.4} for {op} over {ranks} GPUs");
    Some(Err(Diagnostic::error("busbw", message)))
}

/// size / (count x element size): 1 where `count` is the whole message, else the number of ranks.
fn parts_fit(op: Collective, ranks: usize, row: &Row) -> Option<Result<(), Diagnostic>> {
    let parts = row.parts?;
    let expected = match op {
        Collective::AllReduce
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv => 1.0,
        Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll => ranks as f64,
    };
    if parts == expected {
        return Some(Ok(()));
    }
    let message =
        format!("the size is {parts} times count, but {expected} times for {op} over {ranks} GPUs");
    Some(Err(Diagnostic::error("count", message)))
}
