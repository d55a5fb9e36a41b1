//! The closed form for sets that span hosts.
//!
//! Source of the shape: the field's ring and tree cost models, and the closed form fitted by the project on 493
//! measured H100 sets at 2 GiB (two hosts: median error 4.0 %, 90th percentile 9.0 %; three and more:
//! 3.8 % and 29 %). A ring needs a rail on every host, so the least injection bandwidth of any host
//! decides. With two hosts and a large message a tree sends the array once each way, which makes bus
//! bandwidth up to 2(n-1)/n times the injection bandwidth. Above, NVSwitch caps the value: one cap
//! for two hosts, a lower one for three and more. A latency that grows with the number of ranks
//! makes small messages slower.

/// Constants of the closed form; the defaults are those of H100 hosts with one 400 Gbit/s NIC a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossPhysics {
    /// Share of the NICs' line rate that a ring reaches.
    pub rail_efficiency: f64,
    /// Gain of three and more hosts over `rail_efficiency`.
    pub ring_gain: f64,
    /// Cap with two hosts as a share of the NVSwitch plateau of a full host.
    pub two_host_cap: f64,
    /// Cap with three and more hosts as a share of the NVSwitch plateau.
    pub many_host_cap: f64,
    /// Latency of a collective across hosts, microseconds.
    pub latency_us: f64,
    /// Latency that each rank adds, microseconds.
    pub latency_per_rank_us: f64,
    /// Message size at which half of the two-host tree gain is reached, bytes.
    pub tree_half_bytes: f64,
}

impl Default for CrossPhysics {
    fn default() -> Self {
        Self {
            rail_efficiency: 0.95,
            ring_gain: 1.02,
            two_host_cap: 0.962,
            many_host_cap: 0.698,
            latency_us: 70.0,
            latency_per_rank_us: 5.0,
            tree_half_bytes: 64.0 * 1024.0 * 1024.0,
        }
    }
}

/// What the closed form looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossInput {
    /// Number of hosts, at least 2.
    pub hosts: usize,
    /// Number of GPUs.
    pub gpus: usize,
    /// Least sum of NIC rates of any host's share, GB/s at line rate.
    pub injection: f64,
    /// Least NVSwitch plateau of any *full* host, GB/s; infinite where no host has an `NVSwitch`.
    pub plateau: f64,
    /// Least NVSwitch bandwidth of any host's own share, GB/s; infinite where there is none.
    pub switch_cap: f64,
    /// Message size in bytes.
    pub bytes: u64,
}

/// What holds a cross-host set back, according to the closed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The NICs of the host with the least injection bandwidth.
    Rails,
    /// The NVSwitch of the hosts.
    Switch,
    /// Latency: the message is small.
    Latency,
}

impl CrossPhysics {
    /// Isolated `all_reduce` busbw of a cross-host set, GB/s, before host-local caps of PCIe and mesh hosts.
    pub fn busbw(&self, input: &CrossInput) -> f64 {
        let bandwidth = self.asymptote(input);
        let factor = ring_factor(input.gpus);
        let bytes = input.bytes as f64;
        let seconds = bytes * factor / (bandwidth * 1e9) + self.latency_seconds(input.gpus);
        bytes * factor / seconds / 1e9
    }

    /// Which term decides.
    pub fn limit(&self, input: &CrossInput) -> Limit {
        let bandwidth = self.asymptote(input);
        let transfer = input.bytes as f64 * ring_factor(input.gpus) / (bandwidth * 1e9);
        if self.latency_seconds(input.gpus) > transfer {
            Limit::Latency
        } else if self.rails(input) <= self.cap(input) {
            Limit::Rails
        } else {
            Limit::Switch
        }
    }

    fn latency_seconds(&self, gpus: usize) -> f64 {
        (self.latency_us + self.latency_per_rank_us * gpus as f64) * 1e-6
    }

    /// What [`CrossPhysics::busbw`] would be without latency, GB/s: never less than it, and no less for more GPUs or more
    /// injection bandwidth.
    pub fn asymptote(&self, input: &CrossInput) -> f64 {
        self.rails(input).min(self.cap(input))
    }

    fn rails(&self, input: &CrossInput) -> f64 {
        let ring = input.injection * self.rail_efficiency;
        if input.hosts > 2 {
            return ring * self.ring_gain;
        }
        // Small messages go round a ring, large ones over a tree; the square makes the change as quick as a tuner does.
        let tree_share = 1.0 / (1.0 + (self.tree_half_bytes / input.bytes as f64).powi(2));
        ring * (1.0 + (ring_factor(input.gpus) - 1.0) * tree_share)
    }

    fn cap(&self, input: &CrossInput) -> f64 {
        let share = if input.hosts > 2 { self.many_host_cap } else { self.two_host_cap };
        (input.plateau * share).min(input.switch_cap)
    }
}

/// 2(n-1)/n, the busbw factor of `all_reduce`.
fn ring_factor(gpus: usize) -> f64 {
    let n = gpus.max(2) as f64;
    2.0 * (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100(hosts: usize, gpus: usize, min: usize) -> f64 {
        let switch = [0.0, f64::INFINITY, 343.0, 356.0, 362.0, 410.0, 432.0, 459.0, 473.0];
        CrossPhysics::default().busbw(&CrossInput {
            hosts,
            gpus,
            injection: 50.0 * min as f64,
            plateau: 473.0,
            switch_cap: switch[min],
            bytes: 2 << 30,
        })
    }

    #[test]
    fn follows_the_measured_regimes() {
        // Two hosts: twice the rails for many GPUs, once for one GPU a host; three: once.
        for (value, measured) in [
            (h100(2, 2, 1), 46.7),
            (h100(2, 9, 4), 342.1),
            (h100(2, 9, 1), 78.8),
            (h100(2, 16, 8), 459.8),
            (h100(3, 3, 1), 47.6),
            (h100(4, 16, 4), 195.7),
            (h100(4, 28, 7), 331.4),
        ] {
            assert!((value / measured - 1.0).abs() < 0.09, "{value} {measured}");
        }
    }
}
