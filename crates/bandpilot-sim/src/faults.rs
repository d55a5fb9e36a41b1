//! Hosts and NICs that fail and come back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bandpilot_core::HostId;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::ids::{JobId, key};
use crate::setting::Setting;

/// What happens to hardware.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Happening {
    HostDown(HostId),
    HostUp(HostId),
    /// This share of the host's NICs works from now on.
    Nics(HostId, f64),
}

/// Entries of the list of repairs sort by time, then in the order in which the faults came.
type Repair = Reverse<(u64, u64, HostId, bool)>;

/// Faults as two Poisson processes, one of all hosts and one of all NICs, and the repairs that follow from them. They depend on
/// the seed and the cluster only, so every policy meets the same.
#[derive(Debug)]
pub(crate) struct Faults {
    host_rng: Pcg64,
    link_rng: Pcg64,
    host_every_s: f64,
    link_every_s: f64,
    host_mttr_s: f64,
    link_mttr_s: f64,
    next_host_s: f64,
    next_link_s: f64,
    repairs: BinaryHeap<Repair>,
    drawn: u64,
    down: Vec<bool>,
    /// NICs of each host, and how many of them are down.
    nics: Vec<(u32, u32)>,
    all_nics: u32,
}

impl Faults {
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        let rates = &setting.options.faults;
        let hosts = setting.hosts.len();
        let nics = |host: usize| {
            let nics = |cluster: &bandpilot_core::Cluster| {
                cluster.type_of(HostId(host as u32)).nics.len() as u32
            };
            setting.network.map_or(0, |network| nics(network.cluster()))
        };
        let nics: Vec<(u32, u32)> = (0..hosts).map(|host| (nics(host), 0)).collect();
        let all_nics = nics.iter().map(|(all, _)| all).sum();
        let every = |mtbf_s: f64, units: usize| {
            if units == 0 { f64::INFINITY } else { mtbf_s / units as f64 }
        };
        let mut faults = Self {
            host_rng: Pcg64::seed_from_u64(setting.seed ^ 0x68_6f73_7473),
            link_rng: Pcg64::seed_from_u64(setting.seed ^ 0x6c_696e_6b73),
            host_every_s: every(rates.host_mtbf_s, hosts),
            link_every_s: every(rates.link_mtbf_s, all_nics as usize),
            host_mttr_s: rates.host_mttr_s,
            link_mttr_s: rates.link_mttr_s,
            next_host_s: 0.0,
            next_link_s: 0.0,
            repairs: BinaryHeap::new(),
            drawn: 0,
            down: vec![false; hosts],
            nics,
            all_nics,
        };
        // Time begins with the first job, wherever the trace has its origin.
        let first_s =
            if setting.workload.is_empty() { 0.0 } else { setting.workload.submit_s(JobId(0)) };
        faults.next_host_s = first_s + exponential(&mut faults.host_rng, faults.host_every_s);
        faults.next_link_s = first_s + exponential(&mut faults.link_rng, faults.link_every_s);
        faults
    }

    /// When something happens next, as a [`key`].
    pub(crate) fn next(&self) -> Option<u64> {
        let fault = self.next_host_s.min(self.next_link_s);
        let fault = fault.is_finite().then(|| key(fault));
        let repair = self.repairs.peek().map(|Reverse((at, ..))| *at);
        [fault, repair].into_iter().flatten().min()
    }

    /// Appends everything that happens until `now`, repairs first.
    pub(crate) fn happen(&mut self, now: u64, happenings: &mut Vec<Happening>) {
        while self.next().is_some_and(|next| next <= now) {
            let repair = self.repairs.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            if repair <= key(self.next_host_s.min(self.next_link_s)) {
                if let Some(Reverse((_, _, host, whole))) = self.repairs.pop() {
                    happenings.push(if whole { self.host_up(host) } else { self.nic(host, false) });
                }
            } else if self.next_host_s <= self.next_link_s {
                happenings.extend(self.host_fault());
            } else {
                happenings.extend(self.link_fault());
            }
        }
    }

    fn host_fault(&mut self) -> Option<Happening> {
        let at_s = self.next_host_s;
        let host = self.host_rng.random_range(0..self.down.len());
        let mend_s = exponential(&mut self.host_rng, self.host_mttr_s);
        self.next_host_s = at_s + exponential(&mut self.host_rng, self.host_every_s);
        if std::mem::replace(&mut self.down[host], true) {
            return None;
        }
        let host = HostId(host as u32);
        self.mend_at(at_s + mend_s, host, true);
        Some(Happening::HostDown(host))
    }

    fn host_up(&mut self, host: HostId) -> Happening {
        self.down[host.index()] = false;
        Happening::HostUp(host)
    }

    fn link_fault(&mut self) -> Option<Happening> {
        let at_s = self.next_link_s;
        let mut drawn = self.link_rng.random_range(0..self.all_nics);
        let mend_s = exponential(&mut self.link_rng, self.link_mttr_s);
        self.next_link_s = at_s + exponential(&mut self.link_rng, self.link_every_s);
        let host = self.nics.iter().position(|(all, _)| {
            let here = drawn < *all;
            drawn = drawn.saturating_sub(*all);
            here
        })?;
        let (all, down) = self.nics[host];
        if down == all {
            return None;
        }
        let host = HostId(host as u32);
        self.mend_at(at_s + mend_s, host, false);
        Some(self.nic(host, true))
    }

    fn nic(&mut self, host: HostId, fails: bool) -> Happening {
        let (all, down) = &mut self.nics[host.index()];
        *down = if fails { *down + 1 } else { *down - 1 };
        Happening::Nics(host, f64::from(*all - *down) / f64::from(*all))
    }

    fn mend_at(&mut self, at_s: f64, host: HostId, whole: bool) {
        self.drawn += 1;
        self.repairs.push(Reverse((key(at_s), self.drawn, host, whole)));
    }
}

/// A time drawn from the exponential distribution of this mean, never 0.
fn exponential(rng: &mut Pcg64, mean_s: f64) -> f64 {
    if mean_s.is_infinite() {
        return f64::INFINITY;
    }
    let uniform: f64 = rng.random_range(0.0..1.0);
    (-(1.0 - uniform).ln() * mean_s).max(1e-6)
}
