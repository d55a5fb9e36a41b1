//! From measurements to a model.

use std::collections::BTreeMap;

use bandpilot_core::{Cluster, Collective, GpuMask, HostId, Links, Measurement, Placement};

use crate::cross_validation::{self, CrossValidation};
use crate::model::{BandwidthModel, CrossEntry, CrossShare, ErrorBands, LocalEntry};
use crate::optimise::minimise_plain;
use crate::physics::{CrossInput, CrossPhysics};
use crate::predictor::Predictor;
use crate::residual::{Features, Observation, Residual};
use crate::share::{Aggregate, Share};

/// What to fit and how.
#[derive(Debug, Clone, PartialEq)]
pub struct FitOptions {
    /// The collective.
    pub collective: Collective,
    /// For people: goes into the model.
    pub description: String,
    /// Folds of the cross-validation; 0 skips it (the bands then stay those of the closed form).
    pub folds: usize,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { collective: Collective::AllReduce, description: String::new(), folds: 5 }
    }
}

/// Why a model cannot be fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// Measurements name hosts or GPUs that the cluster lacks.
    #[error(
        "no measurement fits: {unknown} of them name hosts or GPUs that the cluster lacks{}, {other} are of another collective",
        if first.is_empty() { String::new() } else { format!(" (first: {first})") }
    )]
    NothingFits {
        /// How many name something unknown.
        unknown: usize,
        /// How many are of another collective.
        other: usize,
        /// The first unknown name.
        first: String,
    },
}

/// What happened during a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct FitReport {
    /// Readings used.
    pub used: usize,
    /// Readings of another collective, left out.
    pub other_collective: usize,
    /// Readings with hosts or GPUs that the cluster lacks, left out; and the first such name.
    pub unknown: usize,
    /// The first unknown name, if any.
    pub first_unknown: Option<String>,
    /// Cross-host readings without a message size, left out.
    pub without_size: usize,
    /// Distinct subsets inside hosts.
    pub local_sets: usize,
    /// Distinct cross-host sets (size counts).
    pub cross_sets: usize,
    /// Cross-host sets whose reading their peers contradict.
    pub contradicted: usize,
    /// Cross-validated errors; `None` if skipped or there was too little to hold out.
    pub cross_validation: Option<CrossValidation>,
}

/// A step of a fit, for progress displays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Constants of the closed form.
    Calibrate,
    /// The Gaussian process.
    Correct,
    /// This fold of that many.
    CrossValidate(usize, usize),
}

/// A cross-host observation ready for calibration and correction.
#[derive(Debug, Clone)]
pub(crate) struct CrossObservation {
    pub(crate) entry: CrossEntry,
    pub(crate) input: CrossInput,
    pub(crate) features: Features,
    /// The local links of a PCIe or mesh host decide, so that the reading says nothing of the network.
    pub(crate) local_decides: bool,
    /// Least local bandwidth of a share, GB/s.
    pub(crate) local_cap: f64,
}

/// Fits a model.
///
/// # Errors
/// If there are measurements but none fits the cluster and the collective.
pub fn fit(
    cluster: &Cluster,
    measurements: &[Measurement],
    options: &FitOptions,
    progress: &mut dyn FnMut(Stage),
) -> Result<(BandwidthModel, FitReport), FitError> {
    let sorted = sort_measurements(cluster, measurements, options.collective)?;
    let mut report = sorted.report;
    let mut model = BandwidthModel {
        description: options.description.clone(),
        collective: options.collective,
        local: sorted.local,
        cross: sorted.cross,
        ..BandwidthModel::closed_form()
    };
    let observations = thinned(observe(&model, cluster));
    progress(Stage::Calibrate);
    model.physics = calibrate(&observations);
    progress(Stage::Correct);
    let points = residual_points(&observations, &model.physics);
    let (residual, noise) = Residual::fit(&points);
    model.residual = residual;
    report.contradicted = noise.iter().filter(|&&factor| factor > CONTRADICTED).count();
    report.cross_validation = cross_validation::run(
        &observations,
        &model.residual.hyperparameters,
        &noise,
        options.folds,
        progress,
    );
    let repeats = repeat_noise(cluster, measurements, options.collective);
    model.bands = bands(report.cross_validation.as_ref(), repeats);
    Ok((model, report))
}

/// Noise factor of a reading three standard deviations off what all others foretell.
const CONTRADICTED: f64 = 9.0;

struct Sorted {
    local: Vec<LocalEntry>,
    cross: Vec<CrossEntry>,
    report: FitReport,
}

/// Running mean.
#[derive(Default, Clone, Copy)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn value(self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }
}

