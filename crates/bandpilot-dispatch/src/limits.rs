//! What a set must leave to others: bandwidth to running jobs, hosts to take over.

use std::cell::Cell;

use bandpilot_core::{GpuMask, HostId, Placement, Request};

use crate::scene::{Loss, Scene};
use crate::scope::{Impossible, Scope};

/// The limits of a request.
pub struct Limits<'s, 'a> {
    /// Sees the running jobs and the set as one ring, whatever the set's groups.
    scene: &'s Scene<'a>,
    scope: &'s Scope,
    protect: Option<f64>,
    spare_hosts: usize,
    /// Least of the greatest losses of sets that were refused for it.
    least_loss: Cell<f64>,
    most_spares: Cell<usize>,
}

impl<'s, 'a> Limits<'s, 'a> {
    /// The limits that `request` sets.
    pub fn new(scene: &'s Scene<'a>, scope: &'s Scope, request: &Request) -> Self {
        Self {
            scene,
            scope,
            protect: request.protect,
            spare_hosts: request.spare_hosts,
            least_loss: Cell::new(f64::INFINITY),
            most_spares: Cell::new(0),
        }
    }

    /// True if the set keeps to them.
    pub fn allow(&self, set: &Placement) -> bool {
        if let Some(most) = self.protect {
            let loss = greatest_loss(&self.scene.losses(set));
            if loss > most + 1e-9 {
                self.least_loss.set(self.least_loss.get().min(loss));
                return false;
            }
        }
        if self.spare_hosts > 0 {
            let spares = spare_hosts(self.scene, self.scope, set).len();
            self.most_spares.set(self.most_spares.get().max(spares));
            return spares >= self.spare_hosts;
        }
        true
    }

    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        self.protect.is_none() && self.spare_hosts == 0
    }

    /// What to say if no set keeps to them.
    pub fn refusal(&self, proven: bool) -> Option<Impossible> {
        let certain = if proven { "" } else { " was found before the search ended, so none" };
        let protect = self.protect.filter(|_| self.least_loss.get().is_finite());
        if let Some(most) = protect {
            return Some(Impossible {
                constraint: "protect",
                message: format!(
                    "no set{certain} keeps the loss of every running job within {:.1} %",
                    100.0 * most
                ),
                possible: format!(
                    "--protect {:.1}%; or wait until GPUs on quieter hosts are released",
                    (1000.0 * self.least_loss.get()).ceil() / 10.0
                ),
            });
        }
        (self.spare_hosts > 0).then(|| Impossible {
            constraint: "spare-hosts",
            message: format!(
                "no set{certain} leaves {} spare hosts that could take over its largest share",
                self.spare_hosts
            ),
            possible: format!("--spare-hosts {}", self.most_spares.get()),
        })
    }
}

/// Greatest loss as a share of what a job had.
pub fn greatest_loss(losses: &[Loss]) -> f64 {
    let share = |loss: &Loss| {
        if loss.before > 0.0 { (1.0 - loss.after / loss.before).max(0.0) } else { 0.0 }
    };
    losses.iter().map(share).fold(0.0, f64::max)
}

/// Hosts outside the set, of a type that it uses, that could take over its largest share: those with the fewest usable GPUs
/// first; with the GPUs to take.
pub fn spare_hosts(scene: &Scene<'_>, scope: &Scope, set: &Placement) -> Vec<(HostId, GpuMask)> {
    let cluster = scene.predictor().cluster();
    let largest = set.shares().iter().map(|(_, mask)| mask.count()).max().unwrap_or(0);
    let used = |host: HostId| {
        let kind = cluster.host(host).host_type;
        set.shares().iter().any(|(other, _)| cluster.host(*other).host_type == kind)
    };
    let mut spares: Vec<(usize, HostId, GpuMask)> = cluster
        .host_ids()
        .map(|host| (scope.usable[host.index()], host))
        .filter(|(free, host)| free.count() >= largest && set.on(*host).is_empty() && used(*host))
        .map(|(free, host)| (free.count(), host, free.lowest(largest)))
        .collect();
    spares.sort_unstable();
    spares.into_iter().map(|(_, host, mask)| (host, mask)).collect()
}
