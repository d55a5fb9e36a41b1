//! What a user pastes to start the job on the chosen GPUs.

use std::fmt::Write as _;

use bandpilot_core::{Cluster, HostId, Placement};

/// One rank of the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// Rank number from 0.
    pub rank: usize,
    /// Host name.
    pub host: String,
    /// GPU index on the host, in PCI bus order.
    pub gpu: usize,
    /// The nearest healthy NIC of that GPU, if the cluster file knows one.
    pub nic: Option<String>,
}

/// Successive ranks on one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Host name.
    pub host: String,
    /// Its GPUs in the order of their ranks.
    pub gpus: Vec<usize>,
    /// Variables to set, as for a shell.
    pub environment: String,
}

/// Launch lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// An OpenMPI host file.
    pub hostfile: String,
    /// All ranks in order.
    pub ranks: Vec<Rank>,
    /// The same by runs of ranks on one host. A host occurs once, unless the groups of a job need otherwise.
    pub contexts: Vec<Context>,
    /// One `mpirun` command with an application context for each of `contexts`.
    pub mpirun: String,
    /// One `torchrun` command per host; empty unless every host occurs once with the same number of GPUs.
    pub torchrun: Vec<(String, String)>,
}

/// The launch lines of a placement: hosts in order, GPUs ascending.
pub fn launch(cluster: &Cluster, placement: &Placement) -> Launch {
    let gpus = placement.shares().iter();
    in_order(cluster, gpus.flat_map(|(host, mask)| mask.iter().map(move |gpu| (*host, gpu))))
}

/// The launch lines of these GPUs, in the order of their ranks.
pub fn in_order(cluster: &Cluster, gpus: impl IntoIterator<Item = (HostId, usize)>) -> Launch {
    let mut ranks = Vec::new();
    let mut contexts: Vec<Context> = Vec::new();
    for (host, gpu) in gpus {
        let name = cluster.host(host).name.as_str();
        let nic = nearest_nic(cluster, host, gpu);
        ranks.push(Rank { rank: ranks.len(), host: name.to_owned(), gpu, nic });
        match contexts.last_mut() {
            Some(last) if last.host == name => last.gpus.push(gpu),
            _ => contexts.push(Context {
                host: name.to_owned(),
                gpus: vec![gpu],
                environment: String::new(),
            }),
        }
    }
    let hostfile = hostfile(&contexts);
    let mut parts = Vec::new();
    for context in &mut contexts {
        let list = context.gpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (host, count) = (&context.host, context.gpus.len());
        context.environment = format!("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={list}");
        parts.push(format!(
            "-np {count} --host {host}:{count} -x CUDA_DEVICE_ORDER=PCI_BUS_ID -x CUDA_VISIBLE_DEVICES={list} ./train"
        ));
    }
    let torchrun = torchrun(&contexts);
    Launch { hostfile, ranks, contexts, mpirun: format!("mpirun {}", parts.join(" : ")), torchrun }
}

/// One line a host, in the order of their first ranks.
fn hostfile(contexts: &[Context]) -> String {
    let mut slots: Vec<(&str, usize)> = Vec::new();
    for Context { host, gpus, .. } in contexts {
        match slots.iter_mut().find(|(name, _)| name == host) {
            Some((_, count)) => *count += gpus.len(),
            None => slots.push((host, gpus.len())),
        }
    }
    slots.iter().fold(String::new(), |mut file, (host, count)| {
        let _ = writeln!(file, "{host} slots={count}");
        file
    })
}

fn nearest_nic(cluster: &Cluster, host: HostId, gpu: usize) -> Option<String> {
    let unhealthy = &cluster.host(host).unhealthy_nics;
    let mut nics = cluster.type_of(host).nics.iter().enumerate();
    nics.find(|(i, nic)| nic.gpus.contains(gpu) && !unhealthy.contains(i))
        .map(|(_, nic)| nic.name.clone())
}

fn torchrun(contexts: &[Context]) -> Vec<(String, String)> {
    let Some(first) = contexts.first() else { return Vec::new() };
    let mut hosts: Vec<&str> = contexts.iter().map(|context| context.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let per_host = first.gpus.len();
    if hosts.len() < contexts.len() || contexts.iter().any(|c| c.gpus.len() != per_host) {
        return Vec::new();
    }
    contexts
        .iter()
        .enumerate()
        .map(|(rank, context)| {
            let command = format!(
                "{} torchrun --nnodes={} --nproc-per-node={per_host} --node-rank={rank} --master-addr={} --master-port=29500 train.py",
                context.environment,
                contexts.len(),
                first.host
            );
            (context.host.clone(), command)
        })
        .collect()
}
