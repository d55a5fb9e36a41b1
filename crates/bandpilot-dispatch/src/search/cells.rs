//! Sets that span hosts: cells in the order of their bounds.

use bandpilot_core::Request;
use bandpilot_model::{Aggregate, CrossBounds, Groups, MeetingBound};

use smallvec::SmallVec;

use crate::classes::{Group, HostClass};
use crate::scene::Scene;
use crate::search::SearchOptions;
use crate::search::jobs::{self, Job};
use crate::search::state::Incumbents;
use crate::search::walk::Walk;

/// How the search ended.
pub(super) struct End {
    /// Nothing unseen is worth more than this.
    pub(super) bound: f64,
    /// Steps taken.
    pub(super) steps: u64,
}

/// Sets with this many hosts, this smallest share and this least injection bandwidth.
pub(super) struct Cell {
    pub(super) hosts: usize,
    pub(super) least: usize,
    pub(super) injection: f64,
    pub(super) rails: u8,
    pub(super) bounds: CrossBounds,
    /// The level of the smallest share where all hosts have the same number of GPUs, else 0.
    pub(super) least_level: u8,
    /// Upper bound of the isolated bandwidth.
    pub(super) isolated: f64,
    /// Least that goes on inside any usable host besides the rings, seconds.
    pub(super) inner_seconds: f64,
    /// Upper bound of the effective bandwidth.
    pub(super) bound: f64,
    /// Upper bound of the objective.
    pub(super) objective: f64,
}

/// One group of choices of one class.
pub(super) struct Slot<'c> {
    pub(super) class: usize,
    pub(super) group: &'c Group,
}

/// What does not change during a search.
pub(super) struct Ground<'s, 'a> {
    pub(super) scene: &'s Scene<'a>,
    pub(super) classes: &'s [HostClass],
    pub(super) gpus: usize,
    /// So many GPUs count as one rank of a ring.
    ranks_are: usize,
    unit: usize,
    uniform: bool,
    pub(super) jobs: Vec<Job>,
    /// Jobs by demand, least first.
    by_demand: Vec<usize>,
    /// Jobs by capacity, greatest first.
    by_capacity: Vec<usize>,
    /// `coverage[m]` usable hosts at most have one of any `m` jobs.
    coverage: Vec<usize>,
    pub(super) options: &'s SearchOptions<'s>,
}

/// Searches all cells; `host_counts` are the allowed numbers of hosts, each at least 2.
pub(super) fn across_hosts(
    scene: &Scene<'_>,
    classes: &[HostClass],
    request: &Request,
    host_counts: &[usize],
    options: &SearchOptions<'_>,
    found: &mut Incumbents<'_, '_>,
) -> End {
    let ground = Ground::new(scene, classes, request, options);
    let mut steps = 0;
    for cell in ground.cells(host_counts, found) {
        if found.rules_out(cell.objective, cell.hosts) {
            if found.rules_out(cell.objective, 0) {
                break;
            }
            continue;
        }
        let mut walk = Walk::new(&ground, &cell, found, steps);
        walk.run();
        steps = walk.steps;
        if walk.stopped {
            return End { bound: cell.objective, steps };
        }
    }
    End { bound: f64::NEG_INFINITY, steps }
}

impl<'s, 'a> Ground<'s, 'a> {
    pub(super) fn new(
        scene: &'s Scene<'a>,
        classes: &'s [HostClass],
        request: &Request,
        options: &'s SearchOptions<'s>,
    ) -> Self {
        let jobs = jobs::prepare(scene, classes);
        let mut by_demand: Vec<usize> = (0..jobs.len()).collect();
        let mut by_capacity = by_demand.clone();
        by_demand.sort_by(|&a, &b| jobs[a].demand.total_cmp(&jobs[b].demand));
        by_capacity.sort_by(|&a, &b| jobs[b].capacity.total_cmp(&jobs[a].capacity));
        let usable_hosts =
            |job: &Job| job.classes.iter().map(|(class, _)| classes[*class].hosts.len()).sum();
        let coverage = running_sums(jobs.iter().map(usable_hosts).collect());
        Self {
            scene,
            classes,
            gpus: request.gpus,
            ranks_are: scene.predictor().groups().map_or(1, Groups::unit),
            unit: request.multiple_of.max(1),
            uniform: request.uniform,
            jobs,
            by_demand,
            by_capacity,
            coverage,
            options,
        }
    }

