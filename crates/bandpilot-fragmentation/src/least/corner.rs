//! Gomory's corner relaxation: whole numbers of all columns, but the basic ones may come out negative.
//!
//! Whether the basic columns come out whole depends only on the others, modulo the determinant of the basis. So the cheapest others are
//! a shortest path in a finite group.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::program::Column;
use super::simplex::Basis;

/// Steps of the path that are tried before it gives up.
const MOST_STEPS: usize = 100_000;

/// The optimum of the relaxation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Corner {
    /// Its cost: none is less in the problem itself.
    pub cost: i64,
    /// No basic column comes out negative: it is the optimum of the problem itself.
    pub feasible: bool,
}

/// An element of the group: a vector of rows in terms of the basis, modulo whole numbers, times the scale.
type Element = Vec<i128>;

/// A step of the path: a column that is not basic.
struct Step {
    column: usize,
    cost: i128,
    element: Element,
}

/// The relaxation for an optimal basis; `None` if it is too much work.
pub(super) fn corner(
    columns: &[Column],
    basis: &Basis,
    rest: &[i64],
    work: &mut usize,
) -> Option<Corner> {
    let target = element(basis, rest)?;
    let taken = shortest_path(&steps(columns, basis)?, &target, basis.scale, work)?;
    let mut left = rest.to_vec();
    let mut cost = 0;
    for column in taken {
        left.iter_mut().zip(&columns[column].entries).for_each(|(left, entry)| *left -= entry);
        cost += columns[column].cost;
    }
    let values = basis.values(&left)?;
    for (column, value) in basis.columns.iter().zip(&values) {
        cost += i64::try_from(value / basis.scale).ok()?.checked_mul(columns[*column].cost)?;
    }
    Some(Corner { cost, feasible: values.iter().all(|value| *value >= 0) })
}

fn element(basis: &Basis, vector: &[i64]) -> Option<Element> {
    let values = basis.values(vector)?;
    Some(values.into_iter().map(|value| value.rem_euclid(basis.scale)).collect())
}

/// The cheapest column for each element of the group but its zero.
fn steps(columns: &[Column], basis: &Basis) -> Option<Vec<Step>> {
    let prices = basis.prices(columns)?;
    let mut steps: Vec<Step> = Vec::new();
    let mut at: FxHashMap<Element, usize> = FxHashMap::default();
    for (column, entries) in columns.iter().enumerate() {
        let element = element(basis, &entries.entries)?;
        if element.iter().all(|value| *value == 0) {
            continue;
        }
        let cost = basis.reduced_cost(entries, &prices)?;
        match at.get(&element) {
            Some(known) if steps[*known].cost <= cost => {}
            Some(known) => steps[*known] = Step { column, cost, element },
            None => {
                at.insert(element.clone(), steps.len());
                steps.push(Step { column, cost, element });
            }
        }
    }
    Some(steps)
}

/// The columns on a path from zero to the target of least cost; among equals one of few steps.
fn shortest_path(
    steps: &[Step],
    target: &Element,
    scale: i128,
    work: &mut usize,
) -> Option<Vec<usize>> {
    let zero = vec![0; target.len()];
    let mut best: FxHashMap<Element, (i128, usize, Option<usize>)> = FxHashMap::default();
    let mut queue = BinaryHeap::from([Reverse((0_i128, 0_usize, zero.clone()))]);
    best.insert(zero, (0, 0, None));
    let stop = work.saturating_sub(MOST_STEPS);
    while let Some(Reverse((cost, length, element))) = queue.pop() {
        if element == *target {
            return Some(way_back(steps, &best, element, scale));
        }
        if best.get(&element).is_some_and(|known| (known.0, known.1) < (cost, length)) {
            continue;
        }
        *work = work.saturating_sub(steps.len());
        if *work <= stop {
            return None;
        }
        for (at, step) in steps.iter().enumerate() {
            let next = element.iter().zip(&step.element).map(|(a, b)| (a + b) % scale);
            let next: Element = next.collect();
            let reached = (cost + step.cost, length + 1);
            if best.get(&next).is_none_or(|known| reached < (known.0, known.1)) {
                best.insert(next.clone(), (reached.0, reached.1, Some(at)));
                queue.push(Reverse((reached.0, reached.1, next)));
            }
        }
    }
    None
}

fn way_back(
    steps: &[Step],
    best: &FxHashMap<Element, (i128, usize, Option<usize>)>,
    mut element: Element,
    scale: i128,
) -> Vec<usize> {
    let mut taken = Vec::new();
    while let Some((_, _, Some(at))) = best.get(&element) {
        taken.push(steps[*at].column);
        let before = element.iter().zip(&steps[*at].element);
        element = before.map(|(a, b)| (a - b).rem_euclid(scale)).collect();
    }
    taken
}
