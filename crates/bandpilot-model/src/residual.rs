//! The learned correction of the closed form: a Gaussian process on the logarithm of measured / closed form.
//!
//! It looks at a set as (number of hosts, rails of the weakest host, which share sizes occur, message
//! size), not at every single count: on the published H100 tables these explain all but 0.6 % of the
//! spread at 2 GiB, and they take few enough values that a search can bound the correction exactly.
//! The kernel is a product of exponentials of path distances (hence positive definite) with one
//! additive part, which lets losses caused by two share sizes add up for a combination never seen.
//! Hyperparameters are the maximum a posteriori under a log-normal prior; readings that their peers
//! contradict get a larger noise instead of a vote.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

use crate::optimise::{Smooth, minimise_smooth};

/// What the correction looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Features {
    /// Number of hosts, at least 2.
    pub hosts: u32,
    /// Rails of the host with the least injection bandwidth.
    pub rails: u8,
    /// Share sizes that occur, in eighths of a host (bit 0: one eighth).
    pub levels: u8,
    /// Message size in bytes.
    pub bytes: u64,
}

/// Above this many hosts the correction no longer changes with their number.
pub const MOST_HOSTS_TOLD_APART: u32 = 16;

/// Logarithms of the kernel's parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Hyperparameters(pub [f64; PARAMETERS]);

const PARAMETERS: usize = 12;
const TWO_HOSTS: usize = 0;
const HOSTS: usize = 1;
const RAILS: usize = 2;
const SMOOTH_VARIANCE: usize = 3;
const LEVELS_VARIANCE: usize = 4;
const LEVELS_RATE: usize = 5;
const LARGEST_VARIANCE: usize = 6;
const LARGEST_RATE: usize = 7;
const ADDITIVE_VARIANCE: usize = 8;
const SIZE: usize = 9;
const NOISE_LARGE: usize = 10;
const NOISE_SMALL: usize = 11;

/// Messages below this size are latency-bound and noisier (repeat noise 2.1 % at 16 MiB, 0.5 % at 2 GiB).
const SMALL_MESSAGE_BYTES: u64 = 256 << 20;
/// A correction beyond a factor of 400 says that the closed form does not apply at all.
const MOST_LOG_RATIO: f64 = 6.0;
const PRIOR_WEIGHT: f64 = 0.1;
const JITTER: f64 = 1e-6;
const MOST_POINTS_FOR_HYPERPARAMETERS: usize = 160;
const ROUNDS_AGAINST_OUTLIERS: usize = 3;

impl Default for Hyperparameters {
    fn default() -> Self {
        Self(
            [2.0, 0.5, 1.0, 0.003, 0.01, 0.3, 0.01, 0.2, 0.01, 0.3, 0.004, 0.05]
                .map(|value: f64| value.ln()),
        )
    }
}

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// The set.
    pub features: Features,
    /// Natural logarithm of measured / closed form.
    pub log_ratio: f64,
}

/// A fitted correction.
#[derive(Debug, Clone, PartialEq)]
pub struct Residual {
    /// Kernel parameters.
    pub hyperparameters: Hyperparameters,
    /// The sets that it was fitted on.
    pub points: Vec<Features>,
    /// One weight a point: the correction is the weighted sum of kernels.
    pub weights: Vec<f64>,
}

/// The kernel with its exponentials taken.
struct Kernel {
    p: [f64; PARAMETERS],
}

impl Kernel {
    fn new(hyperparameters: &[f64]) -> Self {
        let mut p = [0.0; PARAMETERS];
        for (value, log) in p.iter_mut().zip(hyperparameters) {
            *value = log.clamp(-20.0, 8.0).exp();
        }
        Self { p }
    }

    fn regime(&self, a: &Features, b: &Features) -> f64 {
        let two_apart = f64::from(u8::from((a.hosts == 2) != (b.hosts == 2)));
        let along = |hosts: u32| f64::from(hosts.clamp(3, MOST_HOSTS_TOLD_APART)).ln();
        let size = ((a.bytes.max(1) as f64).log2() - (b.bytes.max(1) as f64).log2()).abs();
        (-two_apart * self.p[TWO_HOSTS]
            - (along(a.hosts) - along(b.hosts)).abs() * self.p[HOSTS]
            - size * self.p[SIZE])
            .exp()
    }

    fn of(&self, a: &Features, b: &Features) -> f64 {
        let rails = f64::from(a.rails.abs_diff(b.rails)) * self.p[RAILS];
        let (others_a, others_b) = (others(a.levels), others(b.levels));
        let apart = f64::from((others_a ^ others_b).count_ones());
        let common = f64::from((others_a & others_b).count_ones());
        let largest = f64::from(largest(a.levels).abs_diff(largest(b.levels)));
        self.regime(a, b)
            * (self.p[SMOOTH_VARIANCE] * (-0.3 * rails).exp()
                + (-rails).exp()
                    * (self.p[LEVELS_VARIANCE] * (-apart * self.p[LEVELS_RATE]).exp()
                        + self.p[LARGEST_VARIANCE] * (-largest * self.p[LARGEST_RATE]).exp()
                        + self.p[ADDITIVE_VARIANCE] * common))
    }

