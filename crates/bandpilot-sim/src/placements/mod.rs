//! Placement rules: which GPUs a job gets.

mod counting;
mod fewest_hosts;
mod instances;
mod random;

use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::jobs::Jobs;
use crate::shape::{Hosts, Shape};

pub use counting::Counting;
pub use fewest_hosts::FewestHosts;
pub use instances::{BestFit, FirstFit};
pub use random::Random;

/// What a rule chooses from.
pub struct Room<'a> {
    /// All hosts.
    pub hosts: &'a Hosts,
    /// The GPUs that nobody holds.
    pub idle: &'a mut Idle,
    /// All jobs, with what the running ones hold.
    pub jobs: &'a Jobs,
}

/// A placement rule.
pub trait PlacementRule {
    /// True if a job of this shape can be placed. Monotone: what does not fit among some GPUs fits among no
    /// subset of them. There are at least as many idle GPUs as the shape has.
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool;

    /// Takes GPUs out of `room.idle` for a job. Only called where it fits; `None` takes nothing.
    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant>;
}
