//! Hosts that are alike, and the choices that each kind offers.
//!
//! Two hosts are alike if no model value can tell them apart: same type, same health of the NICs, same GPUs
//! (or, where all GPUs are alike, any) of the same running cross-host jobs, and on PCIe and mesh hosts
//! the same free GPUs. Hosts where all GPUs are alike may differ in how many are free: then a count can
//! be had from those that have enough.

use bandpilot_core::{GpuMask, HostId};
use bandpilot_model::Share;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scene::Scene;
use crate::scope::Scope;

/// Above this many subsets of one size of one host only greedily built ones are looked at.
const MOST_SUBSETS: u64 = 20_000;

/// One way to take some GPUs of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Number of GPUs.
    pub count: usize,
    /// Which GPUs; `None` where all are alike (the lowest free ones are taken).
    pub mask: Option<GpuMask>,
    /// What the cross-host model sees.
    pub share: Share,
}

/// Hosts that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct HostClass {
    /// The hosts with their usable GPUs: fewest first, then host order.
    pub hosts: Vec<(HostId, GpuMask)>,
    /// `available[c]` hosts have at least `c` usable GPUs.
    pub available: Vec<usize>,
    /// Choices worth considering, most GPUs first.
    pub choices: Vec<Choice>,
    /// Running cross-host jobs on these hosts (indexes into the scene's jobs).
    pub jobs: Vec<usize>,
    /// Every non-dominated choice is listed.
    pub exhaustive: bool,
}

