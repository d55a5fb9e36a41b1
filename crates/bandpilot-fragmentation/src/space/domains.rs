//! The same scheme twice: GPUs in a panel, panels in an NVLink domain.
//!
//! In a rack such as the NVL72 nine panels of eight GPUs are one domain. Jobs that take whole panels and must stay in a domain are anchors
//! in it, in slots of a power of two panels; a panel with smaller instances on it is the domain's filler, whosever they are. A domain of
//! nine panels is like a host of sixteen GPUs of which nine are left: slots of up to eight panels, and one panel for a filler. All panels that
//! a job has in a domain are in one slot.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::HostId;

use super::place::new;
use super::{Gang, Kind, Rules, Shift, Space};
use crate::{Instance, Node, Pool};

/// Panels in domains.
#[derive(Debug, Clone, PartialEq)]
pub struct Domains {
    panels: Space,
    /// The domain of each panel.
    domain_of: Vec<u32>,
    /// Panels of each domain.
    sizes: Vec<usize>,
    /// The jobs that have whole panels.
    whole: BTreeSet<u32>,
}

impl Domains {
    /// Empty panels, each host being one: so many in each domain, in this order.
    pub fn new(panels: Space, sizes: &[usize]) -> Self {
        let domains = sizes.iter().zip(0..);
        let domain_of = domains.flat_map(|(size, domain)| std::iter::repeat_n(domain, *size));
        let domain_of = domain_of.take(panels.hosts.len()).collect();
        Self { panels, domain_of, sizes: sizes.to_vec(), whole: BTreeSet::new() }
    }

    /// The panels.
    pub const fn panels(&self) -> &Space {
        &self.panels
    }

    /// The domains as hosts of which the panels are the GPUs. A panel in use by smaller instances is an instance of one; the job of it is
    /// the panel, counted down from the greatest number.
    pub fn domains(&self) -> Space {
        let most = self.sizes.iter().max().copied().unwrap_or(0).next_power_of_two();
        let mut held: Vec<BTreeMap<u32, (usize, bool)>> = vec![BTreeMap::new(); self.sizes.len()];
        for (panel, content) in (0_u32..).zip(&self.panels.hosts) {
            let Some(first) = content.all().next() else { continue };
            let job = if self.whole.contains(&first.job) { first.job } else { u32::MAX - panel };
            let place = held[self.domain_of[panel as usize] as usize].entry(job).or_default();
            place.0 += 1;
            place.1 |= content.all().any(|instance| instance.pinned);
        }
        let nodes = held.into_iter().zip(&self.sizes).zip((0..).map(HostId));
        let nodes = nodes.map(|((held, cells), host)| {
            let held = held.into_iter();
            let held = held.map(|(job, (gpus, pinned))| Instance { job, gpus, pinned }).collect();
            Node { host, pool: 0, cells: *cells, held }
        });
        let nodes: Vec<Node> = nodes.collect();
        let pool = Pool { gpu_model: self.panels.pool.gpu_model.clone(), host_gpus: most };
        Space::new(&pool, nodes.iter(), Rules::Repaired)
    }

    /// Places a gang whose instances take whole panels, `gpus` counting panels here, each instance in one domain; the panels by
    /// instance, or `None`, and nothing is changed, if the domains have no slots for it.
    pub fn place_whole(&mut self, gang: &Gang) -> Option<Vec<Vec<HostId>>> {
        let placed = self.domains().place(gang)?;
        let mut instances = Vec::new();
        for (domain, panels) in placed {
            let empty: Vec<u32> = self.empty_in(domain.0).take(panels).collect();
            instances.push(empty.iter().map(|panel| self.panels.ids[*panel as usize]).collect());
            for panel in empty {
                let gpus = self.panels.hosts[panel as usize].cells;
                self.panels.put(panel, new(gang, gpus));
            }
        }
        self.whole.insert(gang.job);
        Some(instances)
    }

    /// Places a gang of instances inside panels: beside others where that can be, else on an empty panel where a filler of its domain
    /// would go. `None`, and nothing is changed, if that fails.
    pub fn place(&mut self, gang: &Gang) -> Option<Vec<(HostId, usize)>> {
        let start = self.panels.log.len();
        let placed = !gang.sizes().any(|gpus| gpus == 0)
            && gang.sizes().all(|gpus| {
                let panel = self.panel_for(gpus);
                panel.inspect(|panel| self.panels.enter(new(gang, gpus), *panel)).is_some()
            });
        if placed {
            self.panels.log.truncate(start);
            return Some(self.panels.of_job(gang.job).collect());
        }
        self.panels.undo(start);
        None
    }

    fn panel_for(&self, gpus: usize) -> Option<u32> {
        let in_use = |panel: u32| !self.panels.is(panel, Kind::Empty);
        self.panels.place_of(gpus, in_use).or_else(|| {
            let fits = |panel: &u32| {
                let cells = self.panels.hosts[*panel as usize].slot_cells();
                gpus == 1 || cells >= super::slot_width(gpus)
            };
            let domains = self.domains();
            let domain = domains.place_of(1, |domain| self.empty_in(domain).any(|at| fits(&at)));
            self.empty_in(domain?).find(fits)
        })
    }

    /// The empty panels of a domain.
    fn empty_in(&self, domain: u32) -> impl Iterator<Item = u32> {
        let panels = (0_u32..).zip(&self.domain_of).filter(move |(_, of)| **of == domain);
        panels.map(|(panel, _)| panel).filter(|panel| self.panels.is(*panel, Kind::Empty))
    }

    /// Takes a job out; false if it is not there.
    pub fn remove(&mut self, job: u32) -> bool {
        self.whole.remove(&job);
        self.panels.remove(job)
    }

