//! What the evaluation takes for true: tables, measured or composed or synthetic.

use bandpilot_core::{Cluster, Collective, GpuMask, HostId, Links, Measurement, Placement};
use bandpilot_model::Predictor;
use bandpilot_model::model::BandwidthModel;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;
use rustc_hash::FxHashMap;

use crate::clusters;

/// Hosts of an evaluation cluster.
pub const HOSTS: usize = 4;
/// GPUs of each.
pub const GPUS: usize = 8;
/// Message size of the protocol, bytes.
pub const BYTES: u64 = 2 << 30;

/// Why measurements do not make a truth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TruthError {
    /// A count vector has no reading.
    #[error("the cross-host table has no 2 GiB reading for {0}")]
    MissingCounts(String),
    /// A local subset has no reading.
    #[error("the table of host {host} has no reading for GPUs {gpus}")]
    MissingSubset {
        /// The host.
        host: String,
        /// The GPUs.
        gpus: GpuMask,
    },
}

/// Counts per host, 0 where a host gives none.
pub type Counts = [u8; HOSTS];

/// A full table of what every set is worth.
#[derive(Debug, Clone)]
pub struct Truth {
    /// The cluster.
    pub cluster: Cluster,
    /// For people: where the values come from.
    pub source: String,
    /// By counts, largest first.
    cross: FxHashMap<Counts, f64>,
    /// By host and bit mask, GB/s; 0 for fewer than two GPUs.
    local: Vec<[f64; 256]>,
    /// A cross-host set is also limited by the local bandwidth of each of its hosts with two GPUs and more.
    composed: bool,
}

impl Truth {
    /// The H100 cluster: 2 GiB table by sorted counts, each host's own 2 GiB table inside. `cross` and `local` as the
    /// readers give them; the first reading of a count vector counts, as in the protocol.
    ///
    /// # Errors
    /// If a reading is missing.
    pub fn h100(
        cross: &[Measurement],
        local: &[Vec<Measurement>; HOSTS],
    ) -> Result<Self, TruthError> {
        let cluster = clusters::h100_32();
        let local = local_tables(&cluster, local, Some(BYTES))?;
        Ok(Self {
            source:
                "measured: 486 count vectors across hosts and 255 subsets inside each host, 2 GiB"
                    .to_owned(),
            cross: cross_table(cross)?,
            local,
            composed: false,
            cluster,
        })
    }

    /// The mixed cluster: composed of the H100 cross-host table and the local tables of four unlike hosts.
    ///
    /// # Errors
    /// If a reading is missing.
    pub fn het(
        cross: &[Measurement],
        local: &[Vec<Measurement>; HOSTS],
    ) -> Result<Self, TruthError> {
        let cluster = clusters::het_4mix();
        let local = local_tables(&cluster, local, None)?;
        Ok(Self {
            source: "composed: the lesser of the H100 cross-host table and the hosts' measured local tables"
                .to_owned(),
            cross: cross_table(cross)?,
            local,
            composed: true,
            cluster,
        })
    }

    /// A made-up truth of the same shape, for use without data: the closed form with losses that depend on which
    /// counts come together, and link-class estimates inside hosts.
    pub fn synthetic(cluster: Cluster) -> Self {
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, &cluster, BYTES);
        let h100 = clusters::h100_32();
        let h100_predictor = Predictor::new(&model, &h100, BYTES);
        let cross = all_counts()
            .filter(|counts| counts.windows(2).all(|pair| pair[0] >= pair[1]) && counts[1] > 0)
            .map(|counts| {
                let value = h100_predictor.isolated(&first_gpus(counts));
                (counts, value * made_up_loss(counts))
            })
            .collect();
        let local = (0..HOSTS)
            .map(|host| {
                std::array::from_fn(|mask| {
                    predictor.inside(HostId(host as u32), GpuMask(mask as u64))
                })
            })
            .collect();
        let composed = cluster.host_types.iter().any(|kind| kind.links != Links::NvSwitch);
        Self {
            source: "synthetic: closed form with made-up losses, not measured".to_owned(),
            cross,
            local,
            composed,
            cluster,
        }
    }

    /// Isolated busbw of a set, GB/s.
    pub fn isolated(&self, set: &Placement) -> f64 {
        match set.shares() {
            [] => 0.0,
            [(host, mask)] => self.local(*host, *mask),
            shares => {
                let mut counts: Counts = [0; HOSTS];
                let mut value = f64::INFINITY;
                for (at, (host, mask)) in shares.iter().enumerate() {
                    counts[at] = mask.count() as u8;
                    if self.composed && mask.count() > 1 {
                        value = value.min(self.local(*host, *mask));
                    }
                }
                value.min(self.by_counts(counts))
            }
        }
    }

    /// Local busbw of a host's subset, GB/s.
    pub fn local(&self, host: HostId, mask: GpuMask) -> f64 {
        self.local[host.index()][mask.0 as usize & 0xff]
    }

    /// Cross-host table value for counts in any order.
    pub fn by_counts(&self, mut counts: Counts) -> f64 {
        counts.sort_unstable_by(|a, b| b.cmp(a));
        self.cross.get(&counts).copied().unwrap_or(0.0)
    }

    /// True if which GPUs of a host are taken matters to cross-host sets.
    pub fn is_composed(&self) -> bool {
        self.composed
    }

    /// The known local tables as measurements.
    pub fn local_measurements(&self) -> Vec<Measurement> {
        let mut all = Vec::new();
        for host in self.cluster.host_ids() {
            for mask in (1..256).map(GpuMask).filter(|mask| mask.count() > 1) {
                let placement = Placement::new([(host, mask)]);
                all.push(self.measurement(&placement));
            }
        }
        all
    }

    /// `k` distinct cross-host count vectors, drawn uniformly by `seed`, each measured on the best local subsets. On a cluster
    /// of alike hosts the order of counts makes no difference and is not drawn.
    pub fn training_draw(&self, k: usize, seed: u64) -> Vec<Measurement> {
        let alike = self.cluster.host_types.len() == 1;
        let mut vectors: Vec<Counts> = all_counts()
            .filter(|counts| counts.iter().filter(|&&c| c > 0).count() > 1)
            .filter(|counts| !alike || counts.windows(2).all(|pair| pair[0] >= pair[1]))
            .collect();
        let mut rng = Pcg64::seed_from_u64(seed);
        vectors.shuffle(&mut rng);
        vectors.truncate(k);
        vectors.iter().map(|counts| self.measurement(&self.best_subsets(*counts))).collect()
    }

    /// The set with these counts and the best local subset on each host.
    pub fn best_subsets(&self, counts: Counts) -> Placement {
        if !self.composed {
            return first_gpus(counts);
        }
        Placement::new(counts.iter().enumerate().map(|(host, &count)| {
            let host = HostId(host as u32);
            let best =
                GpuMask::first(GPUS)
                    .subsets(count as usize)
                    .reduce(|best, mask| {
                        if self.local(host, mask) > self.local(host, best) { mask } else { best }
                    })
                    .unwrap_or_default();
            (host, best)
        }))
    }

    fn measurement(&self, placement: &Placement) -> Measurement {
        Measurement {
            collective: Collective::AllReduce,
            bytes: Some(BYTES),
            placement: placement
                .shares()
                .iter()
                .map(|(host, mask)| (self.cluster.host(*host).name.clone(), *mask))
                .collect(),
            busbw_gbytes_per_s: self.isolated(placement),
            source: "truth".to_owned(),
            line: 0,
        }
    }
}

