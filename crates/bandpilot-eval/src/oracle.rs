//! The exact optimum of a case under the truth, by enumeration that shares no code with the search.
//!
//! Every count vector, and for each host and count the subsets that no other beats both alone and merged with the background
//! job (the only two numbers of a subset that the truth looks at).

use bandpilot_core::{GpuMask, HostId, Placement};

use crate::truth::{Counts, HOSTS, Truth};

/// A case: what is free, and the one background job that holds the rest.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// GPUs asked for.
    pub gpus: usize,
    /// Number of the repeat.
    pub repeat: usize,
    /// Free GPUs by host.
    pub free: [GpuMask; HOSTS],
    /// The background job, possibly empty.
    pub background: Placement,
    /// The background job's demand as a share of its isolated bandwidth; 0 when idle.
    pub ratio: f64,
}

/// What a set is worth under the truth beside the background job, GB/s (virtual merge).
pub fn effective(truth: &Truth, case: &Case, set: &Placement) -> f64 {
    let own = truth.isolated(set);
    let job = &case.background;
    let meets = set.is_cross_host() && job.is_cross_host() && set.shares_host_with(job);
    if !meets || case.ratio == 0.0 {
        return own;
    }
    let capacity = truth
        .isolated(&set.merged_on_own_hosts(job))
        .min(truth.isolated(&job.merged_on_own_hosts(set)));
    let total = own + case.ratio * truth.isolated(job);
    if total <= capacity { own } else { own.min(capacity * own / total) }
}

/// The best value of any set, and one such set.
pub fn optimum(truth: &Truth, case: &Case) -> (f64, Placement) {
    let mut best = (f64::NEG_INFINITY, Placement::default());
    let mut consider = |set: Placement| {
        let value = effective(truth, case, &set);
        if value > best.0 {
            best = (value, set);
        }
    };
    let options: Vec<Vec<Vec<GpuMask>>> = (0..HOSTS)
        .map(|host| (0..=8).map(|count| subsets(truth, case, host, count)).collect())
        .collect();
    for host in 0..HOSTS {
        for mask in case.free[host].subsets(case.gpus) {
            consider(Placement::new([(HostId(host as u32), mask)]));
        }
    }
    for counts in splits(case) {
        if counts.iter().filter(|&&c| c > 0).count() < 2 {
            continue;
        }
        let of = |host: usize| &options[host][counts[host] as usize];
        for &a in of(0) {
            for &b in of(1) {
                for &c in of(2) {
                    for &d in of(3) {
                        let masks = [a, b, c, d];
                        consider(Placement::new(
                            masks.iter().enumerate().map(|(h, m)| (HostId(h as u32), *m)),
                        ));
                    }
                }
            }
        }
    }
    best
}

/// Count vectors that the free GPUs allow.
fn splits(case: &Case) -> Vec<Counts> {
    let free: [usize; HOSTS] = std::array::from_fn(|host| case.free[host].count());
    let mut all = Vec::new();
    for a in 0..=free[0].min(case.gpus) {
        for b in 0..=free[1].min(case.gpus - a) {
            for c in 0..=free[2].min(case.gpus - a - b) {
                let d = case.gpus - a - b - c;
                if d <= free[3] {
                    all.push([a as u8, b as u8, c as u8, d as u8]);
                }
            }
        }
    }
    all
}

/// Subsets of a host that could be best: all that are not beaten alone and merged.
fn subsets(truth: &Truth, case: &Case, host: usize, count: usize) -> Vec<GpuMask> {
    let id = HostId(host as u32);
    if count == 0 {
        return vec![GpuMask::EMPTY];
    }
    if !truth.is_composed() {
        return if case.free[host].count() >= count {
            vec![case.free[host].lowest(count)]
        } else {
            Vec::new()
        };
    }
    let job = case.background.on(id);
    // A single GPU has no local limit.
    let value = |mask: GpuMask| {
        if mask.count() < 2 { f64::INFINITY } else { truth.local(id, mask) }
    };
    let all: Vec<(GpuMask, f64, f64)> = case.free[host]
        .subsets(count)
        .map(|mask| (mask, value(mask), value(mask.union(job))))
        .collect();
    let mut kept: Vec<(GpuMask, f64, f64)> = Vec::new();
    for new in all {
        if kept.iter().any(|old| old.1 >= new.1 && old.2 >= new.2) {
            continue;
        }
        kept.retain(|old| !(new.1 >= old.1 && new.2 >= old.2));
        kept.push(new);
    }
    kept.into_iter().map(|(mask, ..)| mask).collect()
}