    /// Upper bound of the effective bandwidth of a set that meets these jobs (with what is known of the meetings) and has at
    /// least `busy_hosts` hosts with running jobs.
    pub(super) fn beside(
        &self,
        isolated: f64,
        met: &[usize],
        mut meetings: SmallVec<[MeetingBound; 8]>,
        busy_hosts: usize,
    ) -> f64 {
        // So many jobs are needed to be on so many hosts; whichever they are, they demand at least what the
        // least demanding do, and one of them has at most the capacity of the last of the most capable.
        let needed = self.coverage.iter().position(|&hosts| hosts >= busy_hosts);
        let more = needed.unwrap_or(self.jobs.len()).saturating_sub(met.len());
        if more > 0 {
            let others = |order: &[usize]| -> SmallVec<[usize; 8]> {
                order.iter().copied().filter(|job| !met.contains(job)).take(more).collect()
            };
            let capacity = others(&self.by_capacity)
                .last()
                .map_or(f64::INFINITY, |&job| self.jobs[job].capacity);
            meetings.extend(
                others(&self.by_demand)
                    .into_iter()
                    .map(|job| MeetingBound { demand: self.jobs[job].demand, capacity }),
            );
        }
        self.scene.contention().bound(isolated, &meetings)
    }

    /// All cells that can hold a set, best bound first, then fewest hosts.
    pub(super) fn cells(&self, host_counts: &[usize], found: &Incumbents<'_, '_>) -> Vec<Cell> {
        let thresholds = self.thresholds();
        let mut cells: Vec<Cell> = Vec::new();
        for (least, injection, rails) in thresholds {
            let Some(span) = Span::new(self.classes, self.unit, least, injection) else { continue };
            for &hosts in host_counts {
                let possible = if self.uniform {
                    self.gpus == least * hosts && span.hosts() >= hosts
                } else {
                    span.holds(hosts, self.gpus, least)
                };
                if possible {
                    let mut cell = self.cell(&span, hosts, least, injection, rails);
                    cell.objective = found.objective_bound(cell.bound, cell.inner_seconds);
                    cells.push(cell);
                }
            }
        }
        cells.sort_by(|a, b| b.objective.total_cmp(&a.objective).then(a.hosts.cmp(&b.hosts)));
        cells
    }

    /// Every smallest share with every least injection bandwidth (and its rails) that can go together.
    fn thresholds(&self) -> Vec<(usize, f64, u8)> {
        let mut kinds: Vec<(usize, f64, u8)> = Vec::new();
        for group in self.classes.iter().flat_map(|class| &class.groups) {
            let share = &group.relaxed.share;
            let kind = (group.count, share.injection, share.rails);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mut thresholds: Vec<(usize, f64, u8)> = Vec::new();
        for &(weakest_count, injection, rails) in &kinds {
            for &(least, of_smallest, _) in &kinds {
                let threshold = (least, injection, rails);
                if least <= weakest_count
                    && of_smallest >= injection
                    && !thresholds.contains(&threshold)
                {
                    thresholds.push(threshold);
                }
            }
        }
        thresholds
    }

    fn cell(&self, span: &Span, hosts: usize, least: usize, injection: f64, rails: u8) -> Cell {
        let set = Aggregate {
            hosts,
            gpus: self.gpus,
            ranks: self.gpus / self.ranks_are,
            least_ranks: least / self.ranks_are,
            injection,
            rails,
            nic_per_gpu: span.nic_per_gpu,
            nic_rate: span.nic_rate,
            levels: 0,
            tree_plateau: span.tree_plateau,
            ring_plateau: span.ring_plateau,
            switch_cap: span.switch_cap,
            local_cap: f64::INFINITY,
            inner_seconds: span.inner_seconds,
            key: 0,
            size_key: 0,
        };
        let predictor = self.scene.predictor();
        let bounds = predictor.cross_bounds(&set, span.least_level, span.levels);
        let isolated = bounds.at(span.least_level, span.local_caps[hosts - 1]);
        let bound =
            self.beside(isolated, &[], SmallVec::new(), hosts.saturating_sub(span.quiet_hosts));
        Cell {
            hosts,
            least,
            injection,
            rails,
            bounds,
            least_level: span.least_level,
            isolated,
            inner_seconds: span.inner_seconds,
            bound,
            objective: f64::INFINITY,
        }
    }

    /// For each class, from it on: `sums[k]` GPUs can be had from the `k` largest hosts with at least `least`.
    pub(super) fn suffix_sums(&self, least: usize) -> Vec<Vec<usize>> {
        let from = |from: usize| {
            let hosts = self.classes[from..].iter().flat_map(|class| &class.hosts);
            let counts = hosts.map(|member| member.most / self.unit * self.unit);
            running_sums(counts.filter(|&c| c >= least).collect())
        };
        (0..=self.classes.len()).map(from).collect()
    }

    /// For each class, from it on: hosts without running jobs that can give at least `least`.
    pub(super) fn quiet_from(&self, least: usize) -> Vec<usize> {
        let mut hosts = vec![0; self.classes.len() + 1];
        for (at, class) in self.classes.iter().enumerate().rev() {
            let here = if class.jobs.is_empty() {
                class.available.get(least).copied().unwrap_or(0)
            } else {
                0
            };
            hosts[at] = hosts[at + 1] + here;
        }
        hosts
    }

    /// The groups that a cell may use, class by class, most GPUs first.
    pub(super) fn slots(&self, cell: &Cell) -> Vec<Slot<'s>> {
        let mut slots = Vec::new();
        for (class, of_class) in self.classes.iter().enumerate() {
            for group in &of_class.groups {
                let right_count = if self.uniform {
                    group.count == cell.least
                } else {
                    group.count >= cell.least
                };
                if right_count && group.relaxed.share.injection >= cell.injection {
                    slots.push(Slot { class, group });
                }
            }
        }
        slots
    }
}