/// All vectors of counts 0..=8 over four hosts.
pub fn all_counts() -> impl Iterator<Item = Counts> {
    let base = GPUS as u32 + 1;
    (0..base.pow(HOSTS as u32)).map(move |code| {
        std::array::from_fn(|host| (code / base.pow((HOSTS - 1 - host) as u32) % base) as u8)
    })
}

/// GPUs 0..count of each host.
fn first_gpus(counts: Counts) -> Placement {
    Placement::new(
        counts
            .iter()
            .enumerate()
            .map(|(host, &count)| (HostId(host as u32), GpuMask::first(count as usize))),
    )
}

/// Between 0.65 and 1 by which counts occur: stands for the lost rails that real uneven sets show.
fn made_up_loss(counts: Counts) -> f64 {
    let given: Vec<u8> = counts.iter().copied().filter(|&c| c > 0).collect();
    let least = given.iter().min().copied().unwrap_or(0);
    let present = given.iter().fold(0_u64, |set, &c| set | 1 << c);
    if given.len() < 3 || least < 2 || present.is_power_of_two() {
        return 1.0;
    }
    let spread = (present.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 59) as f64 / 31.0;
    1.0 - 0.35 * spread
}

fn cross_table(measurements: &[Measurement]) -> Result<FxHashMap<Counts, f64>, TruthError> {
    let mut table: FxHashMap<Counts, f64> = FxHashMap::default();
    for measurement in measurements.iter().filter(|m| m.bytes == Some(BYTES) && m.hosts() <= HOSTS)
    {
        let mut counts: Counts = [0; HOSTS];
        for (at, (_, mask)) in measurement.placement.iter().enumerate() {
            counts[at] = mask.count() as u8;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        table.entry(counts).or_insert(measurement.busbw_gbytes_per_s);
    }
    let needed = all_counts()
        .filter(|counts| counts.windows(2).all(|pair| pair[0] >= pair[1]) && counts[1] > 0);
    for counts in needed {
        if !table.contains_key(&counts) {
            return Err(TruthError::MissingCounts(format!("{counts:?}")));
        }
    }
    Ok(table)
}

fn local_tables(
    cluster: &Cluster,
    measurements: &[Vec<Measurement>; HOSTS],
    bytes: Option<u64>,
) -> Result<Vec<[f64; 256]>, TruthError> {
    let mut tables = Vec::with_capacity(HOSTS);
    for (host, of_host) in cluster.hosts.iter().zip(measurements) {
        let mut table = [f64::NAN; 256];
        for measurement in of_host.iter().filter(|m| bytes.is_none() || m.bytes == bytes) {
            if let [(_, mask)] = measurement.placement.as_slice()
                && let Some(cell) = table.get_mut(mask.0 as usize)
                && cell.is_nan()
            {
                *cell = measurement.busbw_gbytes_per_s;
            }
        }
        for (mask, cell) in table.iter_mut().enumerate() {
            let gpus = GpuMask(mask as u64);
            if gpus.count() < 2 {
                *cell = 0.0;
            } else if cell.is_nan() {
                return Err(TruthError::MissingSubset { host: host.name.clone(), gpus });
            }
        }
        tables.push(table);
    }
    Ok(tables)
}
