//! The closed form for sets that span hosts.
//!
//! Source of the shape: the field's ring and tree cost models, and the closed form fitted by the project on 493
//! measured H100 sets at 2 GiB (two hosts: median error 4.0 %, 90th percentile 9.0 %; three and more:
//! 3.8 % and 29 %). By collective:
//!
//! * `all_reduce`: a ring needs a rail on every host, so the least injection bandwidth of any host decides. With two
//!   hosts and a large message a tree sends the array once each way, which makes bus bandwidth up to 2(n-1)/n
//!   times the injection bandwidth. Above, NVSwitch caps the value: the inner part of the tree for two hosts, that of
//!   a ring for three and more.
//! * `all_gather`, `reduce_scatter`, `broadcast`, `reduce`: rings with any number of hosts.
//! * `alltoall`: all but g of the n parts of a GPU leave its host, where g is the number of its GPUs: bus
//!   bandwidth is NIC rate per GPU x (n-1)/(n-g), least where g is.
//! * `sendrecv`: one GPU of each host sends to the next host, over one NIC.
//!
//! A latency that grows with the number of ranks makes small messages slower.

use bandpilot_core::Collective;

/// Constants of the closed form; the defaults are those of H100 hosts with one 400 Gbit/s NIC a GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossPhysics {
    /// Share of the NICs' line rate that a ring reaches.
    pub rail_efficiency: f64,
    /// Gain of three and more hosts over `rail_efficiency`.
    pub ring_gain: f64,
    /// Cap of a tree across two hosts as a share of what NVSwitch of a full host gives to its inner part.
    pub two_host_cap: f64,
    /// Cap of a ring across hosts as a share of what NVSwitch of a full host gives to a ring.
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
            many_host_cap: 0.698 * 473.0 / 368.0,
            latency_us: 70.0,
            latency_per_rank_us: 5.0,
            tree_half_bytes: 64.0 * 1024.0 * 1024.0,
        }
    }
}

/// What the closed form looks at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CrossInput {
    /// The collective.
    pub collective: Collective,
    /// Number of hosts, at least 2.
    pub hosts: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// Least number of ranks of any host.
    pub least_ranks: usize,
    /// Least sum of NIC rates of any host's share, GB/s at line rate.
    pub injection: f64,
    /// Least NIC rate that a GPU has when all send at once, GB/s.
    pub nic_per_gpu: f64,
    /// Least rate of a single NIC, GB/s.
    pub nic_rate: f64,
    /// Least of what NVSwitch of any *full* host gives to the inner part of a tree, GB/s; infinite where no host has an
    /// `NVSwitch`.
    pub tree_plateau: f64,
    /// The same for a ring.
    pub ring_plateau: f64,
    /// Least NVSwitch bandwidth of any host's own share, GB/s; infinite where there is none.
    pub switch_cap: f64,
    /// Message size in bytes.
    pub bytes: u64,
}

/// How the latency of a collective grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyShape {
    base: f64,
    per_rank: f64,
}

impl LatencyShape {
    /// `all_reduce` takes 2(n-1) steps of a ring, other collectives n-1, a neighbour exchange one.
    pub fn of(collective: Collective) -> Self {
        match collective {
            Collective::AllReduce => Self { base: 1.0, per_rank: 1.0 },
            Collective::SendRecv => Self { base: 0.5, per_rank: 0.0 },
            _ => Self { base: 0.5, per_rank: 0.5 },
        }
    }

    /// Latency from the two constants of `all_reduce`, in their unit.
    pub fn scale(self, base: f64, per_rank: f64, ranks: usize) -> f64 {
        self.base * base + self.per_rank * per_rank * ranks as f64
    }
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
    /// Isolated busbw of a cross-host set, GB/s, before host-local caps of PCIe and mesh hosts.
    pub fn busbw(&self, input: &CrossInput) -> f64 {
        let bandwidth = self.asymptote(input);
        let factor = input.collective.busbw_factor(input.ranks.max(2));
        let bytes = input.bytes as f64;
        let seconds = bytes * factor / (bandwidth * 1e9) + self.latency_seconds(input);
        bytes * factor / seconds / 1e9
    }