    fn noise_variance(&self, bytes: u64) -> f64 {
        let at = if bytes < SMALL_MESSAGE_BYTES { NOISE_SMALL } else { NOISE_LARGE };
        self.p[at] * self.p[at]
    }
}

/// The levels without the least one, which `rails` already tells.
fn others(levels: u8) -> u8 {
    levels & levels.wrapping_sub(1)
}

fn largest(levels: u8) -> u32 {
    levels.checked_ilog2().unwrap_or(0)
}

/// Negative log posterior of the hyperparameters.
struct Evidence<'a> {
    points: &'a [Observation],
    noise_factor: &'a [f64],
}

impl Evidence<'_> {
    fn factorise(&self, at: &[f64]) -> Option<(Cholesky<f64, Dyn>, DVector<f64>)> {
        let factor = Cholesky::new(covariance(self.points, self.noise_factor, at))?;
        let y = DVector::from_iterator(
            self.points.len(),
            self.points.iter().map(|point| point.log_ratio),
        );
        let weights = factor.solve(&y);
        Some((factor, weights))
    }
}

impl Smooth for Evidence<'_> {
    fn value(&self, at: &[f64]) -> f64 {
        let Some((factor, weights)) = self.factorise(at) else { return f64::INFINITY };
        let fit: f64 =
            self.points.iter().zip(weights.iter()).map(|(point, w)| point.log_ratio * w).sum();
        let log_det: f64 = factor.l_dirty().diagonal().iter().map(|d| d.ln()).sum();
        0.5 * fit + log_det + PRIOR_WEIGHT * prior_distance(at)
    }

    fn gradient(&self, at: &[f64]) -> Vec<f64> {
        let Some((factor, weights)) = self.factorise(at) else { return vec![0.0; at.len()] };
        // d/dt = 1/2 tr((K^-1 - w w^T) dK/dt); dK/dt by a forward difference of the cheap kernel.
        let mut inner = factor.inverse();
        inner.ger(-1.0, &weights, &weights, 1.0);
        let centre = Hyperparameters::default();
        let base = covariance(self.points, self.noise_factor, at);
        let step = 1e-5;
        (0..at.len())
            .map(|parameter| {
                let mut moved = at.to_vec();
                moved[parameter] += step;
                let change = covariance(self.points, self.noise_factor, &moved) - &base;
                let trace = inner.dot(&change) / step;
                0.5 * trace + 2.0 * PRIOR_WEIGHT * (at[parameter] - centre.0[parameter])
            })
            .collect()
    }
}

fn prior_distance(at: &[f64]) -> f64 {
    at.iter().zip(Hyperparameters::default().0).map(|(a, c)| (a - c) * (a - c)).sum()
}

fn covariance(points: &[Observation], noise_factor: &[f64], at: &[f64]) -> DMatrix<f64> {
    let kernel = Kernel::new(at);
    let mut matrix = DMatrix::zeros(points.len(), points.len());
    for (i, a) in points.iter().enumerate() {
        for (j, b) in points.iter().enumerate().take(i + 1) {
            let value = kernel.of(&a.features, &b.features);
            matrix[(i, j)] = value;
            matrix[(j, i)] = value;
        }
        matrix[(i, i)] += kernel.noise_variance(a.features.bytes) * noise_factor[i] + JITTER;
    }
    matrix
}

