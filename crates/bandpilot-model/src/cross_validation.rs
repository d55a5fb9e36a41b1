//! How far off predictions of sets that the model has not seen are.
//!
//! Sets are dealt to folds by their shares, so all message sizes of a set are held out together. For each
//! fold the constants and the correction's weights are fitted on the rest; the kernel's
//! hyperparameters and the noise factors are those of the fit on everything.

use std::collections::BTreeMap;

use crate::fit::{CrossObservation, Stage, calibrate, residual_points};
use crate::model::CrossShare;
use crate::residual::{Hyperparameters, Residual};

/// Relative errors of a group of held-out sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Number of held-out sets.
    pub sets: usize,
    /// Mean absolute relative error.
    pub mean: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// Result of a cross-validation.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossValidation {
    /// Number of folds.
    pub folds: usize,
    /// Over all held-out sets.
    pub overall: Errors,
    /// By number of hosts, evenness and message size; group names are for people.
    pub groups: Vec<(String, Errors)>,
}

/// The `share` quantile (0..=1) by linear interpolation; 0 for nothing. Sorts its argument.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let at = share.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let high = at.ceil() as usize;
    values[low] + (values[high] - values[low]) * (at - low as f64)
}

impl Errors {
    fn of(mut errors: Vec<f64>) -> Self {
        let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        Self {
            sets: errors.len(),
            mean,
            median: quantile(&mut errors, 0.5),
            p90: quantile(&mut errors, 0.9),
        }
    }
}

/// Cross-validates; `None` with fewer than two folds or fewer than 20 distinct sets.
pub(crate) fn run(
    observations: &[CrossObservation],
    hyperparameters: &Hyperparameters,
    noise: &[f64],
    folds: usize,
    progress: &mut dyn FnMut(Stage),
) -> Option<CrossValidation> {
    let mut fold_of: BTreeMap<&[CrossShare], usize> = BTreeMap::new();
    for seen in observations {
        let next = fold_of.len();
        // Neighbours in sorted order are alike; dealing them round robin keeps every fold mixed.
        fold_of.entry(&seen.entry.shares).or_insert(next % folds.max(1));
    }
    if folds < 2 || fold_of.len() < 20 {
        return None;
    }
    let mut noise_of = vec![1.0; observations.len()];
    let network = observations.iter().enumerate().filter(|(_, seen)| !seen.local_decides);
    for ((index, _), factor) in network.zip(noise) {
        noise_of[index] = *factor;
    }
    let mut errors: Vec<(usize, f64)> = Vec::with_capacity(observations.len());
    for fold in 0..folds {
        progress(Stage::CrossValidate(fold + 1, folds));
        let held_out = |seen: &CrossObservation| fold_of[seen.entry.shares.as_slice()] == fold;
        let kept: Vec<CrossObservation> =
            observations.iter().filter(|seen| !held_out(seen)).cloned().collect();
        let kept_noise: Vec<f64> = observations
            .iter()
            .zip(&noise_of)
            .filter(|(seen, _)| !held_out(seen) && !seen.local_decides)
            .map(|(_, factor)| *factor)
            .collect();
        let physics = calibrate(&kept);
        let residual =
            Residual::with(&residual_points(&kept, &physics), &kept_noise, hyperparameters);
        for (index, seen) in observations.iter().enumerate().filter(|(_, seen)| held_out(seen)) {
            let predicted = (physics.busbw(&seen.input) * residual.log_ratio(&seen.features).exp())
                .min(seen.local_cap);
            errors.push((index, (predicted / seen.entry.busbw_gbytes_per_s - 1.0).abs()));
        }
    }
    Some(summarise(observations, &errors, folds))
}

fn summarise(
    observations: &[CrossObservation],
    errors: &[(usize, f64)],
    folds: usize,
) -> CrossValidation {
    let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (index, error) in errors {
        let seen = &observations[*index];
        let first = seen.entry.shares.first().map(|share| share.count);
        let even = seen.entry.shares.iter().all(|share| Some(share.count) == first);
        let evenness = if even { "even" } else { "uneven" };
        let hosts = seen.features.hosts;
        let coarse = if hosts == 2 { "2 hosts" } else { "3+ hosts" };
        for name in [
            format!("{hosts} hosts"),
            evenness.to_owned(),
            format!("{coarse}, {evenness}"),
            format!("message {}", bandpilot_core::format_bytes(seen.entry.bytes)),
        ] {
            groups.entry(name).or_default().push(*error);
        }
    }
    CrossValidation {
        folds,
        overall: Errors::of(errors.iter().map(|(_, error)| *error).collect()),
        groups: groups.into_iter().map(|(name, errors)| (name, Errors::of(errors))).collect(),
    }
}
