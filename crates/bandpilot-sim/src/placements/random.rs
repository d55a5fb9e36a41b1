//! Drawn at random.

use bandpilot_core::{GpuMask, HostId};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::instances::{instances_fit, place_each};
use super::{PlacementRule, Room, shares};
use crate::idle::{Grant, Idle};
use crate::ids::JobId;
use crate::shape::{ModelSet, Shape};

/// `random`: instance by instance, full ones first, a host drawn evenly among all with enough idle GPUs, and on it GPUs drawn
/// evenly among the idle ones. A share goes to a GPU drawn evenly among the shared ones with room, else to an idle one so drawn.
#[derive(Debug)]
pub struct Random {
    rng: Pcg64,
}

impl Random {
    /// Draws from a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Pcg64::seed_from_u64(seed) }
    }

    fn host(&mut self, idle: &Idle, models: ModelSet, least: usize) -> Option<HostId> {
        let enough = least..=idle.most();
        let hosts: usize = enough.clone().map(|count| idle.hosts_with(models, count)).sum();
        let mut drawn = (hosts > 0).then(|| self.rng.random_range(0..hosts))?;
        for count in enough {
            let here = idle.hosts_with(models, count);
            if drawn < here {
                return idle.nth_with(models, count, drawn);
            }
            drawn -= here;
        }
        None
    }

    fn gpus(&mut self, idle: GpuMask, take: usize) -> GpuMask {
        let mut left = idle;
        for _ in take..idle.count() {
            let drawn = self.rng.random_range(0..left.count());
            let out = left.iter().nth(drawn).map_or(GpuMask::EMPTY, GpuMask::single);
            left = left.without(out);
        }
        left
    }
}

impl PlacementRule for Random {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        instances_fit(shape, room.idle)
    }

    fn place(&mut self, _job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        place_each(shape, room.idle, |idle, size| {
            let host = self.host(idle, shape.models, size)?;
            Some((host, self.gpus(idle.on(host), size)))
        })
    }

    fn place_share(&mut self, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        shares::take(shape, room.idle, |idle, shape| {
            let roomy = || idle.roomy(shape.models, shape.milli);
            let count = roomy().count();
            if count > 0 {
                let (_, host, gpu) = roomy().nth(self.rng.random_range(0..count))?;
                return Some((host, gpu));
            }
            let host = self.host(idle, shape.models, 1)?;
            Some((host, self.gpus(idle.on(host), 1).iter().next()?))
        })
    }
}
