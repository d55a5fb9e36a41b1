//! Hosts that are alike, and the choices that each kind offers.
//!
//! Two hosts are alike if no model value can tell them apart: same type, same health of the NICs, same GPUs
//! (or, where all GPUs are alike, any) of the same running cross-host jobs, and on PCIe and mesh hosts
//! the same free GPUs. Hosts where all GPUs are alike may differ in how many are free: then a count can
//! be had from those that have enough.

use bandpilot_core::{GpuMask, HostId, LinkClass, MAX_GPUS_PER_HOST};
use bandpilot_model::Share;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::scene::Scene;
use crate::scope::Scope;

/// Above this many subsets of one size of one host only greedily built ones are looked at.
const MOST_SUBSETS: u64 = 20_000;
/// From this many GPUs a greedy subset is grown.
const MOST_STARTS: usize = 8;

/// One way to take some GPUs of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// Which GPUs; `None` where all are alike (the lowest free ones are taken).
    pub mask: Option<GpuMask>,
    /// What the cross-host model sees.
    pub share: Share,
    /// The same merged with each running job of the class.
    pub unions: Vec<Share>,
}

/// Choices that differ in nothing but local bandwidths (and with groups in what goes on inside the host).
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of GPUs.
    pub count: usize,
    /// No choice of the group is better in any respect.
    pub relaxed: Choice,
    /// The choices, none beaten by another.
    pub choices: Vec<Choice>,
}

/// A host of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The host.
    pub host: HostId,
    /// Its usable GPUs.
    pub free: GpuMask,
    /// So many of them it gives at most.
    pub most: usize,
}

/// Hosts that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct HostClass {
    /// The hosts: those that give the fewest GPUs first, then host order.
    pub hosts: Vec<Member>,
    /// `available[c]` hosts give at least `c` GPUs.
    pub available: Vec<usize>,
    /// Choices worth considering, most GPUs first.
    pub groups: Vec<Group>,
    /// Running cross-host jobs on these hosts (indexes into the scene's jobs).
    pub jobs: Vec<usize>,
    /// What each of those jobs has on each of these hosts.
    pub job_shares: Vec<Share>,
    /// Every choice that could be best is listed.
    pub exhaustive: bool,
    /// Choices that others beat are not listed.
    pub beaten_left_out: bool,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    host_type: u16,
    unhealthy_nics: Vec<usize>,
    /// A host with measurements of its own is like no other where they matter.
    own: Option<HostId>,
    /// The usable GPUs where it matters which, and how many of them it gives.
    free: Option<(GpuMask, usize)>,
    /// Per cross-host job the GPUs, or their number where all are alike.
    jobs: Vec<(usize, u64)>,
}