impl Residual {
    /// No correction.
    pub fn none() -> Self {
        Self {
            hyperparameters: Hyperparameters::default(),
            points: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Fits hyperparameters and weights; also returns each point's noise factor (above 1 where its peers contradict it).
    pub fn fit(points: &[Observation]) -> (Self, Vec<f64>) {
        if points.is_empty() {
            return (Self::none(), Vec::new());
        }
        let mut at = Hyperparameters::default().0.to_vec();
        let stride = points.len().div_ceil(MOST_POINTS_FOR_HYPERPARAMETERS).max(1);
        let sample: Vec<Observation> = points.iter().step_by(stride).copied().collect();
        let mut sample_noise = vec![1.0; sample.len()];
        for _ in 0..ROUNDS_AGAINST_OUTLIERS {
            at =
                minimise_smooth(&Evidence { points: &sample, noise_factor: &sample_noise }, at, 40);
            sample_noise = contradicted(&sample, &sample_noise, &at);
        }
        let mut fixed = [0.0; PARAMETERS];
        fixed.copy_from_slice(&at);
        let mut noise_factor = vec![1.0; points.len()];
        for _ in 0..ROUNDS_AGAINST_OUTLIERS {
            noise_factor = contradicted(points, &noise_factor, &at);
        }
        (Self::with(points, &noise_factor, &Hyperparameters(fixed)), noise_factor)
    }

    /// Fits the weights only, with noise factors (one a point) and hyperparameters of an earlier fit.
    pub fn with(
        points: &[Observation],
        noise_factor: &[f64],
        hyperparameters: &Hyperparameters,
    ) -> Self {
        let at = &hyperparameters.0;
        let weights = (Evidence { points, noise_factor })
            .factorise(at)
            .map_or_else(|| vec![0.0; points.len()], |(_, w)| w.iter().copied().collect());
        Self {
            hyperparameters: hyperparameters.clone(),
            points: points.iter().map(|point| point.features).collect(),
            weights,
        }
    }

    /// Natural logarithm of the factor by which the closed form is to be multiplied.
    pub fn log_ratio(&self, features: &Features) -> f64 {
        let kernel = Kernel::new(&self.hyperparameters.0);
        let sum: f64 = self
            .points
            .iter()
            .zip(&self.weights)
            .map(|(point, weight)| weight * kernel.of(features, point))
            .sum();
        sum.clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO)
    }

    /// The log factors of all 256 combinations of levels for one number of hosts, rails and size.
    pub fn slab(&self, hosts: u32, rails: u8, bytes: u64) -> Box<[f64; 256]> {
        let kernel = Kernel::new(&self.hyperparameters.0);
        let p = &kernel.p;
        let table = |rate: f64, scale: f64| -> [f64; 9] {
            std::array::from_fn(|distance| scale * (-(distance as f64) * rate).exp())
        };
        let by_apart = table(p[LEVELS_RATE], p[LEVELS_VARIANCE]);
        let by_largest = table(p[LARGEST_RATE], p[LARGEST_VARIANCE]);
        let mut smooth = 0.0;
        let mut slab = Box::new([0.0; 256]);
        let here = Features { hosts, rails, levels: 0, bytes };
        for (point, weight) in self.points.iter().zip(&self.weights) {
            let distance = f64::from(rails.abs_diff(point.rails)) * p[RAILS];
            let regime = weight * kernel.regime(&here, point);
            smooth += regime * p[SMOOTH_VARIANCE] * (-0.3 * distance).exp();
            let near = regime * (-distance).exp();
            let (other, top) = (others(point.levels), largest(point.levels));
            for (levels, sum) in slab.iter_mut().enumerate() {
                let levels = levels as u8;
                let mine = others(levels);
                *sum += near
                    * (by_apart[(mine ^ other).count_ones() as usize]
                        + by_largest[largest(levels).abs_diff(top) as usize]
                        + p[ADDITIVE_VARIANCE] * f64::from((mine & other).count_ones()));
            }
        }
        for sum in slab.iter_mut() {
            *sum = (*sum + smooth).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO);
        }
        slab
    }
}

/// Noise factors after looking at how well each point is foretold by all others: a point beyond three
/// variances of its leave-one-out prediction loses its vote quickly.
fn contradicted(points: &[Observation], noise: &[f64], at: &[f64]) -> Vec<f64> {
    let evidence = Evidence { points, noise_factor: noise };
    let Some((factor, weights)) = evidence.factorise(at) else { return noise.to_vec() };
    let inverse = factor.inverse();
    (0..points.len())
        .map(|i| {
            let variance = 1.0 / inverse[(i, i)];
            let miss = weights[i] * variance;
            (miss * miss / variance / 3.0).max(1.0).powi(2)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(hosts: u32, rails: u8, levels: u8, log_ratio: f64) -> Observation {
        Observation { features: Features { hosts, rails, levels, bytes: 2 << 30 }, log_ratio }
    }

    #[test]
    fn slab_equals_single_predictions() {
        let points =
            [point(2, 3, 0b1100, 0.1), point(3, 3, 0b10100, -0.2), point(4, 1, 0b1001, 0.05)];
        let (fitted, _) = Residual::fit(&points);
        for (hosts, rails) in [(2, 3), (3, 2), (40, 8)] {
            let slab = fitted.slab(hosts, rails, 1 << 24);
            for levels in 1..=255_u8 {
                let one = fitted.log_ratio(&Features { hosts, rails, levels, bytes: 1 << 24 });
                assert!((slab[levels as usize] - one).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn adds_losses_and_forgets_a_contradicted_reading() {
        let mut points =
            vec![point(4, 3, 0b100, 0.0), point(4, 3, 0b1100, -0.15), point(4, 3, 0b1_0100, -0.15)];
        let (fitted, _) = Residual::fit(&points);
        let both = Features { hosts: 4, rails: 3, levels: 0b1_1100, bytes: 2 << 30 };
        assert!(fitted.log_ratio(&both) < -0.17, "{}", fitted.log_ratio(&both));
        points.extend((0..6).map(|i| point(4, 1, 1 << (i + 1) | 1, 0.001 * f64::from(i))));
        points.push(point(4, 1, 0b100_0011, -1.0));
        let (fitted, _) = Residual::fit(&points);
        let near = Features { hosts: 4, rails: 1, levels: 0b1001_0001, bytes: 2 << 30 };
        assert!(fitted.log_ratio(&near).abs() < 0.15, "{}", fitted.log_ratio(&near));
    }
}