/// The measurement's placement in this cluster, or the first name that it lacks.
pub(crate) fn locate(cluster: &Cluster, measurement: &Measurement) -> Result<Placement, String> {
    let mut shares = Vec::with_capacity(measurement.placement.len());
    for (name, mask) in &measurement.placement {
        let host = cluster.find_host(name).ok_or_else(|| name.clone())?;
        if !mask.is_subset_of(GpuMask::first(cluster.type_of(host).gpus)) {
            return Err(format!("{name}:{mask}"));
        }
        shares.push((host, *mask));
    }
    Ok(Placement::new(shares))
}

fn sort_measurements(
    cluster: &Cluster,
    measurements: &[Measurement],
    collective: Collective,
) -> Result<Sorted, FitError> {
    let mut local: BTreeMap<(HostId, GpuMask, Option<u64>), Mean> = BTreeMap::new();
    let mut cross: BTreeMap<(Vec<CrossShare>, u64), Mean> = BTreeMap::new();
    let (mut other, mut unknown, mut without_size) = (0, 0, 0);
    let mut first = None;
    for measurement in measurements {
        if measurement.collective != collective {
            other += 1;
            continue;
        }
        let placement = match locate(cluster, measurement) {
            Ok(placement) => placement,
            Err(name) => {
                unknown += 1;
                first.get_or_insert(name);
                continue;
            }
        };
        match (placement.shares(), measurement.bytes) {
            ([(host, mask)], bytes) if mask.count() > 1 => {
                local.entry((*host, *mask, bytes)).or_default().add(measurement.busbw_gbytes_per_s);
            }
            ([_, _, ..], Some(bytes)) => {
                let key = (cross_shares(cluster, &placement), bytes);
                cross.entry(key).or_default().add(measurement.busbw_gbytes_per_s);
            }
            _ => without_size += 1,
        }
    }
    let used = measurements.len() - other - unknown - without_size;
    if used == 0 && !measurements.is_empty() {
        return Err(FitError::NothingFits { unknown, other, first: first.unwrap_or_default() });
    }
    let local: Vec<LocalEntry> = local
        .into_iter()
        .map(|((host, gpus, bytes), mean)| LocalEntry {
            host: cluster.host(host).name.clone(),
            host_type: cluster.type_of(host).name.clone(),
            gpus,
            bytes,
            busbw_gbytes_per_s: mean.value(),
            readings: mean.count,
        })
        .collect();
    let cross: Vec<CrossEntry> = cross
        .into_iter()
        .filter(|(_, mean)| mean.value() > 0.0)
        .map(|((shares, bytes), mean)| CrossEntry {
            shares,
            bytes,
            busbw_gbytes_per_s: mean.value(),
            readings: mean.count,
        })
        .collect();
    let report = FitReport {
        used,
        other_collective: other,
        unknown,
        first_unknown: first,
        without_size,
        local_sets: local.len(),
        cross_sets: cross.len(),
        contradicted: 0,
        cross_validation: None,
    };
    Ok(Sorted { local, cross, report })
}

/// A cross-host set by what the model can tell apart.
pub(crate) fn cross_shares(cluster: &Cluster, placement: &Placement) -> Vec<CrossShare> {
    let mut shares: Vec<CrossShare> = placement
        .shares()
        .iter()
        .map(|(host, mask)| {
            let kind = cluster.type_of(*host);
            CrossShare {
                host_type: kind.name.clone(),
                count: mask.count() as u8,
                gpus: matches!(kind.links, Links::Matrix(_)).then_some(*mask),
            }
        })
        .collect();
    shares.sort();
    shares
}

/// Prepares the cross-host entries of a model whose local tables are filled.
pub(crate) fn observe(model: &BandwidthModel, cluster: &Cluster) -> Vec<CrossObservation> {
    let mut predictors: BTreeMap<u64, Predictor<'_>> = BTreeMap::new();
    for entry in &model.cross {
        predictors
            .entry(entry.bytes)
            .or_insert_with(|| Predictor::new(model, cluster, entry.bytes));
    }
    model
        .cross
        .iter()
        .filter_map(|entry| {
            let predictor = predictors.get(&entry.bytes)?;
            let shares: Vec<Share> = entry
                .shares
                .iter()
                .filter_map(|share| {
                    let host = cluster
                        .host_ids()
                        .find(|host| cluster.type_of(*host).name == share.host_type)?;
                    let mask = share.gpus.unwrap_or(GpuMask::first(share.count as usize));
                    Some(predictor.share(host, mask))
                })
                .collect();
            let all: Aggregate = shares.iter().collect();
            Some(CrossObservation {
                entry: entry.clone(),
                input: predictor.input(&all),
                features: Features {
                    hosts: all.hosts as u32,
                    rails: all.rails,
                    levels: all.levels,
                    bytes: entry.bytes,
                },
                local_decides: entry.busbw_gbytes_per_s >= all.local_cap * 0.97,
                local_cap: all.local_cap,
            })
        })
        .collect()
}

/// Fitting costs the cube of the number of sets: of more than this an even sample is learned from (all keep their values).
const MOST_SETS_LEARNED_FROM: usize = 1200;

