//! Sets that span hosts: cells in the order of their bounds.

use bandpilot_core::{HostId, Request};
use bandpilot_model::{Aggregate, CrossBounds, MeetingBound, Share};

use crate::classes::{Group, HostClass};
use crate::scene::Scene;
use crate::search::SearchOptions;
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
    /// Upper bound of the effective bandwidth.
    pub(super) bound: f64,
}

/// One group of choices of one class.
pub(super) struct Slot<'c> {
    pub(super) class: usize,
    pub(super) group: &'c Group,
}

/// Where a running job is, by classes.
pub(super) struct JobPlaces {
    /// Class, and the job's position in the class's list of jobs.
    pub(super) classes: Vec<(usize, usize)>,
    /// Its shares on hosts without a usable GPU.
    pub(super) elsewhere: Aggregate,
}

/// What does not change during a search.
pub(super) struct Ground<'s, 'a> {
    pub(super) scene: &'s Scene<'a>,
    pub(super) classes: &'s [HostClass],
    pub(super) gpus: usize,
    uniform: bool,
    pub(super) job_bounds: Vec<MeetingBound>,
    pub(super) job_places: Vec<JobPlaces>,
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
    let ground = Ground {
        scene,
        classes,
        gpus: request.gpus,
        uniform: request.uniform,
        job_bounds: job_bounds(scene, classes),
        job_places: job_places(scene, classes),
        options,
    };
    let discount = found.least_discount();
    let mut steps = 0;
    for cell in ground.cells(host_counts) {
        if found.rules_out(cell.bound * discount, cell.hosts) {
            if found.rules_out(cell.bound * discount, 0) {
                break;
            }
            continue;
        }
        let mut walk = Walk::new(&ground, &cell, found, steps);
        walk.run();
        steps = walk.steps;
        if walk.stopped {
            return End { bound: cell.bound * discount, steps };
        }
    }
    End { bound: f64::NEG_INFINITY, steps }
}

