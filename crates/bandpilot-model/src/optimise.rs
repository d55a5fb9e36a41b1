//! A thin face over argmin: smooth minimisation from a start, never worse than the start.

use argmin::core::{CostFunction, Error, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::neldermead::NelderMead;
use argmin::solver::quasinewton::LBFGS;

/// A function to minimise together with its gradient.
pub(crate) trait Smooth {
    /// Value at `at`; infinite where it is not defined.
    fn value(&self, at: &[f64]) -> f64;
    /// Gradient at `at`.
    fn gradient(&self, at: &[f64]) -> Vec<f64>;
}

struct Adapter<'a, T>(&'a T);

impl<T: Smooth> CostFunction for Adapter<'_, T> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.0.value(at))
    }
}

impl<T: Smooth> Gradient for Adapter<'_, T> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, at: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.0.gradient(at))
    }
}

struct Plain<F>(F);

impl<F: Fn(&[f64]) -> f64> CostFunction for Plain<F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, at: &Vec<f64>) -> Result<f64, Error> {
        Ok((self.0)(at))
    }
}

/// Limited-memory BFGS; the start itself if the line search fails at once.
pub(crate) fn minimise_smooth(problem: &impl Smooth, start: Vec<f64>, iterations: u64) -> Vec<f64> {
    let before = problem.value(&start);
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), 8);
    let run = Executor::new(Adapter(problem), solver)
        .configure(|state| state.param(start.clone()).max_iters(iterations))
        .run();
    better(run.ok().and_then(|r| r.state().get_best_param().cloned()), start, before, |at| {
        problem.value(at)
    })
}

/// Nelder-Mead from `start` with the given edge length.
pub(crate) fn minimise_plain(
    problem: impl Fn(&[f64]) -> f64,
    start: Vec<f64>,
    edge: f64,
    iterations: u64,
) -> Vec<f64> {
    let before = problem(&start);
    let simplex: Vec<Vec<f64>> = (0..=start.len())
        .map(|corner| {
            let mut point = start.clone();
            if corner > 0 {
                point[corner - 1] += edge;
            }
            point
        })
        .collect();
    let Ok(solver) = NelderMead::new(simplex).with_sd_tolerance(1e-9) else { return start };
    let run =
        Executor::new(Plain(&problem), solver).configure(|state| state.max_iters(iterations)).run();
    better(run.ok().and_then(|r| r.state().get_best_param().cloned()), start, before, problem)
}

fn better(
    found: Option<Vec<f64>>,
    start: Vec<f64>,
    before: f64,
    value: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    match found {
        Some(at) if at.iter().all(|x| x.is_finite()) && value(&at) < before => at,
        _ => start,
    }
}
