//! Steps of a plan: what to take off one host, and where it goes.

use std::collections::BTreeMap;

use super::index::weigh;
use super::plan::{Goal, Moved};
use super::{Gang, Space};
use crate::Instance;

/// Instances with the host that they leave and the one that they go to.
type Leaving = Vec<(Instance, u32, u32)>;

/// Beyond so many movable instances on a host only the cheapest ones are looked at.
const MOST_ON_HOST: usize = 10;

/// Instances on a host that could leave it.
struct Part {
    cost: f64,
    gpus: usize,
    instances: Vec<Instance>,
}

impl Space {
    /// The cheapest step that brings a goal nearer.
    pub(super) fn step_towards(&self, goal: &Goal, moved: &Moved<'_>) -> Option<Leaving> {
        let mut best: Option<(f64, usize, Leaving)> = None;
        for from in 0..self.hosts.len() as u32 {
            let Some(least) = self.least_part(goal, from) else { continue };
            for part in self.parts(from, least, moved) {
                let better =
                    |best: &(f64, usize, Leaving)| (part.cost, part.gpus) < (best.0, best.1);
                if !best.as_ref().is_none_or(better) {
                    continue;
                }
                let step = match goal {
                    Goal::Fit(gang) => self.make_room(gang, from, &part),
                    Goal::Partial(_) => self.close(from, &part),
                };
                if let Some(step) = step {
                    best = Some((part.cost, part.gpus, step));
                }
            }
        }
        best.map(|(_, _, step)| step)
    }

    /// The fewest GPUs that could leave a host to any use; `None` if none could.
    fn least_part(&self, goal: &Goal, from: u32) -> Option<usize> {
        let state = &self.state[from as usize];
        match goal {
            Goal::Partial(_) => (state.used > 0 && state.free > 0).then_some(1),
            Goal::Fit(gang) => {
                let unit = unit(gang);
                let over = state.free % unit;
                let least = self.lacking(gang) - over;
                let spare = weigh(&self.index.free, |free| free % unit) - over;
                (least <= state.used && least <= spare).then_some(least)
            }
        }
    }

    /// GPUs that the instance has which there is no host for: a full one, or if these fit the smaller one. No host has as many beside
    /// its full ones.
    fn lacking(&self, gang: &Gang) -> usize {
        let full_fit = self.physically_fits(&Gang { rest: 0, ..*gang });
        if full_fit && gang.rest > 0 { gang.rest } else { unit(gang) }
    }

    /// What could leave a host: of all sets with the same GPUs and the same largest instance the cheapest.
    fn parts(&self, node: u32, least: usize, moved: &Moved<'_>) -> Vec<Part> {
        let movable = self.hosts[node as usize].all().filter(|instance| !instance.pinned);
        let mut movable: Vec<(f64, Instance)> =
            movable.map(|instance| (moved.cost(self, &[*instance]), *instance)).collect();
        movable.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        movable.truncate(MOST_ON_HOST);
        let mut cheapest: BTreeMap<(usize, usize), Part> = BTreeMap::new();
        for set in 1_u32..1 << movable.len() {
            let chosen = movable.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            let mut instances: Vec<Instance> = chosen.map(|(_, (_, instance))| *instance).collect();
            instances.sort_by(|a, b| b.gpus.cmp(&a.gpus).then(a.job.cmp(&b.job)));
            let gpus = instances.iter().map(|instance| instance.gpus).sum();
            if gpus < least {
                continue;
            }
            let cost = moved.cost(self, &instances);
            let key = (gpus, instances[0].gpus);
            if cheapest.get(&key).is_none_or(|best| cost < best.cost) {
                cheapest.insert(key, Part { cost, gpus, instances });
            }
        }
        cheapest.into_values().collect()
    }

    /// Where instances go so that their host has room for one instance of the gang more, and no other host for fewer.
    fn make_room(&self, gang: &Gang, from: u32, part: &Part) -> Option<Leaving> {
        let unit = unit(gang);
        let free = self.state[from as usize].free;
        if free % unit + part.gpus < self.lacking(gang) {
            return None;
        }
        self.destinations(from, part, |free| free % unit)
    }

    /// Where instances go so that there is a partial host less.
    fn close(&self, from: u32, part: &Part) -> Option<Leaving> {
        let state = &self.state[from as usize];
        if part.gpus == state.used {
            return self.destinations(from, part, |free| free).filter(|step| {
                // An empty host that becomes partial in its place is no gain.
                step.iter().all(|(_, _, to)| self.state[*to as usize].used > 0)
            });
        }
        let other = self.index.free.get(part.gpus)?.iter().find(|node| **node != from)?;
        let full = self.state[*other as usize].used > 0;
        full.then(|| part.instances.iter().map(|instance| (*instance, from, *other)).collect())
    }

    /// The tightest hosts for instances, the largest first, by the GPUs of a host that may be used.
    fn destinations(
        &self,
        from: u32,
        part: &Part,
        spare: impl Fn(usize) -> usize,
    ) -> Option<Leaving> {
        let mut entered: BTreeMap<u32, usize> = BTreeMap::new();
        let mut step = Vec::new();
        for instance in &part.instances {
            let mut best: Option<(usize, usize, u32)> = None;
            for (free, hosts) in self.index.free.iter().enumerate() {
                // Hosts of a group are alike but for what this step puts on them.
                let touched = hosts.iter().filter(|node| entered.contains_key(node));
                let fresh =
                    hosts.iter().filter(|node| !entered.contains_key(node) && **node != from);
                for node in touched.chain(fresh.take(1)) {
                    let taken = entered.get(node).copied().unwrap_or(0);
                    let spare = spare(free).saturating_sub(taken);
                    let found = (spare, free, *node);
                    if spare >= instance.gpus && best.is_none_or(|best| found < best) {
                        best = Some(found);
                    }
                }
            }
            let (_, _, to) = best?;
            *entered.entry(to).or_default() += instance.gpus;
            step.push((*instance, from, to));
        }
        Some(step)
    }
}

/// GPUs of a full instance, or of the only one.
fn unit(gang: &Gang) -> usize {
    if gang.instances == 0 { gang.rest.max(1) } else { gang.gpus.max(1) }
}
