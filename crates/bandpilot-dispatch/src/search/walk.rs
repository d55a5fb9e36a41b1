//! The walk through one cell.
//!
//! First over how many hosts of each class take how many GPUs, with every local bandwidth at its best: that gives
//! an upper bound for each way to split the GPUs over classes. Then, best bound first, over which GPUs
//! of the PCIe and mesh hosts they are, until no bound is left above the best set.

use bandpilot_core::Placement;
use bandpilot_model::{Aggregate, Meeting, MeetingBound, Share};

use smallvec::SmallVec;

use crate::classes::{Choice, Member};
use crate::search::cells::{Cell, Ground, Slot};
use crate::search::leaving::{Key, Outlook};
use crate::search::state::Incumbents;

/// So many hosts take this choice.
struct Pick<'c> {
    class: usize,
    times: usize,
    choice: &'c Choice,
}

/// Few enough to need no allocation on small clusters.
type Picks<'c> = SmallVec<[Pick<'c>; 8]>;
type Indexes = SmallVec<[usize; 8]>;

/// A complete split over classes whose GPUs are still open.
struct Split {
    bound: f64,
    /// What it leaves, if that counts.
    left: Option<Key>,
    /// Slot and number of hosts.
    chosen: Vec<(usize, usize)>,
}

pub(super) struct Walk<'w, 's, 'a, 'f, 'fs, 'fa> {
    ground: &'w Ground<'s, 'a>,
    cell: &'w Cell,
    slots: Vec<Slot<'s>>,
    /// For each slot, the first slot of the next class.
    next_class: Vec<usize>,
    /// For each class, from it on: `sums[k]` GPUs can be had from the `k` largest hosts.
    suffix_sums: Vec<Vec<usize>>,
    /// For each class, from it on: hosts without running jobs that can give the cell's least share.
    quiet_from: Vec<usize>,
    found: &'f mut Incumbents<'fs, 'fa>,
    chosen: Vec<(usize, usize)>,
    set: Aggregate,
    smallest: usize,
    open: Vec<Split>,
    /// Where what a set leaves counts.
    outlook: Option<&'w Outlook<'w>>,
    pub(super) steps: u64,
    pub(super) stopped: bool,
}

impl<'w, 's, 'a, 'f, 'fs, 'fa> Walk<'w, 's, 'a, 'f, 'fs, 'fa> {
    pub(super) fn new(
        ground: &'w Ground<'s, 'a>,
        cell: &'w Cell,
        found: &'f mut Incumbents<'fs, 'fa>,
        steps: u64,
    ) -> Self {
        let slots = ground.slots(cell);
        let next_class = slots
            .iter()
            .map(|slot| slots.partition_point(|other| other.class <= slot.class))
            .collect();
        Self {
            slots,
            next_class,
            suffix_sums: ground.suffix_sums(cell.least),
            quiet_from: ground.quiet_from(cell.least),
            ground,
            cell,
            found,
            chosen: Vec::new(),
            set: Aggregate::EMPTY,
            smallest: usize::MAX,
            open: Vec::new(),
            outlook: None,
            steps,
            stopped: false,
        }
    }

    /// With an eye on what sets leave.
    pub(super) fn looking_at(self, outlook: &'w Outlook<'w>) -> Self {
        Self { outlook: Some(outlook), ..self }
    }

    pub(super) fn run(&mut self) {
        self.visit(0, true);
        let mut open = std::mem::take(&mut self.open);
        open.sort_by(|a, b| a.left.cmp(&b.left).then(b.bound.total_cmp(&a.bound)));
        for split in open {
            if self.stopped {
                break;
            }
            if !self.found.rules_out(split.bound, self.cell.hosts) {
                self.expand(&split, 0, &mut Picks::new());
            }
        }
    }

    /// True if all that is left to decide leaves too much; classes before `next` are decided.
    fn leaves_too_much(&self, next: usize) -> bool {
        let Some(outlook) = self.outlook else { return false };
        let left = self.left(outlook, next);
        left.is_none_or(|left| self.found.leaves_too_much(left))
    }

    fn left(&self, outlook: &Outlook<'_>, next: usize) -> Option<Key> {
        let chosen = self.chosen.iter().map(|&(slot, times)| {
            let Slot { class, group } = &self.slots[slot];
            (*class, group.count, times)
        });
        let (hosts, gpus) = (self.cell.hosts - self.set.hosts, self.ground.gpus - self.set.gpus);
        outlook.at_least(chosen, next, hosts, gpus)
    }

