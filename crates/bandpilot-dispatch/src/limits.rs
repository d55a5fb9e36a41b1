//! What a set must leave to others: bandwidth to running jobs, hosts to take over.

use std::cell::Cell;

use bandpilot_core::{GpuMask, HostId, Placement, Request, counted};

use crate::scene::{Loss, Scene};
use crate::scope::{Impossible, Scope};

/// The limits of a request.
pub struct Limits<'s, 'a> {
    /// Sees the running jobs and the set as one ring, whatever the set's groups.
    scene: &'s Scene<'a>,
    scope: &'s Scope,
    protect: Option<f64>,
    spare_hosts: usize,
    /// Least of the greatest losses of sets that were refused for that alone.
    least_loss: Cell<Option<f64>>,
    /// Most spare hosts of sets that were refused for that alone.
    most_spares: Cell<Option<usize>>,
    /// Some set was refused.
    refused: Cell<bool>,
}

impl<'s, 'a> Limits<'s, 'a> {
    /// The limits that `request` sets.
    pub fn new(scene: &'s Scene<'a>, scope: &'s Scope, request: &Request) -> Self {
        Self {
            scene,
            scope,
            protect: request.protect,
            spare_hosts: request.spare_hosts,
            least_loss: Cell::new(None),
            most_spares: Cell::new(None),
            refused: Cell::new(false),
        }
    }

    /// True if the set keeps to them.
    pub fn allow(&self, set: &Placement) -> bool {
        let loss = self.protect.map_or(0.0, |_| greatest_loss(&self.scene.losses(set)));
        let harms = self.protect.is_some_and(|most| loss > most + 1e-9);
        let spares = match self.spare_hosts {
            0 => 0,
            _ => spare_hosts(self.scene, self.scope, set).len(),
        };
        let short = spares < self.spare_hosts;
        if harms && !short {
            self.least_loss.set(Some(self.least_loss.get().map_or(loss, |least| least.min(loss))));
        }
        if short && !harms {
            self.most_spares.set(self.most_spares.get().max(Some(spares)));
        }
        self.refused.set(self.refused.get() || harms || short);
        !harms && !short
    }

    /// True if nothing is limited.
    pub fn is_none(&self) -> bool {
        self.protect.is_none() && self.spare_hosts == 0
    }

    /// What to say if no set keeps to them; `None` if no set was refused for them.
    pub fn refusal(&self, proven: bool) -> Option<Impossible> {
        if !self.refused.get() {
            return None;
        }
        let mut limits = Vec::new();
        let mut possible = Vec::new();
        if let Some(most) = self.protect {
            limits
                .push(format!("keeps the loss of every running job within {:.1} %", 100.0 * most));
        }
        if self.spare_hosts > 0 {
            limits.push(format!(
                "leaves {} that could take over its largest share",
                counted(self.spare_hosts, "spare host")
            ));
        }
        if let Some(loss) = self.least_loss.get() {
            possible.push(format!("--protect {:.1}%", (1000.0 * loss).ceil() / 10.0));
        }
        if let Some(spares) = self.most_spares.get() {
            possible.push(format!("--spare-hosts {spares}"));
        }
        if possible.is_empty() {
            // Every set that was looked at breaks both limits.
            possible.push("the same without these limits".to_owned());
        }
        let harms = self.protect.is_some()
            && (self.least_loss.get().is_some() || self.most_spares.get().is_none());
        if self.protect.is_some() {
            possible.push("wait until GPUs on quieter hosts are released".to_owned());
        }
        let seen = if proven { "" } else { " was found before the search ended that" };
        Some(Impossible {
            constraint: if harms { "protect" } else { "spare-hosts" },
            message: format!("no set{seen} {}", limits.join(" and ")),
            possible: possible.join("; or "),
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
        .filter(|(_, host)| scope.most(*host) >= largest && set.on(*host).is_empty() && used(*host))
        .map(|(free, host)| (free.count(), host, free.lowest(largest)))
        .collect();
    spares.sort_unstable();
    spares.into_iter().map(|(_, host, mask)| (host, mask)).collect()
}
