//! EASY backfill.

use std::collections::{BTreeMap, BTreeSet};

use super::Order;
use super::line::Line;
use crate::desk::{Desk, Reservation};
use crate::ids::{JobId, ShapeId, key};
use crate::jobs::Jobs;

/// `easy`: jobs start in order of arrival. When the first one does not fit it gets a reservation: the earliest time at
/// which it will, if running jobs end as estimated. A later job may start now if it ends by then, or if it uses only GPUs that the
/// first one will not need: if the first one fits at that time all the same. Such a job is first tried on GPUs other than those that
/// the placement rule would pick for the first one. Nobody is preempted. Reservations are made anew whenever a job
/// arrives or finishes.
#[derive(Debug, Default)]
pub struct Easy {
    queue: BTreeSet<JobId>,
    by_shape: Vec<Line>,
    /// Running jobs by expected end.
    ends: BTreeSet<(u64, JobId)>,
    end_of: BTreeMap<JobId, u64>,
    suspended: Vec<JobId>,
}

/// The jobs of one shape in the search for those that may overtake.
struct Shape {
    id: ShapeId,
    /// The next one to try.
    next: JobId,
    /// Longer ones no longer fit beside the reservation.
    only_short: bool,
}

impl Easy {
    fn running(&mut self, job: JobId, end_s: f64) {
        self.end_of.insert(job, key(end_s));
        self.ends.insert((key(end_s), job));
    }

    fn take(&mut self, job: JobId, jobs: &Jobs) {
        self.queue.remove(&job);
        self.by_shape[jobs.shape_of(job).index()].remove(job);
        self.running(job, jobs.progress(job).end_s());
    }

    /// The earliest time at which a job can start, and its GPUs then.
    fn reserve(&mut self, head: JobId, desk: &mut Desk<'_>) -> Option<Reservation> {
        let mut reservation = None;
        let mut at = 0;
        for (end, job) in &self.ends {
            // All that end at that time have ended.
            if *end != at {
                reservation = desk.reserve(head, f64::from_bits(at).max(desk.now_s()));
            }
            if reservation.is_some() {
                break;
            }
            at = *end;
            desk.suspend(*job);
            self.suspended.push(*job);
        }
        if reservation.is_none() {
            reservation = desk.reserve(head, f64::from_bits(at).max(desk.now_s()));
        }
        for job in self.suspended.drain(..).rev() {
            desk.resume(job);
        }
        reservation
    }

    fn backfill(&mut self, head: JobId, reservation: &mut Reservation, desk: &mut Desk<'_>) {
        let short_s = reservation.at_s() - desk.now_s();
        let idle = desk.idle_gpus();
        let after = JobId(head.0 + 1);
        let waiting = self.by_shape.iter().enumerate().filter(|(_, line)| !line.is_empty());
        let ids = waiting.map(|(at, _)| ShapeId(at as u32));
        let mut shapes: Vec<Shape> = ids
            .filter(|id| desk.jobs().shape(*id).gpus() <= idle)
            .map(|id| Shape { id, next: after, only_short: false })
            .collect();
        loop {
            let candidate = |(at, shape): (usize, &Shape)| {
                let most_s = if shape.only_short { short_s } else { f64::INFINITY };
                let line = &self.by_shape[shape.id.index()];
                line.first_within(shape.next, most_s).map(|job| (job, at))
            };
            let Some((job, at)) = shapes.iter().enumerate().filter_map(candidate).min() else {
                return;
            };
            if desk.start_beside(job, reservation) {
                shapes[at].next = JobId(job.0 + 1);
                self.take(job, desk.jobs());
            } else if shapes[at].only_short || !desk.fits(job) {
                shapes.swap_remove(at);
            } else {
                // A longer job does not fit beside the reservation, nor will another one of this shape.
                shapes[at].only_short = true;
            }
        }
    }
}

impl Order for Easy {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        let shape = jobs.shape_of(job).index();
        if self.by_shape.len() <= shape {
            self.by_shape.resize_with(shape + 1, Line::default);
        }
        self.by_shape[shape].insert(job, jobs.progress(job).left_at(0.0));
        self.queue.insert(job);
    }

    fn stopped(&mut self, job: JobId, _jobs: &Jobs) {
        if let Some(end) = self.end_of.remove(&job) {
            self.ends.remove(&(end, job));
        }
    }

    fn rate_changed(&mut self, job: JobId, jobs: &Jobs) {
        self.stopped(job, jobs);
        self.running(job, jobs.progress(job).end_s());
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first().copied()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        while let Some(head) = self.head() {
            if desk.start(head) {
                self.take(head, desk.jobs());
                continue;
            }
            if self.queue.len() > 1
                && desk.idle_gpus() > 0
                && let Some(mut reservation) = self.reserve(head, desk)
            {
                self.backfill(head, &mut reservation, desk);
            }
            return;
        }
    }
}