    /// True if no set with at most this effective bandwidth and at least so much going on inside its hosts is wanted.
    fn rules_out(&self, bound: f64, inner_seconds: f64) -> bool {
        self.found.rules_out(self.found.objective_bound(bound, inner_seconds), self.cell.hosts)
    }

    /// Decides how many hosts take slot `at`, most first, and goes on. `fresh`: something was chosen since the bound was
    /// last looked at.
    fn visit(&mut self, at: usize, fresh: bool) {
        let hosts_left = self.cell.hosts - self.set.hosts;
        let gpus_left = self.ground.gpus - self.set.gpus;
        if hosts_left == 0 {
            if gpus_left == 0 && !self.leaves_too_much(self.ground.classes.len()) {
                self.complete();
            }
            return;
        }
        if at == self.slots.len() || self.out_of_budget(self.work_of_bound(fresh)) {
            return;
        }
        let (class, count) = (self.slots[at].class, self.slots[at].group.count);
        let sums = &self.suffix_sums[class];
        let last_class = self.slots[self.slots.len() - 1].class == class;
        if hosts_left >= sums.len()
            || gpus_left > sums[hosts_left]
            || gpus_left < hosts_left * self.cell.least
            || (last_class && gpus_left > hosts_left * count)
            || self.leaves_too_much(class)
            || (fresh
                && self.rules_out(
                    self.bound(class),
                    self.set.inner_seconds.max(self.cell.inner_seconds),
                ))
        {
            return;
        }
        let used = self.used(class);
        if used == self.ground.classes[class].hosts.len() {
            self.visit(self.next_class[at], false);
            return;
        }
        // What is left after this must still be enough for the least share of every other host.
        let spare = gpus_left - (hosts_left - 1) * self.cell.least;
        let most = if count > spare {
            0
        } else {
            let free = self.ground.classes[class].available[count] - used;
            free.min(hosts_left).min(gpus_left / count)
        };
        let before = (self.set, self.smallest);
        for times in (0..=most).rev() {
            (self.set, self.smallest) = before;
            if times > 0 {
                self.set = before.0.with(&self.slots[at].group.relaxed.share, times);
                self.smallest = before.1.min(count);
                self.chosen.push((at, times));
            }
            self.visit(at + 1, times > 0);
            if times > 0 {
                self.chosen.pop();
            }
            if self.stopped {
                break;
            }
        }
        (self.set, self.smallest) = before;
    }

    /// Hosts of the class that are taken so far.
    fn used(&self, class: usize) -> usize {
        self.chosen
            .iter()
            .rev()
            .take_while(|(slot, _)| self.slots[*slot].class == class)
            .map(|(_, times)| times)
            .sum()
    }

    /// What looking at the bound costs: it goes through the choices for each running job that may be met.
    fn work_of_bound(&self, fresh: bool) -> usize {
        let fresh = fresh || self.outlook.is_some();
        if fresh { 1 + self.chosen.len() * (1 + self.ground.jobs.len().min(16)) / 2 } else { 1 }
    }

    /// Counts work, in steps of 10 to 100 ns.
    fn out_of_budget(&mut self, work: usize) -> bool {
        let before = self.steps;
        self.steps += work as u64;
        let options = self.ground.options;
        if self.steps > options.most_steps
            || (before / 256 != self.steps / 256 && (options.should_stop)())
        {
            self.stopped = true;
        }
        self.stopped
    }

    /// Upper bound of the effective bandwidth of everything below; classes before `next` are decided.
    fn bound(&self, next: usize) -> f64 {
        let levels = self.set.levels | self.cell.least_level;
        let isolated = self.cell.bounds.at(levels, self.set.local_cap).min(self.cell.isolated);
        if self.ground.jobs.is_empty() {
            return isolated;
        }
        let classes = self.chosen.iter().map(|(slot, _)| self.slots[*slot].class);
        let quiet = |class: usize| self.ground.classes[class].jobs.is_empty();
        let decided: usize = self
            .chosen
            .iter()
            .filter(|(slot, _)| self.slots[*slot].class < next && quiet(self.slots[*slot].class))
            .map(|(_, times)| times)
            .sum();
        let quiet_hosts = decided + self.quiet_from[next];
        let busy_hosts = self.cell.hosts.saturating_sub(quiet_hosts);
        let met = self.met(classes);
        let meetings = met.iter().map(|&job| self.meeting_bound(job, next)).collect();
        self.ground.beside(isolated, &met, meetings, busy_hosts)
    }

