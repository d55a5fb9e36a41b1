//! Which GPUs of a host belong together.

use bandpilot_core::{HostType, LinkClass, Links};

use super::devices::Device;

/// The number of the island of each GPU, counted by their first GPUs.
///
/// GPUs that reach each other by NVLink, also over others, are one island; where a host has none, those below one
/// CPU socket.
pub(super) fn of_type(kind: &HostType) -> Vec<usize> {
    if kind.links == Links::NvSwitch {
        return vec![0; kind.gpus];
    }
    let nvlink = |a, b| matches!(kind.link(a, b), Some(LinkClass::Nv(_)));
    let islands = connected(kind.gpus, nvlink);
    if islands.iter().enumerate().any(|(gpu, island)| gpu != *island) {
        return islands;
    }
    connected(kind.gpus, |a, b| kind.link(a, b).is_some_and(|link| link > LinkClass::Sys))
}

/// The same of what `gres.conf` says: NVLinks, else cores. `None` if it says neither.
pub(super) fn of_devices(devices: &[Device]) -> Option<Vec<usize>> {
    let links: Option<Vec<Vec<i64>>> = devices
        .iter()
        .map(|device| device.get("Links")?.split(',').map(|n| n.trim().parse().ok()).collect())
        .collect();
    if let Some(links) = links.filter(|rows| rows.iter().flatten().any(|count| *count > 0)) {
        let joined = |a: usize, b: usize| links[a].get(b).is_some_and(|count| *count > 0);
        return Some(connected(devices.len(), joined));
    }
    let cores: Option<Vec<&str>> = devices.iter().map(|device| device.get("Cores")).collect();
    cores.map(|cores| connected(devices.len(), |a, b| cores[a] == cores[b]))
}

fn connected(gpus: usize, joined: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut island: Vec<usize> = (0..gpus).collect();
    for a in 0..gpus {
        for b in 0..gpus {
            if a != b && joined(a, b) && island[a] != island[b] {
                let (keep, drop) = (island[a].min(island[b]), island[a].max(island[b]));
                island.iter_mut().filter(|of| **of == drop).for_each(|of| *of = keep);
            }
        }
    }
    let mut firsts = island.clone();
    firsts.sort_unstable();
    firsts.dedup();
    island.iter().map(|first| firsts.iter().position(|f| f == first).unwrap_or(0)).collect()
}
