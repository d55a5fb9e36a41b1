//! Published bandwidths of real clusters against the model with no measurement of them.
//!
//! Sources: the network figures of the project, collected from vendors' documentation, issue threads and public
//! benchmark logs. Nothing of these machines went into the closed form, but for the two-host A100 figure (which sets
//! what a tree without in-switch reduction reaches) and the plateaus of single hosts.

use bandpilot_core::{Cluster, ClusterBuilder, ClusterState, Collective, GpuMask, Nic, Placement};
use bandpilot_model::{BandwidthModel, Predictor};

/// Errors above this share are to be explained.
pub const TOLERANCE: f64 = 0.15;

/// A machine type: what stands between its GPUs, and its NICs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// GPU model.
    pub gpu_model: &'static str,
    /// GPUs a host.
    pub gpus: usize,
    /// NICs a host, each serving as many GPUs.
    pub nics: usize,
    /// Line rate of a NIC, Gbit/s.
    pub gbit_per_s: f64,
    /// `None`: `NVSwitch`; else so many NVLinks between any two GPUs.
    pub mesh: Option<u8>,
}

/// A published figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// What and where.
    pub name: &'static str,
    /// Its hosts.
    pub machine: Machine,
    /// Number of full hosts.
    pub hosts: usize,
    /// The collective.
    pub collective: Collective,
    /// Message size, bytes.
    pub bytes: u64,
    /// Measured busbw, GB/s.
    pub measured: f64,
    /// Why the model is off, if it is by more than [`TOLERANCE`].
    pub explanation: Option<&'static str>,
}

impl Published {
    /// What the model says without any measurement, GB/s.
    pub fn predicted(&self) -> f64 {
        let cluster = self.cluster();
        let model = BandwidthModel::closed_form().for_collective(self.collective);
        let all = ClusterState::idle(&cluster).free;
        let set = Placement::new(cluster.host_ids().zip(all));
        Predictor::new(&model, &cluster, self.bytes).isolated(&set)
    }

    /// predicted / measured - 1.
    pub fn error(&self) -> f64 {
        self.predicted() / self.measured - 1.0
    }

    /// True for an `NVSwitch` machine with a NIC for each GPU across hosts at a large size: what the tolerance is for.
    pub fn is_in_scope(&self) -> bool {
        let machine = self.machine;
        machine.mesh.is_none()
            && machine.nics == machine.gpus
            && self.hosts > 1
            && self.bytes >= LARGE
            && machine.gpu_model != "MI300X"
    }

    fn cluster(&self) -> Cluster {
        let Machine { gpu_model, gpus, nics, gbit_per_s, mesh } = self.machine;
        let kind = ClusterBuilder::new("published").host_type("t", gpu_model, gpus);
        let rows: Vec<String> = (0..gpus)
            .map(|a| {
                let cell = |b| match mesh {
                    Some(links) if a != b => format!("NV{links} "),
                    _ => "X ".to_owned(),
                };
                (0..gpus).map(cell).collect()
            })
            .collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let kind = if mesh.is_some() { kind.matrix(&rows) } else { kind.nvswitch() };
        let mut cluster = kind.hosts("h", 1, self.hosts).build();
        let served = gpus / nics;
        cluster.host_types[0].nics = (0..nics)
            .map(|nic| Nic {
                name: format!("nic{nic}"),
                gbit_per_s,
                gpus: GpuMask(GpuMask::first(served).0 << (nic * served)),
            })
            .collect();
        cluster
    }
}

const LARGE: u64 = 1 << 30;
const LARGEST: u64 = 8 << 30;

const fn machine(gpu_model: &'static str, gpus: usize, nics: usize, gbit_per_s: f64) -> Machine {
    Machine { gpu_model, gpus, nics, gbit_per_s, mesh: None }
}