    /// What can be shared with a running job: on hosts of decided classes that are not chosen it keeps what it has.
    fn meeting_bound(&self, job: usize, next: usize) -> MeetingBound {
        let of_job = &self.ground.jobs[job];
        let mut injection = of_job.elsewhere.injection;
        for &(class, position) in of_job.classes.iter().filter(|(class, _)| *class < next) {
            let of_class = &self.ground.classes[class];
            let mut alone = of_class.hosts.len();
            for (slot, times) in &self.chosen {
                if self.slots[*slot].class == class {
                    let union = &self.slots[*slot].group.relaxed.unions[position];
                    injection = injection.min(union.injection);
                    alone -= times;
                }
            }
            if alone > 0 {
                injection = injection.min(of_class.job_shares[position].injection);
            }
        }
        let predictor = self.ground.scene.predictor();
        MeetingBound { demand: of_job.demand, capacity: of_job.capacity_at(predictor, injection) }
    }

    /// Running jobs on the hosts of these classes, ascending.
    fn met(&self, classes: impl Iterator<Item = usize>) -> Indexes {
        let mut met = Indexes::new();
        for class in classes {
            for &job in &self.ground.classes[class].jobs {
                if !met.contains(&job) {
                    met.push(job);
                }
            }
        }
        met.sort_unstable();
        met
    }

    /// All hosts are chosen: weighs the split, or keeps it for later if its GPUs are open.
    fn complete(&mut self) {
        if self.smallest != self.cell.least
            || self.set.injection != self.cell.injection
            || self.set.rails != self.cell.rails
        {
            return;
        }
        let picks = self.relaxed(&self.chosen);
        if self.chosen.iter().all(|(slot, _)| self.slots[*slot].group.choices.len() == 1) {
            self.weigh(&picks);
            return;
        }
        let bound = self.relaxed_objective(&picks);
        self.out_of_budget(2 * picks.len());
        if !self.found.rules_out(bound, self.cell.hosts) {
            let last = self.ground.classes.len();
            let left = self.outlook.and_then(|outlook| self.left(outlook, last));
            self.open.push(Split { bound, left, chosen: self.chosen.clone() });
        }
    }

