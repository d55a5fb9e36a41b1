//! The list "Using devices": which rank is which GPU of which host.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Cluster, GpuMask, HostId, MAX_GPUS_PER_HOST};

use super::bus_id::BusId;
use crate::import::new_name;
use crate::near::nearest;
use crate::{Diagnostic, ImportOptions, hostlist};

/// The list as far as it was found.
#[derive(Default, Clone)]
pub(super) struct DeviceList {
    pub(super) ranks: Vec<Rank>,
    /// True if lines were left out or are not readable.
    pub(super) incomplete: bool,
    /// Number of GPUs that each process has, if the file says it.
    pub(super) per_process: Option<u64>,
}

impl DeviceList {
    /// The highest rank that it names and how many GPUs therefore ran at least, whatever is missing; `None` if
    /// nothing is to be told, as from several groups, whose ranks count on from one to the next.
    pub(super) fn at_least(&self) -> Option<(&Rank, u64)> {
        let highest = self.ranks.iter().max_by_key(|rank| rank.number)?;
        let one_group = self.ranks.iter().all(|rank| rank.group == highest.group);
        one_group.then(|| (highest, highest.number.saturating_add(1)))
    }

    /// True if a rank stands in it twice.
    pub(super) fn has_rank_twice(&self) -> bool {
        let mut seen = BTreeSet::new();
        !self.ranks.iter().all(|rank| seen.insert((rank.group, rank.number)))
    }
}

/// One rank and its GPU.
#[derive(Clone)]
pub(super) struct Rank {
    pub(super) line: u32,
    pub(super) number: u64,
    pub(super) group: u64,
    pub(super) host: String,
    /// As the process saw it: `CUDA_VISIBLE_DEVICES` makes it another one than the host's.
    pub(super) device: u64,
    pub(super) bus: Option<BusId>,
}

/// Reads `Rank 0 [Group 0] [Pid 1] on HOST device 0 [..] NAME`; `None` for any other line, an error for
/// one that begins like it.
pub(super) fn rank_line(line: u32, cells: &[&str]) -> Option<Result<Rank, ()>> {
    let of_list = |cell: &&str| ["Group", "Pid", "on", "device"].contains(cell);
    if cells.first() != Some(&"Rank") || !cells.iter().any(of_list) {
        return None;
    }
    Some(rank(line, cells).ok_or(()))
}

fn rank(line: u32, cells: &[&str]) -> Option<Rank> {
    let mut cells = cells.iter().copied().peekable();
    let mut pair = |word: &str, needed: bool| {
        if cells.peek() != Some(&word) {
            return if needed { None } else { Some("0") };
        }
        cells.next();
        cells.next()
    };
    let number = pair("Rank", true)?.parse().ok()?;
    let group = pair("Group", false)?.parse().ok()?;
    let _pid: u64 = pair("Pid", false)?.parse().ok()?;
    let host = pair("on", true)?.to_owned();
    let device = pair("device", true)?.parse().ok()?;
    let bus = cells.next().and_then(BusId::parse);
    Some(Rank { line, number, group, host, device, bus })
}

/// Why a list says not where the run was.
pub(super) enum Unusable {
    /// The caller's placement may stand in for it. Line (0 for no list) and reason.
    Incomplete(u32, String),
    /// Whatever the caller says, the rows are not of what they seem to be of.
    Fatal(Diagnostic),
}

/// Checks the numbers of the ranks: 0 to n-1, once each, of one group.
pub(super) fn check_numbers(list: &DeviceList) -> Result<(), Unusable> {
    let Some(first) = list.ranks.first() else {
        return Err(Unusable::Incomplete(0, "the file does not list its devices".to_owned()));
    };
    let mut seen = BTreeSet::new();
    for rank in &list.ranks {
        if !seen.insert((rank.group, rank.number)) {
            let message = format!("rank {} stands twice in the device list", rank.number);
            let reason = Diagnostic::error("placement", message).at(rank.line, 0);
            let help =
                "several processes ran a test each, side by side: build nccl-tests with MPI=1";
            return Err(Unusable::Fatal(reason.help(help)));
        }
        if rank.group != first.group {
            let reason = "the device list has several groups, each its own run".to_owned();
            return Err(Unusable::Incomplete(rank.line, reason));
        }
    }
    if list.incomplete {
        return Err(Unusable::Incomplete(first.line, "the device list is not complete".to_owned()));
    }
    let ranks = seen.len() as u64;
    if let Some(each) = list.per_process.filter(|each| *each > 0 && !ranks.is_multiple_of(*each)) {
        let reason = format!("the device list has {ranks} GPUs, but each process has {each}");
        return Err(Unusable::Incomplete(first.line, reason));
    }
    let highest = seen.last().map_or(0, |(_, number)| *number);
    if highest != seen.len() as u64 - 1 {
        let reason = format!("the device list has {} of ranks 0 to {highest}", seen.len());
        return Err(Unusable::Incomplete(first.line, reason));
    }
    Ok(())
}