    /// Which term decides.
    pub fn limit(&self, input: &CrossInput) -> Limit {
        let bandwidth = self.asymptote(input);
        let factor = input.collective.busbw_factor(input.ranks.max(2));
        let transfer = input.bytes as f64 * factor / (bandwidth * 1e9);
        if self.latency_seconds(input) > transfer {
            Limit::Latency
        } else if self.rails(input) <= self.cap(input) {
            Limit::Rails
        } else {
            Limit::Switch
        }
    }

    fn latency_seconds(&self, input: &CrossInput) -> f64 {
        let shape = LatencyShape::of(input.collective);
        shape.scale(self.latency_us, self.latency_per_rank_us, input.ranks) * 1e-6
    }

    /// What [`CrossPhysics::busbw`] would be without latency, GB/s: never less than it, and no less for more injection
    /// bandwidth.
    pub fn asymptote(&self, input: &CrossInput) -> f64 {
        self.rails(input).min(self.cap(input))
    }

    fn rails(&self, input: &CrossInput) -> f64 {
        let ring = input.injection * self.rail_efficiency * self.ring_gain;
        match input.collective {
            Collective::AllReduce if input.hosts <= 2 => {
                // Small messages go round a ring, large ones over a tree; the square makes the change as quick as a
                // tuner does.
                let tree_share = 1.0 / (1.0 + (self.tree_half_bytes / input.bytes as f64).powi(2));
                let factor = Collective::AllReduce.busbw_factor(input.ranks.max(2));
                input.injection * self.rail_efficiency * (1.0 + (factor - 1.0) * tree_share)
            }
            Collective::AllToAll => {
                let n = input.ranks.max(2) as f64;
                let leaving = (n - input.least_ranks as f64).max(1.0);
                input.nic_per_gpu * self.rail_efficiency * (n - 1.0) / leaving
            }
            Collective::SendRecv => input.nic_rate * self.rail_efficiency,
            _ => ring,
        }
    }

    fn cap(&self, input: &CrossInput) -> f64 {
        let plateau = match input.collective {
            Collective::AllReduce if input.hosts <= 2 => input.tree_plateau * self.two_host_cap,
            Collective::AllToAll | Collective::SendRecv => input.ring_plateau,
            _ => input.ring_plateau * self.many_host_cap,
        };
        plateau.min(input.switch_cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h100(hosts: usize, gpus: usize, min: usize) -> f64 {
        h100_of(Collective::AllReduce, hosts, gpus, min)
    }

    fn h100_of(collective: Collective, hosts: usize, gpus: usize, min: usize) -> f64 {
        let switch = [0.0, f64::INFINITY, 343.0, 356.0, 362.0, 410.0, 432.0, 459.0, 473.0];
        CrossPhysics::default().busbw(&CrossInput {
            collective,
            hosts,
            ranks: gpus,
            least_ranks: min,
            injection: 50.0 * min as f64,
            nic_per_gpu: 50.0,
            nic_rate: 50.0,
            tree_plateau: 473.0,
            ring_plateau: 368.0,
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

    #[test]
    fn each_collective_has_its_own_shape() {
        // Two full hosts: 380 GB/s of rails after losses, 330 by the rings inside.
        let two = |op| h100_of(op, 2, 16, 8);
        assert!((two(Collective::AllGather) - 330.0).abs() < 4.0, "{}", two(Collective::AllGather));
        assert!(two(Collective::AllReduce) > two(Collective::AllGather));
        // Eight of sixteen parts leave the host: 47.5 x 15 / 8.
        assert!((two(Collective::AllToAll) - 89.0).abs() < 1.0, "{}", two(Collective::AllToAll));
        // One NIC carries all that goes to the next host.
        assert!((two(Collective::SendRecv) - 47.5).abs() < 0.5, "{}", two(Collective::SendRecv));
        // With one GPU a host all of it leaves.
        let single = h100_of(Collective::AllToAll, 4, 4, 1);
        assert!((single - 47.5).abs() < 0.5, "{single}");
    }
}