fn thinned(observations: Vec<CrossObservation>) -> Vec<CrossObservation> {
    let stride = observations.len().div_ceil(MOST_SETS_LEARNED_FROM).max(1);
    observations.into_iter().step_by(stride).collect()
}

/// Residuals of sets alike are alike, and the correction is there to take them up: only this share of the sets counts as
/// independent evidence on the constants.
const INDEPENDENT_SHARE: f64 = 0.05;

/// Prior standard deviation of the logarithm of each constant.
const CALIBRATION_SPREAD: [f64; 7] = [0.05, 0.03, 0.1, 0.1, 0.7, 0.7, 0.7];

fn scaled(z: &[f64]) -> CrossPhysics {
    let base = CrossPhysics::default();
    let f = |i: usize| (z[i] * CALIBRATION_SPREAD[i]).clamp(-3.0, 3.0).exp();
    CrossPhysics {
        rail_efficiency: base.rail_efficiency * f(0),
        ring_gain: base.ring_gain * f(1),
        two_host_cap: base.two_host_cap * f(2),
        many_host_cap: base.many_host_cap * f(3),
        latency_us: base.latency_us * f(4),
        latency_per_rank_us: base.latency_per_rank_us * f(5),
        tree_half_bytes: base.tree_half_bytes * f(6),
    }
}

/// Constants that fit the observations best: pseudo-Huber loss on log ratios, with the defaults as prior.
pub(crate) fn calibrate(observations: &[CrossObservation]) -> CrossPhysics {
    let usable: Vec<&CrossObservation> =
        observations.iter().filter(|seen| !seen.local_decides).collect();
    if usable.is_empty() {
        return CrossPhysics::default();
    }
    let loss = |z: &[f64]| -> f64 {
        let physics = scaled(z);
        let prior: f64 = z.iter().map(|x| 0.5 * x * x).sum();
        let misfit: f64 = usable
            .iter()
            .map(|seen| {
                let ratio = seen.entry.busbw_gbytes_per_s / physics.busbw(&seen.input);
                let scaled = ratio.ln() / 0.05;
                (1.0 + scaled * scaled / 2.0).sqrt() - 1.0
            })
            .sum();
        prior + misfit * INDEPENDENT_SHARE
    };
    scaled(&minimise_plain(loss, vec![0.0; 7], 0.5, 900))
}

/// What the correction is fitted on: network-decided sets only.
pub(crate) fn residual_points(
    observations: &[CrossObservation],
    physics: &CrossPhysics,
) -> Vec<Observation> {
    observations
        .iter()
        .filter(|seen| !seen.local_decides)
        .map(|seen| Observation {
            features: seen.features,
            log_ratio: (seen.entry.busbw_gbytes_per_s / physics.busbw(&seen.input)).ln(),
        })
        .collect()
}

/// 95th percentile of the relative deviation of repeated readings from their mean; `None` with fewer than 5 repeats.
fn repeat_noise(
    cluster: &Cluster,
    measurements: &[Measurement],
    collective: Collective,
) -> Option<f64> {
    let mut groups: BTreeMap<(Placement, Option<u64>), Vec<f64>> = BTreeMap::new();
    for measurement in measurements.iter().filter(|m| m.collective == collective) {
        if let Ok(placement) = locate(cluster, measurement) {
            groups
                .entry((placement, measurement.bytes))
                .or_default()
                .push(measurement.busbw_gbytes_per_s);
        }
    }
    let mut deviations: Vec<f64> = Vec::new();
    for values in groups.values().filter(|values| values.len() > 1) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        deviations.extend(values.iter().map(|value| (value / mean - 1.0).abs()));
    }
    (deviations.len() >= 5).then(|| cross_validation::quantile(&mut deviations, 0.95))
}

fn bands(validation: Option<&CrossValidation>, repeats: Option<f64>) -> ErrorBands {
    let closed_form = ErrorBands::default();
    let measured = repeats.unwrap_or(closed_form.measured).max(0.005);
    let Some(validation) = validation else { return ErrorBands { measured, ..closed_form } };
    let overall = validation.overall.p90;
    // A group of fewer than ten held-out sets has no 90th percentile worth the name.
    let group = |name: &str| {
        validation
            .groups
            .iter()
            .find(|(group, errors)| group == name && errors.sets >= 10)
            .map_or(overall, |(_, errors)| errors.p90)
            .max(measured)
    };
    ErrorBands {
        source: format!("90th percentile of {}-fold cross-validated errors", validation.folds),
        two_hosts_even: group("2 hosts, even"),
        two_hosts_uneven: group("2 hosts, uneven"),
        many_hosts_even: group("3+ hosts, even"),
        many_hosts_uneven: group("3+ hosts, uneven"),
        measured,
        ..closed_form
    }
}
