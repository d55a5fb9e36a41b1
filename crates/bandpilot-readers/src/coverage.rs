//! What a set of measurements covers, how much it repeats, and which readings do not fit.

use std::collections::BTreeMap;

use bandpilot_core::{Collective, GpuMask, Measurement};

/// Fewest peers among which a reading can be called an outlier.
const MIN_PEERS: usize = 8;
/// Peers are tight if the middle half of them spans at most this share of their median.
const TIGHT_IQR: f64 = 0.03;
/// An outlier is at least this share of the median away from it, ...
const MIN_DEVIATION: f64 = 0.10;
/// ... and at least this many standard deviations, estimated from the median absolute deviation.
const MIN_SIGMAS: f64 = 8.0;
/// If more than this share of the peers is away, they are a second kind of link, not outliers.
const MAX_OUTLIER_SHARE: f64 = 0.10;
/// Standard deviations in a median absolute deviation, for normal noise.
const SIGMA_PER_MAD: f64 = 1.4826;

/// Number of measurements of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The collective.
    pub collective: Collective,
    /// Message size; `None` for unknown.
    pub bytes: Option<u64>,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of measurements.
    pub measurements: usize,
    /// Number of different placements among them.
    pub placements: usize,
    /// Fewest and most GPUs.
    pub gpus: (usize, usize),
}

/// How far repeated measurements are apart: (largest - smallest) / mean of the same collective, size
/// and placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RepeatNoise {
    /// Number of placements that were measured more than once.
    pub repeated: usize,
    /// Mean relative spread.
    pub mean: f64,
    /// Largest relative spread.
    pub worst: f64,
}

/// A reading that does not fit its peers.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlier {
    /// Which measurement, as an index into what [`summarise`] was given.
    pub index: usize,
    /// The measurement.
    pub measurement: Measurement,
    /// Median of its peers, GB/s.
    pub median_gbytes_per_s: f64,
    /// Number of peers, itself included.
    pub peers: usize,
}

/// What a set of measurements covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Number of measurements.
    pub measurements: usize,
    /// Counts by collective, size and number of hosts, in this order.
    pub counts: Vec<Count>,
    /// Noise of repeated measurements; `None` if nothing was repeated.
    pub repeats: Option<RepeatNoise>,
    /// Readings that do not fit, in the order given.
    pub outliers: Vec<Outlier>,
}

/// Summarises measurements.
///
/// Peers are measurements of the same collective, size and sorted numbers of GPUs a host. A reading is
/// an outlier only if its peers are at least eight and tight, so that clusters whose links differ from
/// pair to pair raise no alarm.
pub fn summarise(measurements: &[Measurement]) -> Summary {
    Summary {
        measurements: measurements.len(),
        counts: counts(measurements),
        repeats: repeats(measurements),
        outliers: outliers(measurements),
    }
}

fn counts(measurements: &[Measurement]) -> Vec<Count> {
    let mut groups: BTreeMap<(Collective, Option<u64>, usize), Vec<&Measurement>> = BTreeMap::new();
    for m in measurements {
        groups.entry((m.collective, m.bytes, m.hosts())).or_default().push(m);
    }
    groups
        .into_iter()
        .map(|((collective, bytes, hosts), group)| {
            let mut placements: Vec<&[(String, GpuMask)]> =
                group.iter().map(|m| m.placement.as_slice()).collect();
            placements.sort_unstable();
            placements.dedup();
            let gpus = || group.iter().map(|m| m.gpus());
            Count {
                collective,
                bytes,
                hosts,
                measurements: group.len(),
                placements: placements.len(),
                gpus: (gpus().min().unwrap_or(0), gpus().max().unwrap_or(0)),
            }
        })
        .collect()
}

fn repeats(measurements: &[Measurement]) -> Option<RepeatNoise> {
    type Key<'a> = (Collective, Option<u64>, &'a [(String, GpuMask)]);
    let mut groups: BTreeMap<Key<'_>, Vec<f64>> = BTreeMap::new();
    for m in measurements {
        let key = (m.collective, m.bytes, m.placement.as_slice());
        groups.entry(key).or_default().push(m.busbw_gbytes_per_s);
    }
    let spreads: Vec<f64> =
        groups.values().filter(|values| values.len() > 1).map(|values| spread(values)).collect();
    if spreads.is_empty() {
        return None;
    }
    Some(RepeatNoise {
        repeated: spreads.len(),
        mean: spreads.iter().sum::<f64>() / spreads.len() as f64,
        worst: spreads.iter().copied().fold(0.0, f64::max),
    })
}

fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if mean > 0.0 { (high - low) / mean } else { 0.0 }
}

fn outliers(measurements: &[Measurement]) -> Vec<Outlier> {
    let mut peers: BTreeMap<(Collective, Option<u64>, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for (index, m) in measurements.iter().enumerate() {
        let mut counts: Vec<usize> = m.placement.iter().map(|(_, mask)| mask.count()).collect();
        counts.sort_unstable();
        peers.entry((m.collective, m.bytes, counts)).or_default().push(index);
    }
    let mut found = Vec::new();
    for indexes in peers.into_values() {
        let group: Vec<(usize, &Measurement)> = indexes
            .into_iter()
            .filter_map(|index| measurements.get(index).map(|m| (index, m)))
            .collect();
        found.extend(outliers_among(&group));
    }
    found.sort_by_key(|outlier| outlier.index);
    found
}

fn outliers_among(group: &[(usize, &Measurement)]) -> Vec<Outlier> {
    if group.len() < MIN_PEERS {
        return Vec::new();
    }
    let mut values: Vec<f64> = group.iter().map(|(_, m)| m.busbw_gbytes_per_s).collect();
    values.sort_by(f64::total_cmp);
    let median = quantile(&values, 0.5);
    if quantile(&values, 0.75) - quantile(&values, 0.25) > TIGHT_IQR * median {
        return Vec::new();
    }
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let sigma = SIGMA_PER_MAD * quantile(&deviations, 0.5);
    let limit = (MIN_DEVIATION * median).max(MIN_SIGMAS * sigma);
    let away: Vec<Outlier> = group
        .iter()
        .filter(|(_, m)| (m.busbw_gbytes_per_s - median).abs() > limit)
        .map(|(index, m)| Outlier {
            index: *index,
            measurement: (*m).clone(),
            median_gbytes_per_s: median,
            peers: group.len(),
        })
        .collect();
    if away.len() as f64 > MAX_OUTLIER_SHARE * group.len() as f64 { Vec::new() } else { away }
}

/// Quantile of sorted values, between the two nearest ones; 0 for no values.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = at * sorted.len().saturating_sub(1) as f64;
    let low = sorted.get(place.floor() as usize).copied().unwrap_or(0.0);
    let high = sorted.get(place.ceil() as usize).copied().unwrap_or(low);
    low + (high - low) * place.fract()
}

#[cfg(test)]
#[path = "tests/coverage.rs"]
mod tests;
