//! The simplex method in whole numbers.

use super::program::Column;

/// Steps after which ties are broken so that no basis comes again (Bland's rule).
const STEPS_BY_GAIN: usize = 200;
/// Steps after which it gives up.
const MOST_STEPS: usize = 2_000;

/// A basis of the linear program, with its inverse.
#[derive(Debug)]
pub(super) struct Basis {
    /// The basic columns, one for each row.
    pub columns: Vec<usize>,
    /// The inverse times `scale`: whole numbers.
    pub inverse: Vec<Vec<i128>>,
    /// The determinant; above 0.
    pub scale: i128,
}

/// `a * b - c * d`.
fn cross(a: i128, b: i128, c: i128, d: i128) -> Option<i128> {
    a.checked_mul(b)?.checked_sub(c.checked_mul(d)?)
}

fn dot(row: &[i128], entries: &[i64]) -> Option<i128> {
    row.iter().zip(entries).try_fold(0_i128, |sum, (a, b)| {
        if *b == 0 { Some(sum) } else { sum.checked_add(a.checked_mul(i128::from(*b))?) }
    })
}

/// A column that lowers the cost: the one that does most, or the first.
fn entering(reduced_costs: &[i128], by_gain: bool) -> Option<usize> {
    let mut lowering = reduced_costs.iter().enumerate().filter(|(_, cost)| **cost < 0);
    let chosen = if by_gain { lowering.min_by_key(|(_, cost)| **cost) } else { lowering.next() };
    chosen.map(|(at, _)| at)
}

impl Basis {
    /// An optimal basis for what is asked of each row. Every row has a column that is 1 there and 0 elsewhere. `None` if numbers
    /// grow too large.
    pub fn optimal(columns: &[Column], rest: &[i64], work: &mut usize) -> Option<Self> {
        let mut basis = Self::unit(columns, rest.len())?;
        for step in 0..MOST_STEPS {
            *work = work.saturating_sub(columns.len());
            let prices = basis.prices(columns)?;
            let costs = columns.iter().map(|column| basis.reduced_cost(column, &prices));
            let costs = costs.collect::<Option<Vec<_>>>()?;
            let Some(entering) = entering(&costs, step < STEPS_BY_GAIN) else {
                return Some(basis);
            };
            basis.pivot(entering, &columns[entering].entries, rest)?;
        }
        None
    }

    fn unit(columns: &[Column], rows: usize) -> Option<Self> {
        let single = |row: usize| {
            columns.iter().position(|column| {
                column.entries[row] == 1 && column.entries.iter().sum::<i64>() == 1
            })
        };
        let basic = (0..rows).map(single).collect::<Option<_>>()?;
        let inverse = (0..rows).map(|row| (0..rows).map(|at| i128::from(at == row)).collect());
        Some(Self { columns: basic, inverse: inverse.collect(), scale: 1 })
    }

    /// What one more of each row costs, times the scale.
    pub fn prices(&self, columns: &[Column]) -> Option<Vec<i128>> {
        let mut prices = vec![0_i128; self.columns.len()];
        for (basic, row) in self.columns.iter().zip(&self.inverse) {
            let cost = i128::from(columns[*basic].cost);
            for (price, entry) in prices.iter_mut().zip(row) {
                *price = price.checked_add(cost.checked_mul(*entry)?)?;
            }
        }
        Some(prices)
    }

    /// What a column costs beyond what it saves, times the scale.
    pub fn reduced_cost(&self, column: &Column, prices: &[i128]) -> Option<i128> {
        i128::from(column.cost).checked_mul(self.scale)?.checked_sub(dot(prices, &column.entries)?)
    }

    /// A vector of rows in terms of the basis, times the scale.
    pub fn values(&self, vector: &[i64]) -> Option<Vec<i128>> {
        self.inverse.iter().map(|row| dot(row, vector)).collect()
    }

    /// The cost of the linear program, rounded up.
    pub fn bound(&self, columns: &[Column], rest: &[i64]) -> Option<i64> {
        let cost = dot(&self.prices(columns)?, rest)?;
        i64::try_from(-(-cost).div_euclid(self.scale)).ok()
    }

    /// Exchanges the column that is used up first (Edmonds' pivot: every division leaves no rest).
    fn pivot(&mut self, entering: usize, entries: &[i64], rest: &[i64]) -> Option<()> {
        let (step, values) = (self.values(entries)?, self.values(rest)?);
        let mut leaving: Option<usize> = None;
        for row in (0..step.len()).filter(|row| step[*row] > 0) {
            let earlier = match leaving {
                None => true,
                Some(best) => match cross(values[row], step[best], values[best], step[row])? {
                    0 => self.columns[row] < self.columns[best],
                    difference => difference < 0,
                },
            };
            if earlier {
                leaving = Some(row);
            }
        }
        // No row limits the column: costs would fall without end, which columns that fill bins never do.
        let leaving = leaving?;
        let pivot_row = self.inverse[leaving].clone();
        for (row, factor) in step.iter().enumerate().filter(|(row, _)| *row != leaving) {
            for (entry, pivot) in self.inverse[row].iter_mut().zip(&pivot_row) {
                *entry = cross(step[leaving], *entry, *factor, *pivot)? / self.scale;
            }
        }
        self.scale = step[leaving];
        self.columns[leaving] = entering;
        Some(())
    }
}