impl HostClass {
    /// Most usable GPUs of any host.
    pub fn most(&self) -> usize {
        self.available.len() - 1
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    host_type: u16,
    unhealthy_nics: Vec<usize>,
    /// The usable GPUs where it matters which.
    free: Option<GpuMask>,
    /// Per cross-host job the GPUs, or their number where all are alike.
    jobs: Vec<(usize, u64)>,
}

/// Sorts the usable hosts into classes, those without running jobs first, then by host order.
pub fn classify(scene: &Scene<'_>, scope: &Scope) -> Vec<HostClass> {
    let predictor = scene.predictor();
    let cluster = predictor.cluster();
    let mut position: FxHashMap<Key, usize> = FxHashMap::default();
    let mut members: Vec<Vec<(HostId, GpuMask)>> = Vec::new();
    for host in cluster.host_ids() {
        let free = scope.usable[host.index()];
        if free.is_empty() {
            continue;
        }
        let alike = all_alike(scene, host);
        let key = Key {
            host_type: cluster.host(host).host_type.0,
            unhealthy_nics: cluster.host(host).unhealthy_nics.clone(),
            free: (!alike).then_some(free),
            jobs: scene
                .jobs_on(host)
                .iter()
                .map(|&job| {
                    let mask = scene.job_mask(job, host);
                    (job, if alike { mask.count() as u64 } else { mask.0 })
                })
                .collect(),
        };
        let at = *position.entry(key).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[at].push((host, free));
    }
    let measured = measured_masks(scene);
    let mut classes: Vec<HostClass> =
        members.into_iter().map(|hosts| class(scene, hosts, &measured)).collect();
    classes.sort_by_key(|class| (!class.jobs.is_empty(), class.hosts[0].0));
    classes
}

fn all_alike(scene: &Scene<'_>, host: HostId) -> bool {
    !scene.predictor().is_mesh(host) && scene.predictor().has_uniform_rails(host)
}

/// Subsets of PCIe and mesh hosts that occur in measured sets: they may be worth more than the model knows of others.
fn measured_masks(scene: &Scene<'_>) -> FxHashSet<u64> {
    let model = scene.predictor().model();
    model
        .cross
        .iter()
        .filter(|entry| entry.bytes == scene.predictor().bytes())
        .flat_map(|entry| &entry.shares)
        .filter_map(|share| share.gpus.map(|mask| mask.0))
        .collect()
}

fn class(
    scene: &Scene<'_>,
    mut hosts: Vec<(HostId, GpuMask)>,
    measured: &FxHashSet<u64>,
) -> HostClass {
    hosts.sort_by_key(|(host, free)| (free.count(), *host));
    let (first, free) = hosts[hosts.len() - 1];
    let most = free.count();
    let available =
        (0..=most).map(|c| hosts.iter().filter(|(_, free)| free.count() >= c).count()).collect();
    let mut exhaustive = true;
    let mut choices = Vec::new();
    for count in (1..=most).rev() {
        if all_alike(scene, first) {
            let share = scene.predictor().share(first, free.lowest(count));
            choices.push(Choice { count, mask: None, share });
            continue;
        }
        let (masks, all) = subsets(scene, first, free, count);
        exhaustive &= all;
        choices.extend(worth_considering(scene, first, &masks, measured));
    }
    HostClass { jobs: scene.jobs_on(first).to_vec(), hosts, available, choices, exhaustive }
}

/// The subsets of a size; all of them, or greedily built ones with `false`.
pub fn subsets(
    scene: &Scene<'_>,
    host: HostId,
    free: GpuMask,
    count: usize,
) -> (Vec<GpuMask>, bool) {
    if binomial(free.count() as u64, count as u64) <= MOST_SUBSETS {
        return (free.subsets(count).collect(), true);
    }
    let grown = free.iter().map(|start| {
        let mut mask = GpuMask::single(start);
        while mask.count() < count {
            let next =
                free.without(mask).iter().map(|gpu| mask.union(GpuMask::single(gpu))).max_by(
                    |a, b| {
                        let value = |mask| scene.predictor().inside(host, mask);
                        value(*a).total_cmp(&value(*b)).then(b.cmp(a))
                    },
                );
            mask = next.unwrap_or(mask);
        }
        mask
    });
    let mut masks: Vec<GpuMask> = grown.collect();
    masks.sort_unstable();
    masks.dedup();
    (masks, false)
}

fn binomial(n: u64, k: u64) -> u64 {
    let k = k.min(n - k.min(n));
    (0..k).fold(1_u64, |value, i| value.saturating_mul(n - i) / (i + 1))
}

/// A subset's worth: local bandwidth alone and merged with each running job on the host.
struct Worth {
    choice: Choice,
    locals: Vec<f64>,
    /// What must be equal for one subset to make another pointless.
    same: Vec<(u64, u8)>,
    /// It, or its merger with a running job, occurs in a measured set.
    measured: bool,
}

/// Drops subsets that another one of the same size beats or equals in every respect.
fn worth_considering(
    scene: &Scene<'_>,
    host: HostId,
    masks: &[GpuMask],
    measured: &FxHashSet<u64>,
) -> Vec<Choice> {
    let predictor = scene.predictor();
    let mut kept: Vec<Worth> = Vec::new();
    for &mask in masks {
        let share = predictor.share(host, mask);
        let mut locals = vec![share.local_cap];
        let mut same = vec![(share.injection.to_bits(), share.rails)];
        let mut known = measured.contains(&mask.0);
        for &job in scene.jobs_on(host) {
            let union = mask.union(scene.job_mask(job, host));
            let merged = predictor.share(host, union);
            locals.push(merged.local_cap);
            same.push((merged.injection.to_bits(), merged.rails));
            known |= measured.contains(&union.0);
        }
        let choice = Choice { count: mask.count(), mask: Some(mask), share };
        let new = Worth { choice, locals, same, measured: known };
        if known || !kept.iter().any(|old| beats(old, &new)) {
            kept.retain(|old| old.measured || !beats(&new, old));
            kept.push(new);
        }
    }
    kept.into_iter().map(|worth| worth.choice).collect()
}

fn beats(a: &Worth, b: &Worth) -> bool {
    a.same == b.same && a.locals.iter().zip(&b.locals).all(|(x, y)| x >= y)
}