impl<'s> Ground<'s, '_> {
    /// All cells that can hold a set, best bound first, then fewest hosts.
    fn cells(&self, host_counts: &[usize]) -> Vec<Cell> {
        let thresholds = self.thresholds();
        let mut cells: Vec<Cell> = Vec::new();
        for (least, injection, rails) in thresholds {
            let Some(span) = Span::new(self.classes, least, injection) else { continue };
            for &hosts in host_counts {
                let possible = if self.uniform {
                    self.gpus == least * hosts && span.hosts() >= hosts
                } else {
                    span.holds(hosts, self.gpus, least)
                };
                if possible {
                    cells.push(self.cell(&span, hosts, least, injection, rails));
                }
            }
        }
        cells.sort_by(|a, b| b.bound.total_cmp(&a.bound).then(a.hosts.cmp(&b.hosts)));
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
            injection,
            rails,
            levels: 0,
            plateau: span.plateau,
            switch_cap: span.switch_cap,
            local_cap: f64::INFINITY,
            key: 0,
            size_key: 0,
        };
        let predictor = self.scene.predictor();
        let bounds = predictor.cross_bounds(&set, span.least_level, span.levels);
        let isolated = bounds.at(span.least_level, span.local_caps[hosts - 1]);
        let bound = if hosts > span.quiet_hosts { self.beside_a_job(isolated) } else { isolated };
        Cell {
            hosts,
            least,
            injection,
            rails,
            bounds,
            least_level: span.least_level,
            isolated,
            bound,
        }
    }

    /// Upper bound for sets that meet at least one running job.
    fn beside_a_job(&self, isolated: f64) -> f64 {
        let contention = self.scene.contention();
        self.job_bounds
            .iter()
            .map(|job| contention.bound(isolated, std::slice::from_ref(job)))
            .fold(0.0, f64::max)
    }

    /// For each class, from it on: `sums[k]` GPUs can be had from the `k` largest hosts with at least `least`.
    pub(super) fn suffix_sums(&self, least: usize) -> Vec<Vec<usize>> {
        let from = |from: usize| {
            let hosts = self.classes[from..].iter().flat_map(|class| &class.hosts);
            running_sums(hosts.map(|(_, free)| free.count()).filter(|&c| c >= least).collect())
        };
        (0..=self.classes.len()).map(from).collect()
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
struct Span {
    /// `sums[k]` GPUs can be had from the `k` largest hosts.
    sums: Vec<usize>,
    /// `local_caps[k - 1]`: with `k` hosts the least local bandwidth is at most this.
    local_caps: Vec<f64>,
    plateau: f64,
    /// Bound of the least NVSwitch bandwidth of a share.
    switch_cap: f64,
    levels: u8,
    least_level: u8,
    /// Hosts without any running cross-host job.
    quiet_hosts: usize,
}

impl Span {
    fn new(classes: &[HostClass], least: usize, injection: f64) -> Option<Self> {
        let mut counts: Vec<usize> = Vec::new();
        let mut local_caps: Vec<f64> = Vec::new();
        let (mut plateau, mut switch_cap) = (0.0_f64, 0.0_f64);
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
                plateau = plateau.max(share.plateau);
                levels |= share.level;
                if group.count == least {
                    switch_cap = switch_cap.max(share.switch_cap);
                    least_levels |= share.level;
                }
            }
            for (_, free) in class.hosts.iter().filter(|(_, free)| free.count() >= least) {
                counts.push(free.count());
                local_caps.push(best_local);
                quiet_hosts += usize::from(class.jobs.is_empty());
            }
        }
        if least_levels == 0 {
            return None;
        }
        local_caps.sort_unstable_by(|a, b| b.total_cmp(a));
        let sums = running_sums(counts);
        // With hosts of unlike sizes the smallest share need not have the lowest level.
        let one_size = classes.iter().all(|class| alike_levels(class, &classes[0]));
        let least_level = if one_size { least_levels } else { 0 };
        Some(Self { sums, local_caps, plateau, switch_cap, levels, least_level, quiet_hosts })
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

/// True if equal counts have equal levels in both classes.
fn alike_levels(a: &HostClass, b: &HostClass) -> bool {
    let level = |group: &Group| (group.count, group.relaxed.share.level);
    a.groups.iter().map(level).all(|(count, of_a)| {
        b.groups.iter().map(level).filter(|(c, _)| *c == count).all(|(_, of_b)| of_a == of_b)
    })
}

/// Best local bandwidth that a job's GPUs on a host can have alone or merged with a new set's.
fn best_union(classes: &[HostClass], host: HostId, job: usize, alone: &Share) -> f64 {
    let class = classes.iter().find(|class| class.hosts.iter().any(|(h, _)| *h == host));
    let position = |class: &HostClass| class.jobs.iter().position(|&j| j == job);
    class.and_then(|class| Some((class, position(class)?))).map_or(
        alone.local_cap,
        |(class, position)| {
            let merged = class.groups.iter().map(|g| g.relaxed.unions[position].local_cap);
            merged.fold(alone.local_cap, f64::max)
        },
    )
}

fn job_places(scene: &Scene<'_>, classes: &[HostClass]) -> Vec<JobPlaces> {
    scene
        .jobs()
        .iter()
        .enumerate()
        .map(|(job, of_job)| {
            let position = |class: &HostClass| class.jobs.iter().position(|&j| j == job);
            let in_classes: Vec<(usize, usize)> = classes
                .iter()
                .enumerate()
                .filter_map(|(at, class)| Some((at, position(class)?)))
                .collect();
            let usable = |host: HostId| {
                in_classes.iter().any(|(at, _)| classes[*at].hosts.iter().any(|(h, _)| *h == host))
            };
            let elsewhere = of_job
                .placement
                .shares()
                .iter()
                .filter(|(host, _)| !usable(*host))
                .fold(Aggregate::EMPTY, |set, (host, mask)| {
                    set.with(&scene.predictor().share(*host, *mask), 1)
                });
            JobPlaces { classes: in_classes, elsewhere }
        })
        .collect()
}

/// Per running job an upper bound of the capacity that a set meeting it can share with it.
fn job_bounds(scene: &Scene<'_>, classes: &[HostClass]) -> Vec<MeetingBound> {
    let free_on = |host: HostId| {
        classes
            .iter()
            .flat_map(|class| &class.hosts)
            .find(|(h, _)| *h == host)
            .map(|(_, free)| *free)
            .unwrap_or_default()
    };
    let predictor = scene.predictor();
    scene
        .jobs()
        .iter()
        .enumerate()
        .map(|(index, job)| {
            let mut widest = Aggregate::EMPTY;
            let mut local_cap = f64::INFINITY;
            let mut fewest_rails = u8::MAX;
            let mut most_rails = 1;
            let mut allowed = 0;
            for (host, mask) in job.placement.shares() {
                let alone = predictor.share(*host, *mask);
                let full = predictor.share(*host, mask.union(free_on(*host)));
                widest = widest.with(&full, 1);
                fewest_rails = fewest_rails.min(alone.rails);
                most_rails = most_rails.max(full.rails);
                local_cap = local_cap.min(best_union(classes, *host, index, &alone));
                allowed |= (full.level << 1).wrapping_sub(1) & !(alone.level - 1);
            }
            let set = |gpus: usize, rails: u8| Aggregate {
                gpus,
                rails,
                local_cap: f64::INFINITY,
                switch_cap: f64::INFINITY,
                ..widest
            };
            // Latency makes neither the fewest nor the most GPUs surely the fastest.
            let fastest = (job.placement.gpus()..=widest.gpus)
                .max_by(|a, b| {
                    let value = |gpus| predictor.closed_form(&set(gpus, 1));
                    value(*a).total_cmp(&value(*b))
                })
                .unwrap_or(widest.gpus);
            let capacity = (fewest_rails..=most_rails)
                .map(|rails| {
                    let set = set(fastest, rails);
                    predictor.cross_bounds(&set, 0, allowed).at(0, local_cap)
                })
                .fold(0.0, f64::max);
            MeetingBound { demand: job.demand, capacity }
        })
        .collect()
}
