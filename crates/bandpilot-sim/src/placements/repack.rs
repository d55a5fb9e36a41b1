//! All running jobs are packed anew, round by round.

use std::collections::BTreeMap;

use bandpilot_core::HostId;

use super::layout::Layout;
use super::{BestFit, Moment, Moves, PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::shape::Shape;

/// `repack`: places like `best-fit`. At every full round, as long as jobs wait, the running jobs are packed anew onto the hosts in
/// use: instances of all jobs, the largest first, best fit, on the host where they are if it has been begun. If that takes
/// fewer hosts, or lets the first waiting job start that only does not fit, jobs are moved: those of the least used hosts if emptying
/// these does as well, else all that the packing puts elsewhere. Jobs that share a GPU stay.
#[derive(Debug)]
pub struct Repack {
    place: BestFit,
    round_s: f64,
    /// When the first plan was: rounds count from there, wherever a trace has its origin.
    origin_s: Option<f64>,
    /// The next round, if one is due.
    next_s: Option<f64>,
}

impl Repack {
    /// With rounds of this length, seconds (not above 0: never).
    pub fn new(round_s: f64) -> Self {
        Self { place: BestFit, round_s, origin_s: None, next_s: None }
    }

    /// The first full round after a time.
    fn round_after(&self, now_s: f64) -> Option<f64> {
        let origin_s = self.origin_s?;
        let rounds = ((now_s - origin_s) / self.round_s).floor() + 1.0;
        let next_s = origin_s + rounds * self.round_s;
        Some(next_s).filter(|next_s| next_s.is_finite() && *next_s > now_s)
    }

    fn pack(&self, blocked: Option<JobId>, room: &Room<'_>) -> Moves {
        let (hosts, jobs) = (room.hosts, room.jobs);
        let mut layout = Layout::new(room);
        let before = layout.in_use().count();
        let Some((counts, wanted)) = packed(&layout, jobs) else { return Moves::default() };
        if wanted < before {
            while layout.in_use().count() > wanted && layout.empty_least(|_, _| true) {}
            if layout.in_use().count() <= wanted {
                return Moves { moves: layout.moves(), wake_at_s: None };
            }
            layout = Layout::new(room);
        }
        layout.arrange(&counts);
        let shape = blocked.map(|job| *jobs.shape(jobs.shape_of(job)));
        let shape = shape.filter(|shape| !shape.shares());
        let mut unblocks = || {
            shape.is_some_and(|shape| {
                self.place.fits(&shape, &Room { hosts, jobs, idle: layout.idle() })
            })
        };
        if wanted < before || unblocks() {
            return Moves { moves: layout.moves(), wake_at_s: None };
        }
        Moves::default()
    }
}

/// GPUs by host and job.
type Counts = BTreeMap<(HostId, JobId), usize>;

/// An instance of a job, where it is now.
struct Piece {
    gpus: usize,
    /// GPUs held on its host.
    beside: usize,
    host: HostId,
    job: JobId,
}

/// The instances, the largest first; among equals those of the fullest host, so that it is begun first.
fn pieces(layout: &Layout<'_>, jobs: &Jobs) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for host in layout.in_use() {
        let beside = layout.held(host);
        for part in layout.on(host) {
            let size = jobs.shape(jobs.shape_of(part.job)).instance_gpus as usize;
            let (full, rest) = (part.mask.count() / size, part.mask.count() % size);
            let sizes = std::iter::repeat_n(size, full).chain(Some(rest).filter(|gpus| *gpus > 0));
            pieces.extend(sizes.map(|gpus| Piece { gpus, beside, host, job: part.job }));
        }
    }
    pieces.sort_by_key(|piece| {
        (std::cmp::Reverse((piece.gpus, piece.beside)), piece.host, piece.job)
    });
    pieces
}

/// A host that jobs are packed onto.
struct Bin {
    host: HostId,
    left: usize,
    begun: bool,
}

/// Where all are if they are packed anew onto the hosts in use, and on how many hosts; `None` if they do not fit that way.
fn packed(layout: &Layout<'_>, jobs: &Jobs) -> Option<(Counts, usize)> {
    let left = |host| layout.capacity(host).count();
    let bin = |host| Bin { host, left: left(host), begun: layout.is_shared(host) };
    let mut bins: Vec<Bin> = layout.in_use().map(bin).collect();
    let mut counts = Counts::new();
    for piece in pieces(layout, jobs) {
        let rank = |bin: &Bin| match (bin.begun, bin.host == piece.host) {
            (true, true) => 0,
            (true, false) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        let fits = |bin: &&mut Bin| bin.left >= piece.gpus && layout.accepts(piece.job, bin.host);
        let to = bins.iter_mut().filter(fits).min_by_key(|bin| (rank(bin), bin.left, bin.host))?;
        to.left -= piece.gpus;
        to.begun = true;
        *counts.entry((to.host, piece.job)).or_insert(0) += piece.gpus;
    }
    let used = bins.iter().filter(|bin| bin.begun).count();
    Some((counts, used))
}

impl PlacementRule for Repack {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        self.place.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        self.place.place(job, shape, room)
    }

    fn moves(&mut self, moment: Moment, room: &mut Room<'_>) -> Moves {
        self.origin_s.get_or_insert(moment.now_s);
        if moment.waiting == 0 {
            self.next_s = None;
            return Moves::default();
        }
        let due = self.next_s.is_some_and(|next_s| moment.now_s >= next_s);
        let moves = if due { self.pack(moment.blocked, room) } else { Moves::default() };
        if due || self.next_s.is_none() {
            self.next_s = self.round_after(moment.now_s);
        }
        Moves { wake_at_s: self.next_s, ..moves }
    }
}
