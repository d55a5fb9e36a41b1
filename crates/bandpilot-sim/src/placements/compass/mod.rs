//! Slots of a power of two, and single GPUs beside them.

mod layer;
mod spaces;

use bandpilot_fragmentation::{Census, Gang, Goal, Price, Rules, Shift, least_partial};
use rustc_hash::FxHashMap;

use super::instances::instances_fit;
use super::{Moment, Moves, PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::options::Options;
use crate::shape::Shape;
use layer::{Layer, Still};
use spaces::{Spaces, moves};

/// The memory of least numbers of partial hosts is begun anew when it has so many.
const MOST_LEAST: usize = 100_000;

/// `compass`: places by the Anchor-Based Space (COMPASS-ABS, arXiv 2609.18519): an instance of two GPUs and more in a slot of a power of two,
/// on the slotted host with the least residual that is enough, else on an empty host; an instance of one GPU in what an anchor leaves of
/// its slot, else on a host with only such instances, else on an empty one. What the space has no place for goes to the host with the
/// fewest idle GPUs that are enough.
///
/// Jobs are moved as few as will do and only while others wait: so that the first waiting job fits, if as many GPUs as it asks for
/// are idle and the moves cost no more than a multiple (`compass_beta`) of what it would lose by waiting until it fits as estimates tell; and
/// so that no more than `compass_tau` hosts are partial that need not be, which is not weighed against any wait. A move costs the GPUs of the whole job times the time that a
/// migration takes. Jobs that have less work left than that, or a higher priority than the first waiting one, stay where they are, and so do
/// jobs that share a GPU.
#[derive(Debug)]
pub struct Compass {
    moves: Option<Limits>,
    least: FxHashMap<Census, usize>,
    still: Still,
}

/// When jobs are moved.
#[derive(Debug, Clone, Copy)]
struct Limits {
    tau: usize,
    beta: f64,
    migration_s: f64,
}

impl Compass {
    /// With moves.
    pub fn moving(options: &Options) -> Self {
        let migration_s = options.costs.migration_s;
        let (tau, beta) = (options.compass_tau, options.compass_beta);
        Self { moves: Some(Limits { tau, beta, migration_s }), ..Self::place_only() }
    }

    /// `compass-place-only`: nobody is moved.
    pub fn place_only() -> Self {
        Self { moves: None, least: FxHashMap::default(), still: Still::default() }
    }

    /// The least number of partial hosts, of those that the instances of a pool could be on.
    fn least(&mut self, census: &Census) -> usize {
        if let Some(known) = self.least.get(census) {
            return *known;
        }
        if self.least.len() >= MOST_LEAST {
            self.least.clear();
        }
        let least = least_partial(census).partial;
        self.least.insert(census.clone(), least);
        least
    }

    /// Fewer partial hosts, where there are too many.
    fn tidy(&mut self, limits: Limits, moment: Moment, room: &Room<'_>) -> Option<Moves> {
        let partial = layer::partial(room);
        if partial <= limits.tau {
            return None;
        }
        let most: Vec<usize> =
            layer::censuses(room).iter().map(|census| limits.tau + self.least(census)).collect();
        if partial <= most.iter().copied().min().unwrap_or(0) {
            return None;
        }
        let of = |job: u32, _: usize| limits.price(JobId(job), None, moment, room);
        let price = Price { of: &of, most: f64::INFINITY };
        let spaces = Spaces::new(room, Rules::Repaired);
        let plans = spaces.pools.iter().zip(most);
        let plans = plans.filter_map(|((_, space), most)| space.plan(&Goal::Partial(most), &price));
        let shifts: Vec<Shift> = plans.flat_map(|plan| plan.shifts).collect();
        Some(moves(&shifts, room))
    }
}

impl Limits {
    /// So that the first waiting job fits, if that is all that it waits for.
    fn unblock(self, moment: Moment, room: &Room<'_>) -> Option<Moves> {
        let blocked = moment.blocked?;
        let shape = *room.jobs.shape(room.jobs.shape_of(blocked));
        if shape.shares() || instances_fit(&shape, room.idle) {
            return None;
        }
        let worth = self.beta * shape.size_gpus() * wait_s(&shape, moment.now_s, room);
        // Moves that cost nothing are worth it however short the wait.
        let most = if self.migration_s > 0.0 { worth / self.migration_s } else { f64::INFINITY };
        if most < 1.0 || most.is_nan() {
            return None;
        }
        let priority = room.jobs.priority(blocked);
        let of = |job: u32, _: usize| self.price(JobId(job), Some(priority), moment, room);
        let spaces = Spaces::new(room, Rules::Repaired);
        let gang = gang(blocked, &shape);
        let price = Price { of: &of, most };
        let accepted = spaces.pools.iter().filter(|(model, _)| shape.models.has(*model));
        let plans = accepted.filter_map(|(_, space)| space.plan(&Goal::Fit(gang), &price));
        let plan = plans.min_by(|a, b| a.cost.total_cmp(&b.cost))?;
        Some(moves(&plan.shifts, room))
    }

    /// GPUs of a job, or infinite if it stays.
    fn price(self, job: JobId, most_priority: Option<i32>, moment: Moment, room: &Room<'_>) -> f64 {
        let jobs = room.jobs;
        // Whoever shares a GPU has no job of that number.
        if job.index() >= jobs.len() {
            return f64::INFINITY;
        }
        let ends = jobs.progress(job).left_at(moment.now_s) < self.migration_s;
        let first = most_priority.is_some_and(|priority| jobs.priority(job) > priority);
        if ends || first { f64::INFINITY } else { jobs.gpus(job) as f64 }
    }
}

/// How long a job would wait, if running jobs end as estimated and nobody overtakes it, seconds.
fn wait_s(shape: &Shape, now_s: f64, room: &Room<'_>) -> f64 {
    let ends = room.jobs.running().map(|(job, _)| (room.jobs.progress(job).end_s(), job));
    let mut ends: Vec<(f64, JobId)> = ends.collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut idle = room.idle.clone();
    for (end_s, job) in ends {
        if let Some(run) = room.jobs.run(job) {
            idle.give(&run.grant);
        }
        if instances_fit(shape, &idle) {
            return (end_s - now_s).max(0.0);
        }
    }
    f64::INFINITY
}

fn gang(job: JobId, shape: &Shape) -> Gang {
    Gang {
        job: job.0,
        instances: shape.instances as usize,
        gpus: shape.instance_gpus as usize,
        rest: shape.rest_gpus as usize,
    }
}

impl PlacementRule for Compass {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        Layer::new(room).place(shape, true, room)
    }

    fn moves(&mut self, moment: Moment, room: &mut Room<'_>) -> Moves {
        let Some(limits) = self.moves.filter(|_| moment.waiting > 0) else {
            return Moves::default();
        };
        let mut still = std::mem::take(&mut self.still);
        let moves = still.or(moment.blocked, room, || {
            let unblocking = limits.unblock(moment, room);
            unblocking.or_else(|| self.tidy(limits, moment, room)).unwrap_or_default()
        });
        self.still = still;
        moves
    }
}

/// `compass-printed`: the space as the paper prints it. Only its own places are taken, so a job may wait though it would fit on idle GPUs; after
/// each event the space is compacted by moves, whatever they cost. A job that no host has a slot for, such as one of five GPUs where all
/// hosts have broken ones, starts when nobody else runs there.
#[derive(Debug, Default)]
pub struct CompassPrinted {
    still: Still,
}

impl PlacementRule for CompassPrinted {
    /// What is asked is only whether the GPUs would do: whether the space has a place may be true of some idle GPUs and false of more of
    /// them, where an anchor is gone and fillers are left. So `place` may give nothing where it fits.
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let layer = Layer::new(room);
        let alone = layer.is_empty(shape.models);
        layer.place(shape, alone, room)
    }

    fn moves(&mut self, _: Moment, room: &mut Room<'_>) -> Moves {
        self.still.or(None, room, || {
            if !Layer::new(room).may_move() {
                return Moves::default();
            }
            let mut spaces = Spaces::new(room, Rules::Printed);
            let each = spaces.pools.iter_mut().map(|(_, space)| space.catch_up());
            let shifts: Vec<Shift> = each.flatten().collect();
            moves(&shifts, room)
        })
    }
}