    fn relaxed(&self, chosen: &[(usize, usize)]) -> Picks<'s> {
        chosen
            .iter()
            .map(|&(slot, times)| Pick {
                class: self.slots[slot].class,
                times,
                choice: &self.slots[slot].group.relaxed,
            })
            .collect()
    }

    /// Decides which choices of their groups the hosts of `split.chosen[at..]` take; `picks` holds what was decided before.
    fn expand(&mut self, split: &Split, at: usize, picks: &mut Picks<'s>) {
        let Some(&(slot, times)) = split.chosen.get(at) else {
            self.weigh(picks);
            return;
        };
        let group = self.slots[slot].group;
        self.share_out(split, at, times, &group.choices, picks);
    }

    /// Shares `left` hosts of `split.chosen[at]` out over the choices, in every way that can still win.
    fn share_out(
        &mut self,
        split: &Split,
        at: usize,
        left: usize,
        choices: &'s [Choice],
        picks: &mut Picks<'s>,
    ) {
        let Some((choice, rest)) = choices.split_first() else { return };
        let class = self.slots[split.chosen[at].0].class;
        // The last choice must take all that are left.
        let least = if rest.is_empty() { left } else { 0 };
        for times in (least..=left).rev() {
            // A set that was found since may leave as little.
            let leaves_too_much = split.left.is_some_and(|left| self.found.leaves_too_much(left));
            if leaves_too_much || self.out_of_budget(1 + picks.len()) {
                return;
            }
            let depth = picks.len();
            if times > 0 {
                picks.push(Pick { class, times, choice });
            }
            if times < left {
                self.share_out(split, at, left - times, rest, picks);
            } else {
                let decided = picks.len();
                picks.extend(self.relaxed(&split.chosen[at + 1..]));
                let bound = self.relaxed_objective(picks);
                picks.truncate(decided);
                if !self.found.rules_out(bound, self.cell.hosts) {
                    self.expand(split, at + 1, picks);
                }
            }
            picks.truncate(depth);
        }
    }

    /// Upper bound of the objective of picks of which some are relaxed.
    fn relaxed_objective(&self, picks: &[Pick<'_>]) -> f64 {
        let scene = self.ground.scene;
        let set = aggregate(picks);
        let isolated = scene.predictor().cross_relaxed(&set);
        let bounds: SmallVec<[MeetingBound; 8]> = self
            .meetings(picks)
            .iter()
            .map(|meeting| MeetingBound {
                demand: meeting.demand,
                capacity: scene.contention().capacity_bound(scene.predictor(), meeting),
            })
            .collect();
        let bound = scene.contention().bound(isolated, &bounds);
        self.found.objective_bound(bound, set.inner_seconds)
    }

    /// Weighs complete picks and offers them if they are worth it.
    fn weigh(&mut self, picks: &[Pick<'_>]) {
        let scene = self.ground.scene;
        let set = aggregate(picks);
        let isolated = scene.predictor().cross(&set);
        if self.rules_out(isolated, set.inner_seconds) {
            return;
        }
        let meetings = self.meetings(picks);
        self.out_of_budget(picks.len() * (1 + meetings.len()));
        let (effective, _) = scene.contention().effective(scene.predictor(), isolated, &meetings);
        if !self.rules_out(effective, set.inner_seconds) {
            // The harm to each running job is looked at as well.
            self.out_of_budget(self.cell.hosts * (8 + self.ground.jobs.len()));
            let placement = self.placement(picks);
            self.found.offer(placement);
        }
    }

    fn meetings(&self, picks: &[Pick<'_>]) -> SmallVec<[Meeting; 2]> {
        if self.ground.jobs.is_empty() {
            return SmallVec::new();
        }
        self.met(picks.iter().map(|pick| pick.class))
            .into_iter()
            .map(|job| Meeting {
                demand: self.ground.jobs[job].demand,
                merged_own: self.merged_own(picks, job),
                merged_other: self.merged_other(picks, job),
            })
            .collect()
    }

    /// The picks plus the job's GPUs on their hosts.
    fn merged_own(&self, picks: &[Pick<'_>], job: usize) -> Aggregate {
        picks.iter().fold(Aggregate::EMPTY, |set, pick| {
            let position = self.ground.classes[pick.class].jobs.iter().position(|&j| j == job);
            let share: &Share =
                position.map_or(&pick.choice.share, |position| &pick.choice.unions[position]);
            set.with(share, pick.times)
        })
    }

    /// The job plus the picks' GPUs on its hosts.
    fn merged_other(&self, picks: &[Pick<'_>], job: usize) -> Aggregate {
        let places = &self.ground.jobs[job];
        places.classes.iter().fold(places.elsewhere, |mut set, &(class, position)| {
            let of_class = &self.ground.classes[class];
            let mut alone = of_class.hosts.len();
            for pick in picks.iter().filter(|pick| pick.class == class) {
                set = set.with(&pick.choice.unions[position], pick.times);
                alone -= pick.times;
            }
            set.with(&of_class.job_shares[position], alone)
        })
    }

    /// Concrete hosts: for each pick, largest first, those with the fewest GPUs that suffice.
    fn placement(&self, picks: &[Pick<'_>]) -> Placement {
        let mut shares = Vec::with_capacity(self.cell.hosts);
        let mut taken: Vec<usize> = Vec::new();
        for (at, pick) in picks.iter().enumerate() {
            if at == 0 || picks[at - 1].class != pick.class {
                taken.clear();
            }
            let count = pick.choice.share.count as usize;
            for _ in 0..pick.times {
                let hosts = &self.ground.classes[pick.class].hosts;
                let fits = |i: &usize| !taken.contains(i) && hosts[*i].most >= count;
                if let Some(i) = (0..hosts.len()).find(fits) {
                    taken.push(i);
                    let Member { host, free, .. } = hosts[i];
                    shares.push((host, pick.choice.mask.unwrap_or(free.lowest(count))));
                }
            }
        }
        Placement::new(shares)
    }
}

fn aggregate(picks: &[Pick<'_>]) -> Aggregate {
    picks.iter().fold(Aggregate::EMPTY, |set, pick| set.with(&pick.choice.share, pick.times))
}