/// Sorts the usable hosts into classes, those with the least traffic of running jobs first, then by host order.
pub fn classify(scene: &Scene<'_>, scope: &Scope) -> Vec<HostClass> {
    let predictor = scene.predictor();
    let cluster = predictor.cluster();
    let mut position: FxHashMap<Key, usize> = FxHashMap::default();
    let mut members: Vec<Vec<Member>> = Vec::new();
    for host in cluster.host_ids() {
        let free = scope.usable[host.index()];
        let most = scope.most(host);
        if most < scope.unit {
            continue;
        }
        let alike = all_alike(scene, host);
        let key = Key {
            host_type: cluster.host(host).host_type.0,
            unhealthy_nics: cluster.host(host).unhealthy_nics.clone(),
            own: (which_gpus_matter(scene, host) && predictor.has_host_table(host)).then_some(host),
            free: (!alike).then_some((free, most)),
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
        members[at].push(Member { host, free, most });
    }
    let measured = measured_masks(scene);
    let mut classes: Vec<HostClass> =
        members.into_iter().map(|hosts| class(scene, scope.unit, hosts, &measured)).collect();
    let traffic =
        |class: &HostClass| -> f64 { class.jobs.iter().map(|&job| scene.jobs()[job].demand).sum() };
    // Good sets are found early where the quietest hosts come first.
    classes.sort_by(|a, b| {
        let key = |class: &HostClass| (!class.jobs.is_empty(), class.hosts[0].host);
        traffic(a).total_cmp(&traffic(b)).then_with(|| key(a).cmp(&key(b)))
    });
    classes
}

/// True if it does not matter which GPUs of the host are taken.
pub fn all_alike(scene: &Scene<'_>, host: HostId) -> bool {
    !which_gpus_matter(scene, host) && scene.predictor().has_uniform_rails(host)
}

/// True if what goes on inside the host depends on which GPUs they are. Rings that span hosts see no difference behind an
/// NVSwitch; groups inside a host do where its single subsets were measured.
fn which_gpus_matter(scene: &Scene<'_>, host: HostId) -> bool {
    let predictor = scene.predictor();
    predictor.is_mesh(host) || (predictor.groups().is_some() && predictor.subsets_differ(host))
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
    unit: usize,
    mut hosts: Vec<Member>,
    measured: &FxHashSet<u64>,
) -> HostClass {
    hosts.sort_by_key(|member| (member.most, member.host));
    let Member { host: first, free, most } = hosts[hosts.len() - 1];
    let available =
        (0..=most).map(|c| hosts.iter().filter(|member| member.most >= c).count()).collect();
    let mut exhaustive = true;
    let mut beaten_left_out = false;
    let mut groups = Vec::new();
    for count in (unit..=most).rev().filter(|count| count.is_multiple_of(unit)) {
        if all_alike(scene, first) {
            let choice = choice(scene, first, free.lowest(count), false);
            groups.push(Group { count, relaxed: choice.clone(), choices: vec![choice] });
            continue;
        }
        let (masks, all) = subsets(scene, first, free, count);
        exhaustive &= all;
        let choices = worth_considering(scene, first, &masks, measured);
        beaten_left_out |= choices.len() < masks.len();
        groups.extend(grouped(choices));
    }
    let jobs = scene.jobs_on(first).to_vec();
    let predictor = scene.predictor();
    let job_shares =
        jobs.iter().map(|&job| predictor.share(first, scene.job_mask(job, first))).collect();
    HostClass { hosts, available, groups, jobs, job_shares, exhaustive, beaten_left_out }
}

fn choice(scene: &Scene<'_>, host: HostId, mask: GpuMask, which_matters: bool) -> Choice {
    let predictor = scene.predictor();
    Choice {
        mask: which_matters.then_some(mask),
        share: predictor.share(host, mask),
        unions: scene
            .jobs_on(host)
            .iter()
            .map(|&job| predictor.share(host, mask.union(scene.job_mask(job, host))))
            .collect(),
    }
}

/// Choices of one count by what must be equal within a group.
fn grouped(choices: Vec<Choice>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for choice in choices {
        match groups.iter_mut().find(|group| same_rails(&group.relaxed, &choice)) {
            Some(group) => {
                let relax = |a: &mut Share, b: &Share| {
                    a.local_cap = a.local_cap.max(b.local_cap);
                    a.inner_seconds = a.inner_seconds.min(b.inner_seconds);
                };
                relax(&mut group.relaxed.share, &choice.share);
                group.relaxed.unions.iter_mut().zip(&choice.unions).for_each(|(a, b)| relax(a, b));
                group.choices.push(choice);
            }
            None => groups.push(Group {
                count: choice.share.count as usize,
                relaxed: choice.clone(),
                choices: vec![choice],
            }),
        }
    }
    groups
}

fn same_rails(a: &Choice, b: &Choice) -> bool {
    let alike = |a: &Share, b: &Share| {
        a.injection == b.injection && a.rails == b.rails && a.nic_rate == b.nic_rate
    };
    alike(&a.share, &b.share) && a.unions.iter().zip(&b.unions).all(|(a, b)| alike(a, b))
}

/// The subsets of a size; all of them, or greedily built ones with `false`.
pub fn subsets(
    scene: &Scene<'_>,
    host: HostId,
    free: GpuMask,
    count: usize,
) -> (Vec<GpuMask>, bool) {
    if free.subset_count(count) <= MOST_SUBSETS {
        return (free.subsets(count).collect(), true);
    }
    let gpus: Vec<usize> = free.iter().collect();
    let stride = gpus.len().div_ceil(MOST_STARTS);
    let starts = gpus.iter().step_by(stride);
    let mut masks: Vec<GpuMask> =
        starts.map(|&start| grown(scene, host, free, count, start)).collect();
    masks.push(free.lowest(count));
    masks.sort_unstable();
    masks.dedup();
    (masks, false)
}

/// From one GPU on, again and again the GPU with the best links to those taken.
fn grown(scene: &Scene<'_>, host: HostId, free: GpuMask, count: usize, start: usize) -> GpuMask {
    let kind = scene.predictor().cluster().type_of(host);
    let mut mask = GpuMask::single(start);
    let mut links = [0_u32; MAX_GPUS_PER_HOST];
    let mut last = start;
    while mask.count() < count {
        let rest = free.without(mask);
        for gpu in rest.iter() {
            links[gpu] += kind.link(last, gpu).map_or(0, link_rank);
        }
        let Some(next) = rest.iter().max_by_key(|&gpu| (links[gpu], std::cmp::Reverse(gpu))) else {
            break;
        };
        mask = mask.union(GpuMask::single(next));
        last = next;
    }
    mask
}

/// How much better a link is than SYS, roughly in GB/s.
const fn link_rank(link: LinkClass) -> u32 {
    match link {
        LinkClass::Sys => 0,
        LinkClass::Node => 3,
        LinkClass::Phb => 4,
        LinkClass::Pxb | LinkClass::Pix => 6,
        LinkClass::Nv(links) => 20 * links as u32,
    }
}

/// Drops subsets that another one of the same size beats or equals in every respect. Subsets that occur in measured sets,
/// alone or merged, are kept and beat none: they may be worth more or less than their local bandwidth tells.
fn worth_considering(
    scene: &Scene<'_>,
    host: HostId,
    masks: &[GpuMask],
    measured: &FxHashSet<u64>,
) -> Vec<Choice> {
    let mut kept: Vec<(Choice, bool)> = Vec::new();
    for &mask in masks {
        let new = choice(scene, host, mask, true);
        let known = measured.contains(&mask.0)
            || new.unions.iter().any(|union| measured.contains(&union.mask_key));
        if known {
            kept.push((new, true));
        } else if !kept.iter().any(|(old, known)| !known && beats(old, &new)) {
            kept.retain(|(old, known)| *known || !beats(&new, old));
            kept.push((new, false));
        }
    }
    kept.into_iter().map(|(choice, _)| choice).collect()
}

fn beats(a: &Choice, b: &Choice) -> bool {
    same_rails(a, b)
        && a.share.local_cap >= b.share.local_cap
        && a.share.inner_seconds <= b.share.inner_seconds
        && a.unions.iter().zip(&b.unions).all(|(a, b)| a.local_cap >= b.local_cap)
}