    /// Restores order among the panels, then moves whole panels so that there is order among the domains.
    pub fn compact(&mut self) -> Vec<Shift> {
        self.panels.compact_repaired();
        let shifts = self.domains().compact();
        let mut moving = Vec::new();
        for shift in &shifts {
            let filler = u32::MAX - shift.job;
            let whole = self.whole.contains(&shift.job);
            let panels: Vec<u32> = if whole {
                let places = self.panels.jobs[&shift.job].iter().map(|place| place.0);
                let here = places.filter(|at| self.domain_of[*at as usize] == shift.from.0);
                here.take(shift.gpus).collect()
            } else {
                vec![filler]
            };
            moving.extend(panels.into_iter().map(|panel| {
                let content: Vec<Instance> =
                    self.panels.hosts[panel as usize].all().copied().collect();
                for instance in &content {
                    self.panels.take(panel, *instance);
                }
                (content, panel, shift.to.0)
            }));
        }
        // All have left before any goes on, so that there are empty panels.
        for (content, panel, domain) in moving {
            let to = self.empty_in(domain).next().unwrap_or(panel);
            for instance in content {
                self.panels.put(to, instance);
                self.panels.log.push(super::shifts::Step { instance, from: Some(panel), to });
            }
        }
        self.panels.settle()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn racks(domains: usize) -> Domains {
        let node = |panel| Node { host: HostId(panel), pool: 0, cells: 8, held: Vec::new() };
        let nodes: Vec<Node> = (0..domains as u32 * 9).map(node).collect();
        let pool = Pool { gpu_model: "GB200".to_owned(), host_gpus: 8 };
        let panels = Space::new(&pool, nodes.iter(), Rules::Repaired);
        Domains::new(panels, &vec![9; domains])
    }

    const fn gang(job: u32, instances: usize, gpus: usize) -> Gang {
        Gang { job, instances, gpus, rest: 0 }
    }

    #[test]
    fn slots_of_panels_and_one_for_the_others() {
        let mut racks = racks(2);
        let four = racks.place_whole(&gang(0, 1, 4)).unwrap();
        assert_eq!(four, [(0..4).map(HostId).collect::<Vec<_>>()]);
        // The ninth panel of the domain in use is for what is smaller than a panel.
        assert_eq!(racks.place(&gang(1, 1, 2)).unwrap(), [(HostId(4), 2)]);
        assert_eq!(racks.place(&gang(2, 1, 4)).unwrap(), [(HostId(4), 4)]);
        let four = racks.place_whole(&gang(3, 1, 4)).unwrap();
        assert_eq!(four, [(5..9).map(HostId).collect::<Vec<_>>()]);
        assert!(racks.place_whole(&gang(4, 1, 9)).is_none());
        assert!(racks.place_whole(&gang(4, 2, 8)).is_none());
        assert!(racks.place_whole(&gang(4, 1, 8)).is_some());
    }

    #[test]
    fn panels_with_small_jobs_go_beside_odd_gangs() {
        let mut racks = racks(2);
        racks.place_whole(&gang(0, 1, 4)).unwrap();
        racks.place(&gang(1, 2, 8)).unwrap();
        racks.place_whole(&gang(2, 1, 3)).unwrap();
        // What the gang of three leaves of its slot takes a panel of the other job, if that is in another domain.
        let shifts = racks.compact();
        assert!(shifts.iter().all(|shift| shift.job == 1), "{shifts:?}");
        assert_eq!(racks.domains().in_use(), 2 - usize::from(!shifts.is_empty()));
    }

    #[test]
    fn streams_keep_both_levels_in_order() {
        let mut rng = Pcg64::seed_from_u64(8);
        let mut racks = racks(6);
        let mut running: BTreeMap<u32, (Gang, bool)> = BTreeMap::new();
        for job in 0..6000_u32 {
            if rng.random_range(0..3) < 2 {
                let whole = rng.random_range(0..4) == 0;
                let gpus = if whole { rng.random_range(2..=8) } else { rng.random_range(1..=8) };
                let gang = gang(job, rng.random_range(1..=2), gpus);
                let before = (job % 16 == 0).then(|| racks.clone());
                let placed = if whole {
                    racks.place_whole(&gang).map(|at| at.len())
                } else {
                    racks.place(&gang).map(|at| at.len())
                };
                match (placed, before) {
                    (Some(placed), _) => {
                        assert_eq!(placed, gang.instances);
                        running.insert(job, (gang, whole));
                    }
                    (None, Some(before)) => assert!(before == racks),
                    (None, None) => {}
                }
            } else if let Some((job, _)) = running.pop_first() {
                assert!(racks.remove(job));
            }
            racks.compact();
            in_order(&racks, &running);
        }
    }

    fn in_order(racks: &Domains, running: &BTreeMap<u32, (Gang, bool)>) {
        let gpus = |(gang, whole): &(Gang, bool)| gang.total_gpus() * if *whole { 8 } else { 1 };
        assert_eq!(racks.panels.used(), running.values().map(gpus).sum::<usize>());
        for level in [&racks.panels, &racks.domains()] {
            let slotted = level.state.iter().filter(|state| state.residual > 0).count();
            let pools = level.state.iter().filter(|at| at.kind == Kind::Pool && at.free > 0);
            assert!(slotted <= 1 && pools.count() <= 1);
        }
        for (job, (gang, whole)) in running {
            let mut domains: BTreeMap<u32, usize> = BTreeMap::new();
            for (panel, gpus) in racks.panels.of_job(*job) {
                assert!(gpus == if *whole { 8 } else { gang.gpus });
                *domains.entry(racks.domain_of[panel.index()]).or_default() += 1;
            }
            assert!(!whole || domains.values().all(|panels| panels % gang.gpus == 0));
        }
    }
}
