//! Sets that span hosts: cells in the order of their bounds, and inside a cell the classes' choices.

use bandpilot_core::{HostId, Placement, Request};
use bandpilot_model::{Aggregate, CrossBounds, MeetingBound};

use crate::classes::{Choice, HostClass};
use crate::scene::Scene;
use crate::search::SearchOptions;
use crate::search::state::Incumbents;

/// How the search ended.
pub(super) struct End {
    /// Nothing unseen is worth more than this.
    pub(super) bound: f64,
    /// Steps taken.
    pub(super) steps: u64,
}

/// Sets with this many hosts, this smallest share and this least injection bandwidth.
struct Cell {
    hosts: usize,
    least: usize,
    injection: f64,
    rails: u8,
    bounds: CrossBounds,
    /// The level of the smallest share where all hosts have the same number of GPUs, else 0.
    least_level: u8,
    bound: f64,
}

/// One choice of one class.
struct Slot<'c> {
    class: usize,
    choice: &'c Choice,
}

/// What does not change during a search.
struct Ground<'s, 'a> {
    scene: &'s Scene<'a>,
    classes: &'s [HostClass],
    gpus: usize,
    uniform: bool,
    job_bounds: Vec<MeetingBound>,
    options: &'s SearchOptions<'s>,
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
        walk.visit(0);
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
        for choice in self.classes.iter().flat_map(|class| &class.choices) {
            let kind = (choice.count, choice.share.injection, choice.share.rails);
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
        };
        let predictor = self.scene.predictor();
        let bounds = predictor.cross_bounds(&set, span.least_level, span.levels);
        let bound = bounds.at(span.least_level, span.local_caps[hosts - 1]);
        Cell { hosts, least, injection, rails, bounds, least_level: span.least_level, bound }
    }

    /// The choices that a cell may use, class by class, most GPUs first.
    fn slots(&self, cell: &Cell) -> Vec<Slot<'s>> {
        let mut slots = Vec::new();
        for (class, of_class) in self.classes.iter().enumerate() {
            for choice in &of_class.choices {
                let right_count = if self.uniform {
                    choice.count == cell.least
                } else {
                    choice.count >= cell.least
                };
                if right_count && choice.share.injection >= cell.injection {
                    slots.push(Slot { class, choice });
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
}

impl Span {
    fn new(classes: &[HostClass], least: usize, injection: f64) -> Option<Self> {
        let mut counts: Vec<usize> = Vec::new();
        let mut local_caps: Vec<f64> = Vec::new();
        let (mut plateau, mut switch_cap) = (0.0_f64, 0.0_f64);
        let (mut levels, mut least_levels) = (0_u8, 0_u8);
        for class in classes {
            let mut best_local = 0.0_f64;
            let usable =
                class.choices.iter().filter(|c| c.count >= least && c.share.injection >= injection);
            for choice in usable {
                best_local = best_local.max(choice.share.local_cap);
                plateau = plateau.max(choice.share.plateau);
                levels |= choice.share.level;
                if choice.count == least {
                    switch_cap = switch_cap.max(choice.share.switch_cap);
                    least_levels |= choice.share.level;
                }
            }
            for (_, free) in class.hosts.iter().filter(|(_, free)| free.count() >= least) {
                counts.push(free.count());
                local_caps.push(best_local);
            }
        }
        if least_levels == 0 {
            return None;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        local_caps.sort_unstable_by(|a, b| b.total_cmp(a));
        let mut sums = vec![0];
        for count in counts {
            sums.push(sums[sums.len() - 1] + count);
        }
        // With hosts of unlike sizes the smallest share need not have the lowest level.
        let one_size = classes.iter().all(|class| alike_levels(class, &classes[0]));
        let least_level = if one_size { least_levels } else { 0 };
        Some(Self { sums, local_caps, plateau, switch_cap, levels, least_level })
    }

    fn hosts(&self) -> usize {
        self.sums.len() - 1
    }

    fn holds(&self, hosts: usize, gpus: usize, least: usize) -> bool {
        hosts <= self.hosts() && hosts * least <= gpus && gpus <= self.sums[hosts]
    }
}

/// True if equal counts have equal levels in both classes.
fn alike_levels(a: &HostClass, b: &HostClass) -> bool {
    a.choices.iter().all(|x| {
        b.choices.iter().filter(|y| y.count == x.count).all(|y| y.share.level == x.share.level)
    })
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
        .map(|job| {
            let mut widest = Aggregate::EMPTY;
            let mut fewest_rails = u8::MAX;
            let mut most_rails = 1;
            let mut allowed = 0;
            for (host, mask) in job.placement.shares() {
                let alone = predictor.share(*host, *mask);
                let full = predictor.share(*host, mask.union(free_on(*host)));
                widest = widest.with(&full, 1);
                fewest_rails = fewest_rails.min(alone.rails);
                most_rails = most_rails.max(full.rails);
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
                    predictor.cross_bounds(&set, 0, allowed).at(0, f64::INFINITY)
                })
                .fold(0.0, f64::max);
            MeetingBound { demand: job.demand, capacity }
        })
        .collect()
}

/// The walk through one cell.
struct Walk<'w, 's, 'a, 'f, 'fs, 'fa> {
    ground: &'w Ground<'s, 'a>,
    cell: &'w Cell,
    slots: Vec<Slot<'s>>,
    /// For each class, from it on: `sums[k]` GPUs can be had from the `k` largest hosts.
    suffix_sums: Vec<Vec<usize>>,
    found: &'f mut Incumbents<'fs, 'fa>,
    discount: f64,
    chosen: Vec<(usize, usize)>,
    set: Aggregate,
    smallest: usize,
    steps: u64,
    stopped: bool,
}

impl<'w, 's, 'a, 'f, 'fs, 'fa> Walk<'w, 's, 'a, 'f, 'fs, 'fa> {
    fn new(
        ground: &'w Ground<'s, 'a>,
        cell: &'w Cell,
        found: &'f mut Incumbents<'fs, 'fa>,
        steps: u64,
    ) -> Self {
        let discount = found.least_discount();
        let suffix_sums = (0..=ground.classes.len())
            .map(|from| {
                let mut counts: Vec<usize> = ground.classes[from..]
                    .iter()
                    .flat_map(|class| &class.hosts)
                    .map(|(_, free)| free.count())
                    .filter(|&count| count >= cell.least)
                    .collect();
                counts.sort_unstable_by(|a, b| b.cmp(a));
                let mut sums = vec![0];
                for count in counts {
                    sums.push(sums[sums.len() - 1] + count);
                }
                sums
            })
            .collect();
        Self {
            slots: ground.slots(cell),
            ground,
            cell,
            suffix_sums,
            found,
            discount,
            chosen: Vec::new(),
            set: Aggregate::EMPTY,
            smallest: usize::MAX,
            steps,
            stopped: false,
        }
    }

    /// Decides how many hosts take the choice of slot `at`, most first, and goes on.
    fn visit(&mut self, at: usize) {
        let hosts_left = self.cell.hosts - self.set.hosts;
        let gpus_left = self.ground.gpus - self.set.gpus;
        if hosts_left == 0 {
            if gpus_left == 0 {
                self.complete();
            }
            return;
        }
        if at == self.slots.len() || self.out_of_budget() {
            return;
        }
        let (class, count) = (self.slots[at].class, self.slots[at].choice.count);
        let sums = &self.suffix_sums[class];
        if hosts_left >= sums.len()
            || gpus_left > sums[hosts_left]
            || gpus_left < hosts_left * self.cell.least
            || (self.slots[self.slots.len() - 1].class == class && gpus_left > hosts_left * count)
            || self.found.rules_out(self.bound() * self.discount, self.cell.hosts)
        {
            return;
        }
        let of_class = &self.ground.classes[class];
        let used: usize = self
            .chosen
            .iter()
            .rev()
            .take_while(|(slot, _)| self.slots[*slot].class == class)
            .map(|(_, times)| times)
            .sum();
        // What is left after this must still be enough for the least share of every other host.
        let spare = gpus_left - (hosts_left - 1) * self.cell.least;
        let most = if count > spare {
            0
        } else {
            (of_class.available[count] - used).min(hosts_left).min(gpus_left / count)
        };
        let before = (self.set, self.smallest);
        for times in (0..=most).rev() {
            if times > 0 {
                self.set = before.0.with(&self.slots[at].choice.share, times);
                self.smallest = before.1.min(count);
                self.chosen.push((at, times));
                self.visit(at + 1);
                self.chosen.pop();
            } else {
                (self.set, self.smallest) = before;
                self.visit(at + 1);
            }
            if self.stopped {
                break;
            }
        }
        (self.set, self.smallest) = before;
    }

    fn out_of_budget(&mut self) -> bool {
        self.steps += 1;
        let options = self.ground.options;
        if self.steps > options.most_steps
            || (self.steps.is_multiple_of(256) && (options.should_stop)())
        {
            self.stopped = true;
        }
        self.stopped
    }

    /// Upper bound of the effective bandwidth of everything below.
    fn bound(&self) -> f64 {
        let levels = self.set.levels | self.cell.least_level;
        let isolated = self.cell.bounds.at(levels, self.set.local_cap).min(self.cell.bound);
        let met = self.met();
        if met.is_empty() {
            return isolated;
        }
        let bounds: Vec<MeetingBound> =
            met.into_iter().map(|job| self.ground.job_bounds[job]).collect();
        self.ground.scene.contention().bound(isolated, &bounds)
    }

    /// Running jobs on the hosts chosen so far.
    fn met(&self) -> Vec<usize> {
        let mut met: Vec<usize> = self
            .chosen
            .iter()
            .flat_map(|(slot, _)| &self.ground.classes[self.slots[*slot].class].jobs)
            .copied()
            .collect();
        met.sort_unstable();
        met.dedup();
        met
    }

    /// All hosts are chosen: weighs the set.
    fn complete(&mut self) {
        if self.smallest != self.cell.least
            || self.set.injection != self.cell.injection
            || self.set.rails != self.cell.rails
        {
            return;
        }
        let isolated = self.ground.scene.predictor().cross(&self.set);
        if !self.found.rules_out(isolated * self.discount, self.cell.hosts) {
            let placement = self.placement();
            self.found.offer(placement);
        }
    }

    /// Concrete hosts: for each choice, largest first, those with the fewest GPUs that suffice.
    fn placement(&self) -> Placement {
        let mut shares = Vec::with_capacity(self.cell.hosts);
        let mut at = 0;
        while at < self.chosen.len() {
            let class = self.slots[self.chosen[at].0].class;
            let of_class = &self.ground.classes[class];
            let mut taken = vec![false; of_class.hosts.len()];
            while let Some((slot, times)) = self.chosen.get(at)
                && self.slots[*slot].class == class
            {
                let choice = self.slots[*slot].choice;
                for _ in 0..*times {
                    let fits =
                        |i: &usize| !taken[*i] && of_class.hosts[*i].1.count() >= choice.count;
                    if let Some(i) = (0..taken.len()).find(fits) {
                        taken[i] = true;
                        let (host, free) = of_class.hosts[i];
                        shares.push((host, choice.mask.unwrap_or(free.lowest(choice.count))));
                    }
                }
                at += 1;
            }
        }
        Placement::new(shares)
    }
}