/// What the hosts that can give at least so many GPUs at so much injection bandwidth have in common.
#[derive(Default)]
struct Span {
    /// `sums[k]` GPUs can be had from the `k` largest hosts.
    sums: Vec<usize>,
    /// `local_caps[k - 1]`: with `k` hosts the least local bandwidth is at most this.
    local_caps: Vec<f64>,
    tree_plateau: f64,
    ring_plateau: f64,
    nic_per_gpu: f64,
    nic_rate: f64,
    inner_seconds: f64,
    /// Bound of the least NVSwitch bandwidth of a share.
    switch_cap: f64,
    levels: u8,
    least_level: u8,
    /// Hosts without any running cross-host job.
    quiet_hosts: usize,
}

impl Span {
    fn new(classes: &[HostClass], unit: usize, least: usize, injection: f64) -> Option<Self> {
        let mut counts: Vec<usize> = Vec::new();
        let mut local_caps: Vec<f64> = Vec::new();
        let mut span = Self { inner_seconds: f64::INFINITY, ..Self::default() };
        let (mut levels, mut least_levels) = (0_u8, 0_u8);
        let mut quiet_hosts = 0;
        for class in classes {
            let mut best_local = 0.0_f64;
            let usable = class
                .groups
                .iter()
                .filter(|g| g.count >= least && g.relaxed.share.injection >= injection);
            for group in usable {
                let share = &group.relaxed.share;
                best_local = best_local.max(share.local_cap);
                span.tree_plateau = span.tree_plateau.max(share.tree_plateau);
                span.ring_plateau = span.ring_plateau.max(share.ring_plateau);
                span.nic_per_gpu = span.nic_per_gpu.max(share.nic_per_gpu);
                span.nic_rate = span.nic_rate.max(share.nic_rate);
                span.inner_seconds = span.inner_seconds.min(share.inner_seconds);
                levels |= share.level;
                if group.count == least {
                    span.switch_cap = span.switch_cap.max(share.switch_cap);
                    least_levels |= share.level;
                }
            }
            for member in class.hosts.iter().filter(|member| member.most >= least) {
                counts.push(member.most / unit * unit);
                local_caps.push(best_local);
                quiet_hosts += usize::from(class.jobs.is_empty());
            }
        }
        if least_levels == 0 {
            return None;
        }
        local_caps.sort_unstable_by(|a, b| b.total_cmp(a));
        span.sums = running_sums(counts);
        // With hosts of unlike sizes the smallest share need not have the lowest level.
        span.least_level = if levels_follow_counts(classes) { least_levels } else { 0 };
        Some(Self { local_caps, levels, quiet_hosts, ..span })
    }

    fn hosts(&self) -> usize {
        self.sums.len() - 1
    }

    fn holds(&self, hosts: usize, gpus: usize, least: usize) -> bool {
        hosts <= self.hosts() && hosts * least <= gpus && gpus <= self.sums[hosts]
    }
}

/// `sums[k]` is the sum of the `k` largest counts.
fn running_sums(mut counts: Vec<usize>) -> Vec<usize> {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let mut sums = vec![0];
    for count in counts {
        sums.push(sums[sums.len() - 1] + count);
    }
    sums
}

/// True if fewer GPUs never mean a higher level, whichever hosts they are on.
fn levels_follow_counts(classes: &[HostClass]) -> bool {
    let mut levels: Vec<(usize, u8)> = classes
        .iter()
        .flat_map(|class| &class.groups)
        .map(|group| (group.count, group.relaxed.share.level))
        .collect();
    levels.sort_unstable();
    levels.dedup();
    levels.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
}
