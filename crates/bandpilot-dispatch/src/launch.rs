//! What a user pastes to start the job on the chosen GPUs.

use std::fmt::Write as _;

use bandpilot_core::{Cluster, Placement};

/// One rank of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Rank number from 0.
    pub rank: usize,
    /// Host name.
    pub host: String,
    /// GPU index on the host, in PCI bus order.
    pub gpu: usize,
}

/// Launch lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// An OpenMPI host file.
    pub hostfile: String,
    /// Rank order: hosts in order, GPUs ascending.
    pub ranks: Vec<Rank>,
    /// Host and the environment that it needs.
    pub environment: Vec<(String, String)>,
    /// One `mpirun` command with an application context per host.
    pub mpirun: String,
    /// One `torchrun` command per host; empty unless every host gives the same number of GPUs.
    pub torchrun: Vec<(String, String)>,
}

/// The launch lines of a placement.
pub fn launch(cluster: &Cluster, placement: &Placement) -> Launch {
    let shares: Vec<(&str, Vec<usize>)> = placement
        .shares()
        .iter()
        .map(|(host, mask)| (cluster.host(*host).name.as_str(), mask.iter().collect()))
        .collect();
    let mut hostfile = String::new();
    let mut ranks = Vec::new();
    let mut environment = Vec::new();
    let mut contexts = Vec::new();
    for (host, gpus) in &shares {
        let list = gpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let _ = writeln!(hostfile, "{host} slots={}", gpus.len());
        for &gpu in gpus {
            ranks.push(Rank { rank: ranks.len(), host: (*host).to_owned(), gpu });
        }
        let variables = format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={list}");
        contexts.push(format!(
            "-np {} --host {host}:{} -x CUDA_DEVICE_ORDER=PCI_BUS_ID -x CUDA_VISIBLE_DEVICES={list} ./train",
            gpus.len(),
            gpus.len()
        ));
        environment.push(((*host).to_owned(), variables));
    }
    let torchrun = torchrun(&shares, &environment);
    Launch {
        hostfile,
        ranks,
        environment,
        mpirun: format!("mpirun {}", contexts.join(" : ")),
        torchrun,
    }
}

fn torchrun(
    shares: &[(&str, Vec<usize>)],
    environment: &[(String, String)],
) -> Vec<(String, String)> {
    let Some((master, first)) = shares.first() else { return Vec::new() };
    if shares.iter().any(|(_, gpus)| gpus.len() != first.len()) {
        return Vec::new();
    }
    environment
        .iter()
        .enumerate()
        .map(|(rank, (host, variables))| {
            let command = format!(
                "{variables} torchrun --nnodes={} --nproc-per-node={} --node-rank={rank} --master-addr={master} --master-port=29500 train.py",
                shares.len(),
                first.len()
            );
            (host.clone(), command)
        })
        .collect()
}
