//! A model made ready for one cluster and one message size.

use std::cell::RefCell;
use std::rc::Rc;

use bandpilot_core::{Cluster, Collective, GpuMask, HostId, HostTypeId, Links, Placement};
use rustc_hash::FxHashMap;

use crate::groups::Groups;
use crate::local::{self, LARGE_MESSAGE_BYTES};
use crate::local_tables::{LocalTables, interpolate, local_tables, type_key};
use crate::model::BandwidthModel;
use crate::physics::{CrossInput, Limit};
use crate::residual::MOST_HOSTS_TOLD_APART;
use crate::share::{Aggregate, Share};

/// Injection bandwidth assumed for a host without any healthy NIC, GB/s: 10 Gbit/s Ethernet.
const NO_NIC_GBYTES_PER_S: f64 = 1.25;

/// What a predicted value rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// This very set (or one that the model cannot tell from it) was measured at this size.
    Measured,
    /// The links inside a host decide, and these very GPUs of it were measured.
    MeasuredInside,
    /// The closed form or link classes, corrected by measurements of other sets.
    Corrected,
    /// The closed form or link classes alone.
    ClosedForm,
}

/// What holds a set back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bottleneck {
    /// A single GPU: nothing is exchanged.
    None,
    /// The NICs of this host.
    Rails(HostId),
    /// The links between the GPUs inside this host.
    InsideHost(HostId),
    /// NVSwitch of the hosts.
    Switch(HostId),
    /// The latency of a small message.
    Latency,
}

/// An isolated prediction with its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Isolated busbw, GB/s; 0 for a single GPU.
    pub isolated_gbytes_per_s: f64,
    /// What it rests on.
    pub evidence: Evidence,
    /// What decides.
    pub bottleneck: Bottleneck,
    /// Relative error to expect.
    pub band: f64,
}

/// Upper bounds for sets of which only some shares are known yet.
#[derive(Debug, Clone, PartialEq)]
pub struct CrossBounds {
    closed_form: f64,
    factors: Slab,
    measured: Slab,
}

impl CrossBounds {
    /// Bound for sets whose levels include these and whose least local cap is at most this.
    pub fn at(&self, levels: u8, local_cap: f64) -> f64 {
        // A measured set is worth its measurement even where the local table says less.
        self.predicted(levels).min(local_cap).max(self.measured(levels))
    }

    /// The part of it that comes from measured sets; negative infinity if there is none.
    pub fn measured(&self, levels: u8) -> f64 {
        self.measured[levels as usize]
    }

    /// The part of it that comes from predictions, before any local cap.
    pub fn predicted(&self, levels: u8) -> f64 {
        self.closed_form * self.factors[levels as usize]
    }
}

/// One value for each combination of levels.
type Slab = Rc<[f64; 256]>;

/// Slabs computed so far.
type Slabs<K> = RefCell<FxHashMap<K, Slab>>;

#[derive(Debug, Clone, Copy)]
struct Measured {
    hosts: usize,
    ranks: usize,
    busbw: f64,
}

/// Predicts sets of one cluster at one message size. Remembers what it computed; the memory changes no answer.
#[derive(Debug)]
pub struct Predictor<'a> {
    model: &'a BandwidthModel,
    cluster: &'a Cluster,
    bytes: u64,
    groups: Option<Groups<'a>>,
    tables: LocalTables,
    measured: FxHashMap<u64, Measured>,
    /// Best measured value by types and numbers of GPUs.
    measured_by_size: FxHashMap<u64, f64>,
    /// Best measured value by (hosts, levels).
    measured_best: FxHashMap<(usize, u8), f64>,
    shares: RefCell<FxHashMap<(u32, u64), Share>>,
    insides: RefCell<FxHashMap<(u32, u64), f64>>,
    /// Logarithms of the correction by hosts and rails.
    slabs: Slabs<(u32, u8)>,
    /// Best corrections of supersets, by hosts, rails, least level and allowed levels.
    factors: Slabs<(u32, u8, u8, u8)>,
    /// Best measured values of supersets, by hosts, least level and allowed levels.
    bests: Slabs<(u32, u8, u8)>,
}