/// The published figures.
pub fn published() -> Vec<Published> {
    use Collective::{AllGather, AllReduce};
    let a100 = machine("A100", 8, 8, 200.0);
    let p4de = machine("A100", 8, 4, 100.0);
    let h100 = machine("H100", 8, 8, 400.0);
    let h200 = machine("H200", 8, 8, 400.0);
    let b200 = machine("B200", 8, 8, 400.0);
    // A host of this program has at most 64 GPUs.
    let nvl72 = machine("GB200", 64, 64, 400.0);
    let alps = Machine { mesh: Some(6), ..machine("GH200", 4, 4, 200.0) };
    let mi300x = machine("MI300X", 8, 8, 400.0);
    let of = |name, machine, hosts, collective, bytes, measured| Published {
        name,
        machine,
        hosts,
        collective,
        bytes,
        measured,
        explanation: None,
    };
    let off = |figure: Published, why| Published { explanation: Some(why), ..figure };
    vec![
        of("A100 40GB, 1 host", a100, 1, AllReduce, LARGEST, 235.0),
        of("A100 40GB, 1 host", a100, 1, AllGather, LARGEST, 223.4),
        of("A100 DGX, 2 hosts", a100, 2, AllReduce, LARGEST, 191.0),
        of("A100 OCI, 2 hosts", a100, 2, AllReduce, LARGEST, 189.6),
        of("A100 p4de, 2 hosts, a NIC of 100 Gbit/s for 2 GPUs", p4de, 2, AllReduce, LARGEST, 78.3),
        of("H200, 1 host", h200, 1, AllReduce, LARGEST, 473.0),
        of("H100 p5, 2 hosts", h100, 2, AllReduce, LARGEST, 487.0),
        of("H100 OCI, 2 hosts", h100, 2, AllReduce, LARGEST, 471.0),
        of("H100, 4 hosts", h100, 4, AllReduce, LARGEST, 320.0),
        of("H100 p5, 16 hosts", h100, 16, AllReduce, LARGEST, 370.0),
        off(
            of("H100 a3-high, 2 hosts", machine("H100", 8, 4, 200.0), 2, AllGather, LARGEST, 71.0),
            "4 NICs for 8 GPUs behind TCP (GPUDirect-TCPX), which reaches 71 % of the line rate",
        ),
        of("H100 a3-mega, 2 hosts", machine("H100", 8, 8, 200.0), 2, AllGather, LARGEST, 189.0),
        of("H200 a3-ultra, 2 hosts", h200, 2, AllGather, LARGEST, 329.0),
        of("B200 P6, 1 host", b200, 1, AllReduce, LARGEST, 846.0),
        of("B200 P6, 4 hosts", b200, 4, AllReduce, LARGEST, 382.0),
        of("B200 P6, 4 hosts", b200, 4, AllReduce, LARGE, 362.0),
        off(
            of("B200 P6, 4 hosts, 16 MiB", b200, 4, AllReduce, 16 << 20, 64.0),
            "the latency constants are those of InfiniBand; EFA's latency is about twice that",
        ),
        of("GB200 NVL72, 1 rack", nvl72, 1, AllReduce, LARGEST, 835.0),
        of("GB200 NVL72, 2 racks", nvl72, 2, AllReduce, LARGEST, 810.0),
        off(
            of("GB200 NVL72, 20 racks", nvl72, 20, AllReduce, LARGEST, 406.0),
            "the model lets all NICs of a rack serve one ring; measured is what 8 NICs of 400 Gbit/s carry",
        ),
        off(
            of("GH200 Alps, 2 hosts of 4, Slingshot", alps, 2, AllReduce, 128 << 20, 123.0),
            "no NVSwitch; the figure is for 128 MiB, where the tree across Slingshot is not yet at its plateau",
        ),
        off(
            of("MI300X, 2 hosts", mi300x, 2, AllReduce, LARGEST, 358.0),
            "no NVSwitch and a GPU model that the closed form does not know: an A100's plateau is assumed",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plateaus_are_met_or_explained() {
        println!("| figure | collective | measured | predicted | error | |");
        println!("|---|---|---:|---:|---:|---|");
        let mut in_scope = 0;
        for figure in published() {
            let error = figure.error();
            println!(
                "| {} | {} | {:.1} | {:.1} | {:+.1} % | {} |",
                figure.name,
                figure.collective,
                figure.measured,
                figure.predicted(),
                100.0 * error,
                figure.explanation.unwrap_or_default()
            );
            let met = error.abs() <= TOLERANCE;
            assert!(met || figure.explanation.is_some(), "{}: {error:+.3}", figure.name);
            assert!(!met || figure.explanation.is_none(), "{}: needs no excuse", figure.name);
            in_scope += usize::from(figure.is_in_scope() && met);
        }
        println!("{in_scope} figures of NVSwitch machines with a NIC for each GPU within 15 %");
    }
}
