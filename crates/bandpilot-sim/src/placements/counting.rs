//! Only totals.

use super::{PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::shape::Shape;

/// `counting`: a job fits if that many GPUs are idle, wherever they are and of whatever model, as if idle GPUs could be moved
/// together at no cost. What rules with concrete GPUs are measured against; no strict bound, since a job that waits for whole hosts
/// lets shorter ones pass.
#[derive(Debug, Default)]
pub struct Counting;

impl PlacementRule for Counting {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        shape.total_milli() <= room.idle.free_milli()
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let grant = Grant::Count(shape.gpus());
        room.idle.take(&grant).then_some(grant)
    }

    fn share_fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        shape.total_milli() <= room.idle.free_milli()
    }

    fn place_share(&mut self, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let grant = Grant::Part(shape.milli);
        room.idle.take(&grant).then_some(grant)
    }
}
