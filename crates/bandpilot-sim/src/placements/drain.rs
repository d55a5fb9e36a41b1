//! Hosts are emptied for a job that does not fit.

use super::layout::Layout;
use super::{BestFit, Moment, Moves, PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::shape::Shape;

/// `drain`: places like `best-fit`. When the first waiting job does not fit although as many GPUs as it asks for are idle, hosts of the
/// models that it accepts are emptied one after the other until it fits: the one with the fewest GPUs held whose jobs find room
/// on other hosts in use, where each job's GPUs of that host stay together; they go by best fit. If it will not fit whatever is
/// emptied nobody is moved. The idea is defragmentation by draining the least used host.
#[derive(Debug, Default)]
pub struct Drain {
    place: BestFit,
}

impl PlacementRule for Drain {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        self.place.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        self.place.place(job, shape, room)
    }

    fn moves(&mut self, moment: Moment, room: &mut Room<'_>) -> Moves {
        let Some(blocked) = moment.blocked else { return Moves::default() };
        let shape = *room.jobs.shape(room.jobs.shape_of(blocked));
        if self.place.fits(&shape, room) {
            return Moves::default();
        }
        let (hosts, jobs) = (room.hosts, room.jobs);
        let mut layout = Layout::new(room);
        let size = if shape.rest_gpus > 0 { shape.rest_gpus } else { shape.instance_gpus } as usize;
        // Only where an instance of it would find a place.
        let helps = |layout: &Layout<'_>, host| {
            shape.models.has(hosts.model(host)) && layout.capacity(host).count() >= size
        };
        while layout.empty_least(helps) {
            if self.place.fits(&shape, &Room { hosts, jobs, idle: layout.idle() }) {
                return Moves { moves: layout.moves(), wake_at_s: None };
            }
        }
        Moves::default()
    }
}
