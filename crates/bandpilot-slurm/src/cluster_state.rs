//! A snapshot as the state that a decision is made on.

use std::collections::BTreeMap;

use bandpilot_core::{Cluster, ClusterState, Demand, GpuMask, HostId, Placement, RunningJob};
use bandpilot_readers::{Diagnostic, Parsed, hostlist};

use crate::{Host, Job, JobState, Snapshot};

/// What is free on a cluster and what runs there.
///
/// Free is a GPU that the cluster file knows as healthy and Slurm as idle, on a host that takes jobs and is in no
/// active reservation. Running jobs keep their GPUs and are met by the next plan's contention; a heterogeneous job is
/// one job. Those that are suspended or completing keep GPUs and send nothing.
pub fn cluster_state(snapshot: &Snapshot, cluster: &Cluster) -> Parsed<ClusterState> {
    let places: BTreeMap<&str, HostId> =
        cluster.host_ids().map(|id| (cluster.host(id).name.as_str(), id)).collect();
    let mut diagnostics = Vec::new();
    let mut free = vec![GpuMask::EMPTY; cluster.hosts.len()];
    let mut seen = vec![false; cluster.hosts.len()];
    let mut strangers = Vec::new();
    for host in &snapshot.hosts {
        let Some(id) = places.get(host.name.as_str()) else {
            strangers.extend((!host.gpus.is_empty()).then_some(host.name.as_str()));
            continue;
        };
        seen[id.index()] = true;
        let gpus = cluster.type_of(*id).gpus;
        if host.gpus.len() != gpus {
            let message = format!(
                "{} has {} GPUs in Slurm and {gpus} in the cluster file",
                host.name,
                host.gpus.len()
            );
            diagnostics.push(
                Diagnostic::warning("", message).help("only what both know is free; mend one"),
            );
        }
        if let Some(why) = closed(host, snapshot) {
            diagnostics.push(Diagnostic::note("", format!("{} is not free: {why}", host.name)));
        } else {
            let idle = host.all_gpus().without(host.gpus_in_use());
            free[id.index()] = cluster.healthy_gpus(*id).intersection(idle);
        }
    }
    let missing = seen.iter().zip(&cluster.hosts).filter(|(seen, _)| !**seen);
    let missing: Vec<&str> = missing.map(|(_, host)| host.name.as_str()).collect();
    if !missing.is_empty() {
        let names = hostlist::compress(missing);
        let message = format!("Slurm does not know {names}: nothing of them is free");
        diagnostics.push(Diagnostic::warning("", message).help("names must be those of Slurm"));
    }
    if !strangers.is_empty() {
        let names = hostlist::compress(strangers);
        let message = format!("not in the cluster file, not used: {names}");
        diagnostics.push(Diagnostic::note("", message));
    }
    let jobs = running(snapshot, cluster, &places, &mut free);
    Parsed { value: ClusterState { free, jobs }, diagnostics }
}

fn closed(host: &Host, snapshot: &Snapshot) -> Option<String> {
    let holds = |name: &str| snapshot.reservations.iter().find(|r| r.active && has(r, name));
    if let Some(reservation) = holds(&host.name) {
        return Some(format!("reserved by '{}'", reservation.name));
    }
    let flag = host.closed_by()?;
    let reason = if host.reason.is_empty() { "" } else { ", " };
    Some(format!("{flag}{reason}{}", host.reason))
}

fn has(reservation: &crate::Reservation, name: &str) -> bool {
    reservation.hosts.iter().any(|host| host == name)
}

/// The running jobs on hosts of the cluster. Their GPUs are taken off what is free.
fn running(
    snapshot: &Snapshot,
    cluster: &Cluster,
    places: &BTreeMap<&str, HostId>,
    free: &mut [GpuMask],
) -> Vec<RunningJob> {
    let mut taken = vec![GpuMask::EMPTY; free.len()];
    let mut shares: BTreeMap<u32, Vec<(HostId, GpuMask)>> = BTreeMap::new();
    for job in snapshot.jobs.iter().filter(|job| job.state == JobState::Running) {
        let of = shares.entry(name(job)).or_default();
        for (host, mask) in &job.gpus {
            let Some(id) = places.get(host.as_str()) else { continue };
            let known = GpuMask::first(cluster.type_of(*id).gpus);
            // A GPU is in one job; that Slurm gives it to two was said when the snapshot was made.
            let mine = mask.intersection(known).without(taken[id.index()]);
            taken[id.index()] = taken[id.index()].union(mine);
            free[id.index()] = free[id.index()].without(mine);
            of.push((*id, mine));
        }
    }
    let job = |(id, shares): (u32, Vec<(HostId, GpuMask)>)| {
        RunningJob::new(id.to_string(), Placement::new(shares), Demand::Fraction(1.0))
    };
    shares.into_iter().map(job).filter(|job| job.placement.gpus() > 0).collect()
}

/// The id that all components of a heterogeneous job have in common.
fn name(job: &Job) -> u32 {
    job.het.map_or(job.id, |het| het.leader)
}

#[cfg(test)]
#[path = "tests/cluster_state.rs"]
mod tests;