impl<'a> Predictor<'a> {
    /// Prepares `model` for `cluster` at `bytes`.
    pub fn new(model: &'a BandwidthModel, cluster: &'a Cluster, bytes: u64) -> Self {
        Self::build(model, cluster, bytes, None)
    }

    /// Prepares `model` for rings that run side by side, in units of one group of `groups`: all bandwidths are those
    /// of one ring.
    pub fn with_groups(
        model: &'a BandwidthModel,
        cluster: &'a Cluster,
        groups: Groups<'a>,
    ) -> Self {
        Self::build(model, cluster, groups.ring_traffic.bytes, Some(groups))
    }

    fn build(
        model: &'a BandwidthModel,
        cluster: &'a Cluster,
        bytes: u64,
        groups: Option<Groups<'a>>,
    ) -> Self {
        let mut predictor = Self {
            model,
            cluster,
            bytes,
            groups,
            tables: local_tables(model, cluster),
            measured: FxHashMap::default(),
            measured_by_size: FxHashMap::default(),
            measured_best: FxHashMap::default(),
            shares: RefCell::default(),
            insides: RefCell::default(),
            slabs: RefCell::default(),
            factors: RefCell::default(),
            bests: RefCell::default(),
        };
        predictor.index_measured();
        predictor
    }

    /// The cluster that this was made for.
    pub fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// The message size, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The groups that sets are made of, if rings run side by side.
    pub fn groups(&self) -> Option<&Groups<'a>> {
        self.groups.as_ref()
    }

    /// The collective.
    pub fn collective(&self) -> Collective {
        self.model.collective
    }

    /// GPUs that stay together in a host and of which each ring has one.
    fn unit(&self) -> usize {
        self.groups.as_ref().map_or(1, Groups::unit)
    }

    /// What an objective makes of a bandwidth and of what goes on inside the hosts: the bandwidth itself, or with groups
    /// steps per second. Never falls with the bandwidth, never grows with the seconds.
    pub fn score(&self, busbw: f64, inner_seconds: f64) -> f64 {
        match &self.groups {
            None => busbw,
            Some(groups) => 1.0 / groups.step_seconds(busbw, inner_seconds).max(1e-12),
        }
    }

    /// The model behind it.
    pub fn model(&self) -> &'a BandwidthModel {
        self.model
    }

    /// Isolated busbw of a set, GB/s; 0 for fewer than two GPUs.
    pub fn isolated(&self, set: &Placement) -> f64 {
        match set.shares() {
            [] => 0.0,
            [(host, mask)] => self.inside(*host, *mask),
            shares => self.cross(&shares.iter().fold(Aggregate::EMPTY, |set, (host, mask)| {
                set.with(&self.share(*host, *mask), 1)
            })),
        }
    }

    /// Isolated busbw inside one host, GB/s; 0 for fewer than two GPUs (with groups: for fewer than two).
    pub fn inside(&self, host: HostId, mask: GpuMask) -> f64 {
        if mask.count() < 2 * self.unit() {
            return 0.0;
        }
        if let Some(value) = self.insides.borrow().get(&(host.0, mask.0)) {
            return *value;
        }
        let value = match &self.groups {
            None => self.one_ring_inside(host, mask),
            Some(groups) => {
                let rings = groups.rings(&groups.split(host, mask));
                let values = rings.into_iter().map(|ring| self.one_ring_inside(host, ring));
                values.fold(f64::INFINITY, f64::min)
            }
        };
        self.insides.borrow_mut().insert((host.0, mask.0), value);
        value
    }

    /// Seconds a step of what goes on inside a host besides the rings; 0 without groups.
    pub fn inner_seconds(&self, host: HostId, mask: GpuMask) -> f64 {
        if self.groups.is_none() { 0.0 } else { self.share(host, mask).inner_seconds }
    }

    fn one_ring_inside(&self, host: HostId, mask: GpuMask) -> f64 {
        let host_type = self.cluster.host(host).host_type;
        let ratio = self
            .tables
            .by_host
            .get(&(host.0, mask.0))
            .map(|ratios| interpolate(ratios, self.bytes))
            .or_else(|| self.type_ratio(host_type, mask, self.bytes));
        let ratio = ratio.or_else(|| self.tables.typical.get(&host_type.0).copied());
        local::physics(self.cluster.type_of(host), mask, self.collective(), self.bytes)
            * ratio.unwrap_or(0.0).exp()
    }

    /// True if which GPUs of the host are taken can change an answer inside it: PCIe and mesh hosts, and hosts
    /// whose single subsets were measured.
    pub fn subsets_differ(&self, host: HostId) -> bool {
        self.is_mesh(host) || self.has_host_table(host)
    }

    /// True for hosts whose GPUs are not all alike to the cross-host level.
    pub fn is_mesh(&self, host: HostId) -> bool {
        matches!(self.cluster.type_of(host).links, Links::Matrix(_))
    }

    /// True if every GPU of the host has the same NIC rate to itself, so that only the number of GPUs matters.
    pub fn has_uniform_rails(&self, host: HostId) -> bool {
        let host_type = self.cluster.type_of(host);
        self.cluster.host(host).unhealthy_nics.is_empty()
            && (host_type.nics.is_empty()
                || (host_type.nics.len() == host_type.gpus
                    && host_type.nics.iter().all(|nic| {
                        nic.gpus.count() == 1 && nic.gbit_per_s == host_type.nics[0].gbit_per_s
                    })
                    && host_type.nics.iter().fold(GpuMask::EMPTY, |m, n| m.union(n.gpus)).count()
                        == host_type.gpus))
    }

    /// The cross-host view of one host's part of a set.
    pub fn share(&self, host: HostId, mask: GpuMask) -> Share {
        if let Some(share) = self.shares.borrow().get(&(host.0, mask.0)) {
            return *share;
        }
        let share = self.compute_share(host, mask);
        self.shares.borrow_mut().insert((host.0, mask.0), share);
        share
    }

    /// Isolated busbw of a set that spans hosts, GB/s.
    pub fn cross(&self, set: &Aggregate) -> f64 {
        self.measured_value(set).unwrap_or_else(|| self.unmeasured(set))
    }

    /// Upper bound of [`Predictor::cross`] over all sets that agree with `set` in everything but which GPUs of PCIe and mesh
    /// hosts they take, and whose local cap is at most that of `set`.
    pub fn cross_relaxed(&self, set: &Aggregate) -> f64 {
        let measured = self.measured_by_size.get(&set.size_key).copied().unwrap_or(0.0);
        self.unmeasured(set).max(measured)
    }

    fn unmeasured(&self, set: &Aggregate) -> f64 {
        let slab = self.slab(set.hosts, set.rails);
        (self.closed_form(set) * slab[set.levels as usize].exp()).min(set.local_cap)
    }

    /// The closed form without correction and without latency, GB/s.
    pub fn closed_form_ceiling(&self, set: &Aggregate) -> f64 {
        self.model.physics.asymptote(&self.input(set))
    }

    /// The closed form without correction, local caps and measurements, GB/s.
    pub fn closed_form(&self, set: &Aggregate) -> f64 {
        self.model.physics.busbw(&self.input(set))
    }

    /// Upper bounds of [`Predictor::cross`] by levels, over all sets that agree with `set` in everything but levels and local
    /// caps, whose levels lie within `allowed` and, unless `least_level` is 0, have it as their lowest.
    pub fn cross_bounds(&self, set: &Aggregate, least_level: u8, allowed: u8) -> CrossBounds {
        let within = if least_level == 0 { allowed } else { allowed & !(least_level - 1) };
        let hosts = (set.hosts as u32).min(MOST_HOSTS_TOLD_APART);
        let possible = |levels: u8| levels & !within == 0 && levels & least_level == least_level;
        let factors = remembered(&self.factors, (hosts, set.rails, least_level, within), || {
            let slab = self.slab(set.hosts, set.rails);
            best_of_supersets(|levels| {
                if possible(levels) { slab[levels as usize].exp() } else { f64::NEG_INFINITY }
            })
        });
        let measured = remembered(&self.bests, (set.hosts as u32, least_level, within), || {
            best_of_supersets(|levels| match self.measured_best.get(&(set.hosts, levels)) {
                Some(best) if possible(levels) => *best,
                _ => f64::NEG_INFINITY,
            })
        });
        CrossBounds { closed_form: self.closed_form(set), factors, measured }
    }

    /// True if this very set, or one that the model cannot tell from it, was measured at this size.
    pub fn is_measured(&self, set: &Placement) -> bool {
        match set.shares() {
            [] => false,
            [(host, mask)] => {
                self.groups.is_none() && self.tables.by_host.contains_key(&(host.0, mask.0))
            }
            shares => {
                let set = shares.iter().fold(Aggregate::EMPTY, |set, (host, mask)| {
                    set.with(&self.share(*host, *mask), 1)
                });
                self.measured_value(&set).is_some()
            }
        }
    }

    /// The prediction with its grounds.
    pub fn predict(&self, set: &Placement) -> Prediction {
        let isolated = self.isolated(set);
        let measured = self.is_measured(set);
        let learned = if set.is_cross_host() {
            !self.model.residual.points.is_empty()
        } else {
            set.shares().first().is_some_and(|(host, _)| {
                self.tables.typical.contains_key(&self.cluster.host(*host).host_type.0)
            })
        };
        let bottleneck = self.bottleneck(set);
        let inside = match bottleneck {
            Bottleneck::InsideHost(host) => {
                Some(self.is_measured(&Placement::new([(host, set.on(host))])))
            }
            _ => None,
        };
        let evidence = match (measured, inside, learned) {
            (true, ..) => Evidence::Measured,
            (_, Some(true), _) => Evidence::MeasuredInside,
            (_, _, true) => Evidence::Corrected,
            (_, _, false) => Evidence::ClosedForm,
        };
        let bands = &self.model.bands;
        let band = match evidence {
            Evidence::Measured | Evidence::MeasuredInside => bands.measured,
            _ if inside.is_some() => bands.inside_mesh,
            _ => bands.of(set.hosts(), is_even(set)),
        };
        Prediction { isolated_gbytes_per_s: isolated, evidence, bottleneck, band }
    }

    fn bottleneck(&self, set: &Placement) -> Bottleneck {
        match set.shares() {
            [] => Bottleneck::None,
            [(_, mask)] if mask.count() < 2 => Bottleneck::None,
            [(host, _)] if self.is_mesh(*host) => Bottleneck::InsideHost(*host),
            [(host, _)] => Bottleneck::Switch(*host),
            shares => {
                let seen: Vec<(HostId, Share)> =
                    shares.iter().map(|(host, mask)| (*host, self.share(*host, *mask))).collect();
                let all: Aggregate = seen.iter().map(|(_, share)| share).collect();
                let least = |value: fn(&Share) -> f64| {
                    seen.iter()
                        .min_by(|a, b| value(&a.1).total_cmp(&value(&b.1)))
                        .map_or(shares[0].0, |(host, _)| *host)
                };
                if self.cross(&all) >= all.local_cap * 0.999 {
                    return Bottleneck::InsideHost(least(|share| share.local_cap));
                }
                match self.model.physics.limit(&self.input(&all)) {
                    Limit::Rails => Bottleneck::Rails(least(|share| share.injection)),
                    Limit::Switch => Bottleneck::Switch(least(|share| share.switch_cap)),
                    Limit::Latency => Bottleneck::Latency,
                }
            }
        }
    }

    fn measured_value(&self, set: &Aggregate) -> Option<f64> {
        self.measured
            .get(&set.key)
            .filter(|entry| entry.hosts == set.hosts && entry.ranks == set.ranks)
            .map(|entry| entry.busbw)
    }

    pub(crate) fn input(&self, set: &Aggregate) -> CrossInput {
        CrossInput {
            collective: self.collective(),
            hosts: set.hosts,
            ranks: set.ranks,
            least_ranks: set.least_ranks,
            injection: set.injection,
            nic_per_gpu: set.nic_per_gpu,
            nic_rate: set.nic_rate,
            tree_plateau: set.tree_plateau,
            ring_plateau: set.ring_plateau,
            switch_cap: set.switch_cap,
            bytes: self.bytes,
        }
    }

    fn slab(&self, hosts: usize, rails: u8) -> Slab {
        let hosts = (hosts as u32).min(MOST_HOSTS_TOLD_APART);
        remembered(&self.slabs, (hosts, rails), || {
            Rc::from(self.model.residual.slab(hosts, rails, self.bytes))
        })
    }

    /// True if subsets of this very host were measured.
    pub fn has_host_table(&self, host: HostId) -> bool {
        self.tables.by_host.contains_key(&(host.0, 0))
    }

    fn type_ratio(&self, host_type: HostTypeId, mask: GpuMask, bytes: u64) -> Option<f64> {
        let key = type_key(self.cluster, host_type, mask);
        self.tables.by_type.get(&(host_type.0, key)).map(|ratios| interpolate(ratios, bytes))
    }

    fn switch_bandwidth(&self, host_type: HostTypeId, count: usize) -> f64 {
        let kind = &self.cluster.host_types[host_type.0 as usize];
        let mask = GpuMask::first(count);
        let ratio = self
            .type_ratio(host_type, mask, LARGE_MESSAGE_BYTES)
            .or_else(|| self.tables.typical.get(&host_type.0).copied());
        local::physics(kind, mask, self.collective(), LARGE_MESSAGE_BYTES)
            * ratio.unwrap_or(0.0).exp()
    }

    fn compute_share(&self, host: HostId, mask: GpuMask) -> Share {
        let mut share = self.share_of_rings(host, mask, self.unit());
        if let Some(groups) = &self.groups
            && mask.count().is_multiple_of(groups.unit())
        {
            share.inner_seconds = groups.inner_seconds(host, &groups.split(host, mask));
        }
        share
    }

    /// The view of one of `unit` rings that run side by side and share the host's NICs.
    fn share_of_rings(&self, host: HostId, mask: GpuMask, unit: usize) -> Share {
        let host_type = self.cluster.host(host).host_type;
        let kind = self.cluster.type_of(host);
        let count = mask.count();
        let ranks = count.div_ceil(unit);
        let switched = matches!(kind.links, Links::NvSwitch);
        let unhealthy = &self.cluster.host(host).unhealthy_nics;
        let healthy = kind.nics.iter().enumerate().filter(|(i, _)| !unhealthy.contains(i));
        let serving: Vec<f64> = healthy
            .clone()
            .filter(|(_, nic)| !nic.gpus.intersection(mask).is_empty())
            .map(|(_, nic)| nic.gbit_per_s / 8.0)
            .collect();
        // Through another GPU's NIC: the slowest, so that no GPU more makes a set look slower.
        let fallback = healthy.map(|(_, nic)| nic.gbit_per_s / 8.0).fold(f64::INFINITY, f64::min);
        let injection = match (serving.is_empty(), fallback.is_finite()) {
            (false, _) => serving.iter().sum(),
            (true, true) => fallback,
            (true, false) => NO_NIC_GBYTES_PER_S,
        };
        let eighth = (8 * ranks).div_ceil(kind.gpus.max(1)).clamp(1, 8);
        let when =
            |wanted: bool, value: &dyn Fn() -> f64| if wanted { value() } else { f64::INFINITY };
        let plateaus = local::switch_plateaus(&kind.gpu_model);
        // Of the full host, scaled as measurements of this collective say.
        let full = when(switched && kind.gpus > 1, &|| self.switch_bandwidth(host_type, kind.gpus));
        let all_reduce = if self.collective() == Collective::AllReduce {
            plateaus.all_reduce
        } else {
            plateaus.ring
        };
        Share {
            host_type,
            count: count as u8,
            ranks: ranks as u8,
            mask_key: if switched { 0 } else { mask.0 },
            level: 1 << (eighth - 1),
            injection: injection / unit as f64,
            nic_per_gpu: injection / count.max(1) as f64,
            nic_rate: injection / serving.len().max(1) as f64,
            rails: serving.len().div_ceil(unit).clamp(1, 255) as u8,
            tree_plateau: full * plateaus.tree / all_reduce,
            ring_plateau: full * plateaus.ring / all_reduce,
            switch_cap: when(switched && ranks > 1, &|| self.switch_bandwidth(host_type, ranks)),
            local_cap: when(!switched && count >= 2 * unit, &|| match unit {
                1 => self.one_ring_inside(host, mask),
                _ => self.inside(host, mask),
            }),
            inner_seconds: 0.0,
        }
    }

    fn index_measured(&mut self) {
        for entry in self.model.cross.iter().filter(|entry| entry.bytes == self.bytes) {
            let mut set = Aggregate::EMPTY;
            let mut known = true;
            for share in &entry.shares {
                let host_type =
                    self.cluster.host_types.iter().position(|kind| kind.name == share.host_type);
                let host = host_type.and_then(|t| {
                    self.cluster.hosts.iter().position(|h| h.host_type.0 as usize == t)
                });
                let Some(host) = host else {
                    known = false;
                    break;
                };
                let mask = share.gpus.unwrap_or(GpuMask::first(share.count as usize));
                set = set.with(&self.share_of_rings(HostId(host as u32), mask, 1), 1);
            }
            if known {
                let busbw = entry.busbw_gbytes_per_s;
                self.measured
                    .insert(set.key, Measured { hosts: set.hosts, ranks: set.ranks, busbw });
                let best = self.measured_best.entry((set.hosts, set.levels)).or_insert(0.0);
                *best = best.max(busbw);
                let best = self.measured_by_size.entry(set.size_key).or_insert(0.0);
                *best = best.max(busbw);
            }
        }
    }
}

/// What was computed for this key, or computes it.
fn remembered<K: Copy + Eq + std::hash::Hash>(
    slabs: &Slabs<K>,
    key: K,
    compute: impl FnOnce() -> Slab,
) -> Slab {
    if let Some(slab) = slabs.borrow().get(&key) {
        return Rc::clone(slab);
    }
    let slab = compute();
    slabs.borrow_mut().insert(key, Rc::clone(&slab));
    slab
}

/// For every combination of levels the greatest value of any combination that includes it.
fn best_of_supersets(value: impl Fn(u8) -> f64) -> Slab {
    let mut best = [f64::NEG_INFINITY; 256];
    for levels in 1..=255_u8 {
        best[levels as usize] = value(levels);
    }
    for bit in 0..8 {
        for levels in 0..256 {
            if levels >> bit & 1 == 0 {
                best[levels] = best[levels].max(best[levels | 1 << bit]);
            }
        }
    }
    Rc::new(best)
}

/// True if every host of the set gives the same number of GPUs.
fn is_even(set: &Placement) -> bool {
    let mut counts = set.shares().iter().map(|(_, mask)| mask.count());
    let first = counts.next();
    counts.all(|count| Some(count) == first)
}
