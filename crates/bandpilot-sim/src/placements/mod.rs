//! Placement rules: which GPUs a job gets.
//!
//! A rule of one's own says when a job fits and takes GPUs out of the idle ones. This one keeps the first hosts free for others
//! as long as it can:
//!
//! ```
//! use bandpilot_core::{ClusterBuilder, HostId, Placement};
//! use bandpilot_sim::orders::{By, Skip};
//! use bandpilot_sim::placements::{PlacementRule, Room};
//! use bandpilot_sim::speed::Steady;
//! use bandpilot_sim::{
//!     Grant, Hosts, JobId, Options, Scheduler, Setting, Shape, Workload, simulate_with,
//! };
//!
//! /// The last host with enough idle GPUs; jobs that need several hosts do not fit.
//! struct LastFit;
//!
//! fn last(shape: &Shape, room: &Room<'_>) -> Option<HostId> {
//!     let hosts = (0..room.hosts.len() as u32).rev().map(HostId);
//!     let mut enough = hosts.filter(|host| room.idle.on(*host).count() >= shape.gpus());
//!     enough.next()
//! }
//!
//! impl PlacementRule for LastFit {
//!     fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
//!         last(shape, room).is_some()
//!     }
//!
//!     fn place(&mut self, _: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
//!         let host = last(shape, room)?;
//!         let gpus = room.idle.on(host).lowest(shape.gpus());
//!         let grant = Grant::Gpus(Placement::new([(host, gpus)]));
//!         room.idle.take(&grant).then_some(grant)
//!     }
//! }
//!
//! let trace = bandpilot_readers::trace_file::read("submit_s,duration_s,gpus\n0,9,4\n0,9,16\n").value;
//! let cluster = ClusterBuilder::new("two").host_type("host", "GPU", 8).nvswitch().hosts("h", 1, 2);
//! let hosts = Hosts::new(&cluster.build())?;
//! let workload = Workload::new(&trace, &hosts);
//! let options = Options::default();
//! let setting = Setting::new(&hosts, &workload, &options, 1);
//! let scheduler = Scheduler::new(hosts.clone(), Box::new(Skip::new(By::Arrival)), Box::new(LastFit));
//! let outcome = simulate_with(&setting, scheduler, &mut Steady)?;
//! let ends: Vec<Option<f64>> = outcome.jobs().map(|job| job.finish_s).collect();
//! assert_eq!(ends, [Some(9.0), None]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A row in [`policy`](crate::policy) gives it a name.

mod bandpilot;
mod compass;
mod counting;
mod drain;
mod fewest_hosts;
mod fgd;
mod filling;
mod inside;
mod instances;
mod layout;
mod moves;
mod random;
mod repack;
mod shares;

use bandpilot_core::Placement;

use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::shape::{Hosts, Shape};

pub use bandpilot::Bandpilot;
pub use compass::{Compass, CompassPrinted};
pub use counting::Counting;
pub use drain::Drain;
pub use fewest_hosts::FewestHosts;
pub use fgd::Fgd;
pub use instances::{BestFit, FirstFit};
pub use moves::{Moment, Move, Moves};
pub use random::Random;
pub use repack::Repack;

/// What a rule chooses from.
pub struct Room<'a> {
    /// All hosts.
    pub hosts: &'a Hosts,
    /// The GPUs that nobody holds.
    pub idle: &'a mut Idle,
    /// All jobs, with what the running ones hold.
    pub jobs: &'a Jobs,
}

impl Room<'_> {
    /// The jobs whose GPUs are on several hosts and that hold them as things stand here, in order of arrival. Left out is whom
    /// a plan has suspended and, where the idle GPUs are those of a later time, whoever will have ended by then.
    pub fn spanning(&self) -> impl Iterator<Item = (JobId, &Placement)> {
        // A grant is idle as a whole or not at all.
        let idle = |placement: &Placement| {
            let first = placement.shares().first();
            first.is_some_and(|(host, mask)| mask.is_subset_of(self.idle.on(*host)))
        };
        self.jobs.spanning().filter(move |(_, placement)| !idle(placement))
    }
}

/// A placement rule.
pub trait PlacementRule {
    /// True if a job of whole GPUs can be placed. Monotone: what does not fit among some GPUs fits among no
    /// subset of them. At least as much is free as the shape asks for.
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool;

    /// Takes GPUs out of `room.idle` for a job. Only called where it fits; `None` takes nothing.
    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant>;

    /// The running jobs that it would have go on elsewhere. Asked after the order has planned, and again after the order has
    /// planned on what the moves left. Leaves `room.idle` as it is.
    fn moves(&mut self, _moment: Moment, _room: &mut Room<'_>) -> Moves {
        Moves::default()
    }

    /// True if a job that shares a GPU can be placed. Monotone like [`fits`](Self::fits).
    fn share_fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        room.idle.share_fits(shape.models, shape.milli)
    }

    /// Takes a share of a GPU out of `room.idle`: of the shared GPU with the least free that is enough, else of the first GPU of
    /// the host with the fewest idle ones. Only called where it fits; `None` takes nothing.
    fn place_share(&mut self, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        shares::take(shape, room.idle, shares::tightest)
    }
}

/// True if a job can be placed, on whole GPUs or a share of one.
pub(crate) fn fits(rule: &dyn PlacementRule, shape: &Shape, room: &Room<'_>) -> bool {
    if shape.total_milli() > room.idle.free_milli() {
        return false;
    }
    if shape.shares() { rule.share_fits(shape, room) } else { rule.fits(shape, room) }
}

/// Takes whole GPUs or a share of one for a job that fits.
pub(crate) fn place(
    rule: &mut dyn PlacementRule,
    job: JobId,
    shape: &Shape,
    room: &mut Room<'_>,
) -> Option<Grant> {
    if shape.shares() { rule.place_share(shape, room) } else { rule.place(job, shape, room) }
}
