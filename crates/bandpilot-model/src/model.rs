//! A bandwidth model as data: constants, tables and the fitted correction. No reference to any file.

use bandpilot_core::{Collective, GpuMask};

use crate::physics::CrossPhysics;
use crate::residual::Residual;

/// Measured local bandwidth of one subset of one host.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalEntry {
    /// Host name.
    pub host: String,
    /// Name of the host's type.
    pub host_type: String,
    /// The GPUs.
    pub gpus: GpuMask,
    /// Message size; `None` where the source does not record it (read as a large message).
    pub bytes: Option<u64>,
    /// Mean of the accepted readings, GB/s.
    pub busbw_gbytes_per_s: f64,
    /// How many readings.
    pub readings: u32,
}

/// Measured bandwidth of one kind of cross-host set.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossEntry {
    /// One entry a host: type, number of GPUs, and the GPUs where it matters which. Sorted.
    pub shares: Vec<CrossShare>,
    /// Message size in bytes.
    pub bytes: u64,
    /// Mean of the accepted readings, GB/s.
    pub busbw_gbytes_per_s: f64,
    /// How many readings.
    pub readings: u32,
}

/// One host's part of a measured cross-host set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CrossShare {
    /// Name of the host type.
    pub host_type: String,
    /// Number of GPUs.
    pub count: u8,
    /// The GPUs on PCIe and mesh hosts, `None` on NVSwitch hosts where all subsets of a size are alike.
    pub gpus: Option<GpuMask>,
}

/// Relative error to expect of a prediction, by what the set is. Uncalibrated: a quantile of cross-validated errors.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorBands {
    /// Where the figures come from, for people.
    pub source: String,
    /// Inside one NVSwitch host.
    pub one_host: f64,
    /// Where an unmeasured subset of a PCIe or mesh host decides.
    pub inside_mesh: f64,
    /// Two hosts, equal counts.
    pub two_hosts_even: f64,
    /// Two hosts, unequal counts.
    pub two_hosts_uneven: f64,
    /// Three and more hosts, equal counts.
    pub many_hosts_even: f64,
    /// Three and more hosts, unequal counts.
    pub many_hosts_uneven: f64,
    /// The very set was measured: repeat noise.
    pub measured: f64,
}

impl Default for ErrorBands {
    /// 90th percentiles of the closed form's error on the 493 measured H100 sets at 2 GiB.
    fn default() -> Self {
        Self {
            source: "90th percentile of the closed form's error on 493 measured H100 sets at 2 GiB"
                .to_owned(),
            one_host: 0.05,
            inside_mesh: 0.5,
            two_hosts_even: 0.09,
            two_hosts_uneven: 0.09,
            many_hosts_even: 0.08,
            many_hosts_uneven: 0.29,
            measured: 0.02,
        }
    }
}

impl ErrorBands {
    /// For a collective that was never measured: as far as the physics was off on published figures of clusters that it
    /// was not made from.
    pub fn unmeasured_collective() -> Self {
        Self {
            source: "this collective was not measured; a rough figure".to_owned(),
            one_host: 0.2,
            inside_mesh: 0.5,
            two_hosts_even: 0.35,
            two_hosts_uneven: 0.35,
            many_hosts_even: 0.35,
            many_hosts_uneven: 0.5,
            measured: 0.02,
        }
    }

    /// All bands.
    pub fn values(&self) -> [f64; 7] {
        [
            self.one_host,
            self.inside_mesh,
            self.two_hosts_even,
            self.two_hosts_uneven,
            self.many_hosts_even,
            self.many_hosts_uneven,
            self.measured,
        ]
    }

    /// The least of all bands.
    pub fn least(&self) -> f64 {
        self.values().into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The band of an unmeasured set that no PCIe or mesh host limits.
    pub fn of(&self, hosts: usize, even: bool) -> f64 {
        match (hosts, even) {
            (0 | 1, _) => self.one_host,
            (2, true) => self.two_hosts_even,
            (2, false) => self.two_hosts_uneven,
            (_, true) => self.many_hosts_even,
            (_, false) => self.many_hosts_uneven,
        }
    }
}

/// The whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct BandwidthModel {
    /// For people: which cluster and data it was made from.
    pub description: String,
    /// The collective that it describes.
    pub collective: Collective,
    /// Constants of the closed form.
    pub physics: CrossPhysics,
    /// Learned correction.
    pub residual: Residual,
    /// Measured subsets inside hosts.
    pub local: Vec<LocalEntry>,
    /// Measured cross-host sets.
    pub cross: Vec<CrossEntry>,
    /// Errors to expect.
    pub bands: ErrorBands,
}

impl BandwidthModel {
    /// The closed form with its default constants and no measurement.
    pub fn closed_form() -> Self {
        Self {
            description: "closed form, no measurement".to_owned(),
            collective: Collective::AllReduce,
            physics: CrossPhysics::default(),
            residual: Residual::none(),
            local: Vec::new(),
            cross: Vec::new(),
            bands: ErrorBands::default(),
        }
    }

    /// The model of another collective: the constants of this one with the cost shape of the other, and no measurement.
    #[must_use]
    pub fn for_collective(&self, collective: Collective) -> Self {
        if collective == self.collective {
            return self.clone();
        }
        Self {
            description: format!(
                "physics of {collective}, not measured; constants from: {}",
                self.description
            ),
            collective,
            physics: self.physics.clone(),
            residual: Residual::none(),
            local: Vec::new(),
            cross: Vec::new(),
            bands: ErrorBands::unmeasured_collective(),
        }
    }
}
