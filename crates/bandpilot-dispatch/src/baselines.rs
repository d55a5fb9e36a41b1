//! Rules that need no measurement, as schedulers use them: rows of the evaluation table.
//!
//! All take the usable GPUs by host and a number of GPUs that they hold in total; with fewer they return what there is.

use bandpilot_core::{Cluster, GpuMask, HostId, LinkClass, Links, Placement};
use rand::{Rng, RngExt};

/// Hosts with their usable GPUs, a multiple of `unit`, most first, then host order.
fn by_free_count(usable: &[GpuMask], unit: usize) -> Vec<(HostId, GpuMask)> {
    let mut hosts: Vec<(HostId, GpuMask)> = usable
        .iter()
        .enumerate()
        .map(|(index, mask)| (HostId(index as u32), mask.lowest(mask.count() / unit * unit)))
        .filter(|(_, mask)| !mask.is_empty())
        .collect();
    hosts.sort_by(|a, b| b.1.count().cmp(&a.1.count()).then(a.0.cmp(&b.0)));
    hosts
}

/// The shortest prefix of the hosts by free count that holds `gpus`.
fn fewest_hosts(usable: &[GpuMask], gpus: usize, unit: usize) -> Vec<(HostId, GpuMask)> {
    let mut held = 0;
    by_free_count(usable, unit)
        .into_iter()
        .take_while(|(_, mask)| {
            let wanted = held < gpus;
            held += mask.count();
            wanted
        })
        .collect()
}

/// Fewest hosts, then the largest smallest share, then the most even split, then host order; a multiple of `unit` GPUs on
/// each.
pub fn balanced(usable: &[GpuMask], gpus: usize, unit: usize) -> Placement {
    let hosts = fewest_hosts(usable, gpus, unit);
    let mut counts = vec![0; hosts.len()];
    for _ in 0..gpus / unit {
        // One GPU (or instance) at a time to the emptiest host that still has one: the most even split.
        let next = (0..hosts.len())
            .filter(|&i| counts[i] < hosts[i].1.count())
            .min_by_key(|&i| (counts[i], i));
        match next {
            Some(i) => counts[i] += unit,
            None => break,
        }
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut taken = vec![false; usable.len()];
    let mut shares = Vec::new();
    for count in counts {
        if let Some(i) = (0..usable.len()).find(|&i| !taken[i] && usable[i].count() >= count) {
            taken[i] = true;
            shares.push((HostId(i as u32), usable[i].lowest(count)));
        }
    }
    Placement::new(shares)
}

/// Fewest hosts, and on each in turn as many GPUs as it has in multiples of `unit`: what "as compact as possible" gives.
pub fn most_compact(usable: &[GpuMask], gpus: usize, unit: usize) -> Placement {
    let mut left = gpus;
    let mut shares = Vec::new();
    for (host, mask) in fewest_hosts(usable, gpus, unit) {
        let take = mask.count().min(left);
        left -= take;
        shares.push((host, mask.lowest(take)));
    }
    Placement::new(shares)
}

/// Packing as a stock scheduler does it: hosts by free count, all from each; inside a host whole quads first.
pub fn default(usable: &[GpuMask], gpus: usize) -> Placement {
    let mut left = gpus;
    let mut shares = Vec::new();
    for (host, mask) in by_free_count(usable, 1) {
        if left == 0 {
            break;
        }
        let take = mask.count().min(left);
        left -= take;
        shares.push((host, quads_first(mask, take)));
    }
    Placement::new(shares)
}

fn quads_first(mask: GpuMask, take: usize) -> GpuMask {
    let quads = (0..16).map(|q| GpuMask(0b1111 << (4 * q))).filter(|quad| quad.is_subset_of(mask));
    let mut chosen = GpuMask::EMPTY;
    for quad in quads {
        if chosen.count() + 4 <= take {
            chosen = chosen.union(quad);
        }
    }
    chosen.union(mask.without(chosen).lowest(take - chosen.count()))
}

/// Fewest hosts; inside them the GPU with the largest sum of link weights to those chosen, again and again.
pub fn topo(cluster: &Cluster, usable: &[GpuMask], gpus: usize) -> Placement {
    let hosts = fewest_hosts(usable, gpus, 1);
    let mut chosen: Vec<GpuMask> = vec![GpuMask::EMPTY; hosts.len()];
    for _ in 0..gpus {
        let mut best: Option<(f64, usize, usize)> = None;
        for (at, (host, mask)) in hosts.iter().enumerate() {
            for gpu in mask.without(chosen[at]).iter() {
                let weight: f64 =
                    chosen[at].iter().map(|other| link_weight(cluster, *host, gpu, other)).sum();
                if best.is_none_or(|(most, ..)| weight > most) {
                    best = Some((weight, at, gpu));
                }
            }
        }
        let Some((_, at, gpu)) = best else { break };
        chosen[at] = chosen[at].union(GpuMask::single(gpu));
    }
    Placement::new(hosts.iter().zip(chosen).map(|((host, _), mask)| (*host, mask)))
}

/// Weights of the topology rule: SYS 1, PIX 1.5, PXB 2, NV1-3 3, NV4-7 4, NV8-15 5, NV16 and more 6.
fn link_weight(cluster: &Cluster, host: HostId, a: usize, b: usize) -> f64 {
    let kind = cluster.type_of(host);
    match (&kind.links, kind.link(a, b)) {
        (Links::NvSwitch, _) => 6.0,
        (_, Some(LinkClass::Nv(links))) => match links {
            0..=3 => 3.0,
            4..=7 => 4.0,
            8..=15 => 5.0,
            _ => 6.0,
        },
        (_, Some(LinkClass::Pxb)) => 2.0,
        (_, Some(LinkClass::Pix)) => 1.5,
        _ => 1.0,
    }
}

/// A uniform choice among all usable GPUs.
pub fn random(usable: &[GpuMask], gpus: usize, rng: &mut impl Rng) -> Placement {
    let mut all: Vec<(HostId, usize)> = usable
        .iter()
        .enumerate()
        .flat_map(|(host, mask)| mask.iter().map(move |gpu| (HostId(host as u32), gpu)))
        .collect();
    let take = gpus.min(all.len());
    for i in 0..take {
        let j = rng.random_range(i..all.len());
        all.swap(i, j);
    }
    Placement::new(all[..take].iter().map(|(host, gpu)| (*host, GpuMask::single(*gpu))))
}
