//! The exact program behind the least numbers: how to fill bins with given counts of items at the least cost.
//!
//! *Constants*: kinds of items with their sizes and counts; classes of bins, one of them without a limit to its number.
//! *Variables*: how many bins are filled in each possible way, a [`Column`]. *Conditions*: every item is in a bin; no class has more
//! bins than there are. *Objective*: the least sum of the columns' costs.
//!
//! The linear program without whole numbers gives a basis ([`Basis`]); Gomory's corner relaxation of it ([`corner`]) has a bound in
//! whole numbers and, as long as no basic column comes out negative, the optimum. Where one does, bins of the rarest kind are tried
//! one by one. Counts in the thousands cost no more than small ones: only how they lie to each other matters.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::corner::corner;
use super::signed;
use super::simplex::Basis;

/// More ways to fill a bin than this are not listed.
const MOST_COLUMNS: usize = 2_000;
/// Columns that are looked at, over all relaxations, before the search gives up: some tenths of a second.
pub(super) const MOST_WORK: usize = 1_000_000;

/// Bins that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// Size of a bin.
    pub size: usize,
    /// Cost of one that is filled to the last.
    pub full: i64,
    /// Cost of one that holds something and has room left.
    pub part: i64,
    /// How many there are.
    pub limit: Option<usize>,
}

impl Class {
    /// The least that all bins of a limited class can cost.
    fn floor(&self) -> Option<i64> {
        Some(self.full.min(self.part).min(0) * signed(self.limit?))
    }
}

/// One way to fill a bin, or a bin of a limited class that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// Its cost.
    pub cost: i64,
    /// Items of each kind, then 1 for its class if that is limited.
    pub entries: Vec<i64>,
    /// Sizes of its items together.
    used: usize,
}

impl Column {
    fn fits(&self, rest: &[i64]) -> bool {
        self.entries.iter().zip(rest).all(|(entry, rest)| entry <= rest)
    }

    /// How many of it there is enough for.
    fn times(&self, rest: &[i64]) -> i64 {
        let each = self.entries.iter().zip(rest).filter(|(entry, _)| **entry > 0);
        each.map(|(entry, rest)| rest / entry).min().unwrap_or(0)
    }

    /// What it has in these rows.
    fn of_rows(&self, rows: &[usize]) -> Self {
        let entries = rows.iter().map(|row| self.entries[*row]).collect();
        Self { cost: self.cost, entries, used: self.used }
    }

    fn take(&self, times: i64, rest: &mut [i64]) {
        rest.iter_mut().zip(&self.entries).for_each(|(rest, entry)| *rest -= entry * times);
    }
}

/// What is known of the least cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    /// None is less.
    least: i64,
    /// One is so much.
    found: i64,
}

/// A least cost and whether it is one that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    pub least: i64,
    pub exact: bool,
}

/// The columns of a problem and what is known of parts of it.
pub(super) struct Program {
    /// Best first.
    columns: Vec<Column>,
    kinds: usize,
    rest: Vec<i64>,
    /// Nothing costs less.
    floor: i64,
    known: FxHashMap<Vec<i64>, Range>,
    /// Columns that may still be looked at.
    work: usize,
}

impl Program {
    /// The problem of filling bins of these classes with `items` (size, count; sizes differ and none is larger than the bins of the
    /// class without limit). `None` if there are too many ways to fill a bin.
    pub fn new(items: &[(usize, usize)], classes: &[Class]) -> Option<Self> {
        let limited = || classes.iter().filter_map(|class| class.limit);
        let rows = items.len() + limited().count();
        let mut columns = Vec::new();
        let mut row = items.len();
        for class in classes {
            let mut entries = vec![0; rows];
            if class.limit.is_some() {
                entries[row] = 1;
                row += 1;
                columns.push(Column { cost: 0, entries: entries.clone(), used: 0 });
            }
            fill(items, class, &mut entries, 0, 0, &mut columns)?;
        }
        columns.sort_by_cached_key(|column| {
            (column.cost, Reverse(column.used), Reverse(column.entries.clone()))
        });
        let counts = items.iter().map(|(_, count)| *count).chain(limited());
        Some(Self {
            columns,
            kinds: items.len(),
            rest: counts.map(signed).collect(),
            floor: classes.iter().filter_map(Class::floor).sum(),
            known: FxHashMap::default(),
            work: 0,
        })
    }

