//! Only totals.

use super::{PlacementRule, Room};
use crate::idle::Grant;
use crate::ids::JobId;
use crate::shape::Shape;

/// `counting`: a job fits if that many GPUs are idle, wherever they are and of whatever model. What a perfect defragmenter
/// would reach: the bound that rules with concrete GPUs are measured against.
#[derive(Debug, Default)]
pub struct Counting;

impl PlacementRule for Counting {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        shape.gpus() <= room.idle.total()
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let grant = Grant::Count(shape.gpus());
        room.idle.take(&grant).then_some(grant)
    }
}