/// Hosts with the GPUs that the list names, by PCI bus id where the cluster knows them.
pub(super) fn placement(
    list: &DeviceList,
    options: &ImportOptions,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Vec<(String, GpuMask)>, Diagnostic> {
    let mut hosts: BTreeMap<&str, Vec<&Rank>> = BTreeMap::new();
    for rank in &list.ranks {
        hosts.entry(rank.host.as_str()).or_default().push(rank);
    }
    let mut placement = Vec::new();
    for (host, ranks) in hosts {
        let line = ranks.first().map_or(0, |rank| rank.line);
        if !hostlist::is_host_name(host) {
            let message = format!("'{host}' is not a host name");
            return Err(Diagnostic::error("placement", message).at(line, 0));
        }
        let by_id = match options.cluster.as_deref() {
            None => None,
            Some(cluster) => {
                let id = find_host(host, line, cluster, options)?;
                by_bus_id(host, &ranks, cluster, id, remarks)?
            }
        };
        let mask = match by_id {
            Some(mask) => mask,
            None => printed(host, &ranks)?,
        };
        placement.push((host.to_owned(), mask));
    }
    Ok(placement)
}

/// The host of the cluster that the log means, or what it may have meant.
pub(super) fn find_host(
    host: &str,
    line: u32,
    cluster: &Cluster,
    options: &ImportOptions,
) -> Result<HostId, Diagnostic> {
    let name = new_name(host, &options.renames);
    if let Some(id) = cluster.find_host(name) {
        return Ok(id);
    }
    let message = format!("the log ran on '{name}', which is no host of the cluster");
    let known = cluster.hosts.iter().map(|host| host.name.as_str());
    let near = nearest(name, known, 3);
    let help = match near.first() {
        Some(first) => {
            format!("it has {}; --hosts {host}={first} renames the log's host", near.join(", "))
        }
        None => format!("--hosts {host}=NAME gives it the cluster file's name"),
    };
    Err(Diagnostic::error("placement", message).at(line, 0).help(help))
}

/// The GPUs by their bus ids; `None` if cluster or log do not know them well enough, with a remark where
/// that is a surprise.
fn by_bus_id(
    host: &str,
    ranks: &[&Rank],
    cluster: &Cluster,
    id: HostId,
    remarks: &mut Vec<Diagnostic>,
) -> Result<Option<GpuMask>, Diagnostic> {
    let known: Vec<(usize, BusId)> = (0_usize..)
        .zip(&cluster.host(id).gpu_ids)
        .filter_map(|(gpu, ids)| Some((gpu, BusId::parse(ids.pci_bus_id.as_deref()?)?)))
        .collect();
    let buses: Vec<BusId> = ranks.iter().filter_map(|rank| rank.bus).collect();
    let line = ranks.first().map_or(0, |rank| rank.line);
    if known.is_empty() || buses.is_empty() {
        return Ok(None);
    }
    let doubt = |reason: String, remarks: &mut Vec<Diagnostic>| {
        let message = format!("{reason}; the printed device numbers are taken");
        remarks.push(Diagnostic::note("placement", message).at(line, 0));
        Ok(None)
    };
    if buses.len() < ranks.len() {
        return doubt(format!("some ranks of {host} have no PCI bus id"), remarks);
    }
    let repeats = |bus: &BusId| buses.iter().filter(|other| *other == bus).count() > 1;
    if let Some(bus) = buses.iter().find(|bus| repeats(bus)) {
        return doubt(format!("several ranks of {host} have the PCI bus id {bus}"), remarks);
    }
    let mut mask = GpuMask::EMPTY;
    for (rank, bus) in ranks.iter().zip(&buses) {
        let mut matches = known.iter().filter(|(_, id)| id.matches(bus)).map(|(gpu, _)| *gpu);
        let (first, second) = (matches.next(), matches.next());
        let Some(gpu) = first else {
            let message =
                format!("the PCI bus id {bus} is of no GPU of {host} in the cluster file");
            let help = "bring pci_bus_ids in the cluster file up to date, or give --placement";
            return Err(Diagnostic::error("placement", message).at(rank.line, 0).help(help));
        };
        if second.is_some() || mask.contains(gpu) {
            return doubt(
                format!("the PCI bus id {bus} may be of several GPUs of {host}"),
                remarks,
            );
        }
        mask = mask.union(GpuMask::single(gpu));
    }
    let mut devices: Vec<u64> = ranks.iter().map(|rank| rank.device).collect();
    devices.sort_unstable();
    if !mask.iter().map(|gpu| gpu as u64).eq(devices.iter().copied()) {
        let printed: Vec<String> = devices.iter().map(u64::to_string).collect();
        let message = format!(
            "devices {} of {host} are its GPUs {mask}, by their PCI bus ids",
            printed.join(",")
        );
        remarks.push(Diagnostic::note("placement", message).at(line, 0));
    }
    Ok(Some(mask))
}

/// The GPUs by the printed device numbers.
fn printed(host: &str, ranks: &[&Rank]) -> Result<GpuMask, Diagnostic> {
    let mut mask = GpuMask::EMPTY;
    for rank in ranks {
        let error = |message: String| Diagnostic::error("placement", message).at(rank.line, 0);
        if rank.device >= MAX_GPUS_PER_HOST as u64 {
            return Err(error(format!("rank {} has no device number below 64", rank.number)));
        }
        let gpu = GpuMask::single(rank.device as usize);
        if !mask.intersection(gpu).is_empty() {
            let message = format!("device {} of {host} is listed twice", rank.device);
            let help = "each process may see one GPU only; give --cluster with a file that has pci_bus_ids, or --placement";
            return Err(error(message).help(help));
        }
        mask = mask.union(gpu);
    }
    Ok(mask)
}