    /// The least cost, if one of `known` can be had and none is less than `bound`.
    pub fn solve(mut self, bound: i64, known: i64, work: usize) -> Cost {
        self.work = work;
        let rest = std::mem::take(&mut self.rest);
        let range = self.range(&rest);
        let found = range.found.min(known);
        for least in range.least.max(bound)..found {
            match self.within(&rest, least) {
                Some(true) => return Cost { least, exact: true },
                Some(false) => {}
                None => return Cost { least, exact: false },
            }
        }
        Cost { least: found, exact: true }
    }

    /// Whether the rest can be had for `budget`; `None` if the work that is allowed does not tell.
    fn within(&mut self, rest: &[i64], budget: i64) -> Option<bool> {
        let range = self.range(rest);
        if range.found <= budget {
            return Some(true);
        }
        if range.least > budget {
            return Some(false);
        }
        if self.work == 0 {
            return None;
        }
        let kinds = rest[..self.kinds].iter().enumerate().filter(|(_, count)| **count > 0);
        let rarest = kinds.min_by_key(|(_, count)| **count).map(|(kind, _)| kind)?;
        for at in 0..self.columns.len() {
            let column = &self.columns[at];
            if column.entries[rarest] == 0 || !column.fits(rest) {
                continue;
            }
            let (mut less, cost) = (rest.to_vec(), column.cost);
            column.take(1, &mut less);
            if self.within(&less, budget - cost)? {
                return Some(true);
            }
        }
        self.known.insert(rest.to_vec(), Range { least: budget + 1, ..range });
        Some(false)
    }

    /// What greed and the relaxations say of the rest.
    fn range(&mut self, rest: &[i64]) -> Range {
        if let Some(range) = self.known.get(rest) {
            return *range;
        }
        let active: Vec<usize> = (0..rest.len()).filter(|row| rest[*row] > 0).collect();
        let range = if active.iter().all(|row| *row >= self.kinds) {
            // Nothing is left: bins that stay as they are cost nothing.
            Range { least: 0, found: 0 }
        } else {
            let fitting = self.columns.iter().filter(|column| column.fits(rest));
            let columns: Vec<Column> = fitting.map(|column| column.of_rows(&active)).collect();
            let rest: Vec<i64> = active.iter().map(|row| rest[*row]).collect();
            let mut range = Range { least: self.floor, found: greedy(&columns, rest.clone()) };
            if self.work > 0 {
                let relaxed = relax(&columns, &rest, &mut self.work).unwrap_or(range);
                range = Range { least: relaxed.least, found: relaxed.found.min(range.found) };
            }
            range
        };
        self.known.insert(rest.to_vec(), range);
        range
    }
}

/// Lists what a bin of a class can hold beyond `entries`, of kinds from `kind` on.
fn fill(
    items: &[(usize, usize)],
    class: &Class,
    entries: &mut Vec<i64>,
    kind: usize,
    used: usize,
    columns: &mut Vec<Column>,
) -> Option<()> {
    let Some((size, count)) = items.get(kind).copied() else {
        if used > 0 {
            let cost = if used == class.size { class.full } else { class.part };
            columns.push(Column { cost, entries: entries.clone(), used });
        }
        return (columns.len() <= MOST_COLUMNS).then_some(());
    };
    for copies in 0..=count.min((class.size - used) / size) {
        entries[kind] = signed(copies);
        fill(items, class, entries, kind + 1, used + copies * size, columns)?;
    }
    entries[kind] = 0;
    Some(())
}

/// The cost of taking the best columns first, as often as it goes.
fn greedy(columns: &[Column], mut rest: Vec<i64>) -> i64 {
    let mut cost = 0;
    for column in columns.iter().filter(|column| column.used > 0) {
        let times = column.times(&rest);
        column.take(times, &mut rest);
        cost += times * column.cost;
    }
    cost
}

/// Bounds from the linear program and its corner; `None` if numbers grow too large.
fn relax(columns: &[Column], rest: &[i64], work: &mut usize) -> Option<Range> {
    let basis = Basis::optimal(columns, rest, work)?;
    let mut range = Range { least: basis.bound(columns, rest)?, found: i64::MAX };
    // Whole parts of the basic columns, what is left by greed.
    let (mut left, mut cost) = (rest.to_vec(), 0);
    for (column, times) in basis.columns.iter().zip(basis.values(rest)?) {
        let times = i64::try_from(times.div_euclid(basis.scale)).ok()?;
        columns[*column].take(times, &mut left);
        cost += times * columns[*column].cost;
    }
    range.found = cost + greedy(columns, left);
    if range.least < range.found
        && let Some(corner) = corner(columns, &basis, rest, work)
    {
        range.least = range.least.max(corner.cost);
        if corner.feasible {
            range.found = range.found.min(corner.cost);
        }
    }
    Some(range)
}
