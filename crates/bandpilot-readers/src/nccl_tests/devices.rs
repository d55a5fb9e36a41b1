//! The list "Using devices": which rank is which GPU of which host.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{GpuMask, MAX_GPUS_PER_HOST};

use crate::hostlist;

/// One line of the list.
pub(super) struct Rank<'a> {
    pub(super) line: u32,
    number: u64,
    group: u64,
    host: &'a str,
    /// `None` if the line ends before it.
    device: Option<u64>,
}

/// Reads `Rank 0 [Group 0] Pid 1 on HOST device 0 [..] NAME`; `None` for any other line.
pub(super) fn rank_line<'a>(line: u32, cells: &[&'a str]) -> Option<Rank<'a>> {
    if cells.first() != Some(&"Rank") {
        return None;
    }
    let number = cells.get(1)?.parse().ok()?;
    let after = |word: &str| {
        let at = cells.iter().position(|cell| *cell == word)?;
        cells.get(at + 1).copied()
    };
    let group = match after("Group") {
        Some(group) => group.parse().ok()?,
        None => 0,
    };
    let host = after("on").unwrap_or("");
    let device = after("device").and_then(|device| device.parse().ok());
    Some(Rank { line, number, group, host, device })
}

/// The placement that the list describes, or why it describes none, with the line (0 for no list).
pub(super) fn placement(
    ranks: &[Rank<'_>],
    elided: bool,
) -> Result<Vec<(String, GpuMask)>, (u32, String)> {
    let Some(first) = ranks.first() else {
        return Err((0, "the file does not list its devices".to_owned()));
    };
    if elided {
        return Err((first.line, "the device list is not complete".to_owned()));
    }
    let mut seen = BTreeSet::new();
    let mut hosts: BTreeMap<String, GpuMask> = BTreeMap::new();
    for rank in ranks {
        let error = |reason: String| Err((rank.line, reason));
        if !seen.insert(rank.number) {
            return error(format!("rank {} stands twice in the device list", rank.number));
        }
        if rank.group != first.group {
            return error("the device list has several groups, each its own run".to_owned());
        }
        let host = rank.host.to_owned();
        if !hostlist::is_host_name(&host) {
            return error(format!("'{host}' is not a host name"));
        }
        let Some(device) = rank.device.filter(|d| *d < MAX_GPUS_PER_HOST as u64) else {
            return error(format!("rank {} has no device number below 64", rank.number));
        };
        let mask = hosts.entry(host).or_default();
        if mask.contains(device as usize) {
            let reason = format!("device {device} of {} is listed twice", rank.host);
            return error(format!("{reason}; the processes may each see one GPU only"));
        }
        *mask = mask.union(GpuMask::single(device as usize));
    }
    let highest = seen.last().copied().unwrap_or(0);
    if highest != seen.len() as u64 - 1 {
        let reason = format!("the device list has {} of ranks 0 to {highest}", seen.len());
        return Err((first.line, reason));
    }
    Ok(hosts.into_iter().collect())
}
