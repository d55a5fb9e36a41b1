//! How fragmented hosts are.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::least::{Hosts, Least, LeastHosts, OtherHosts, Proof};
use crate::{
    Census, Node, Occupancy, least_hosts, least_hosts_on, least_partial, least_partial_on,
};

/// Answers that a [`Tracker`] keeps. More than that are forgotten all at once.
const MOST_KEPT: usize = 100_000;

/// The figures of a pool, or of several together. Hosts without a usable GPU do not count.
///
/// ```
/// use bandpilot_fragmentation::{Pool, Tracker};
///
/// let pool = Pool { gpu_model: "H100".into(), host_gpus: 8 };
/// let mut tracker = Tracker::new(&[pool], [(0, 8); 4]);
/// tracker.take(0, 4);
/// tracker.take(1, 4);
/// let figures = tracker.total();
/// assert_eq!((figures.partial, figures.least.partial, figures.avoidable()), (2, 0, 2));
/// assert_eq!((figures.sif(), figures.empty_host_loss()), (0.5, 1));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Hosts (N).
    pub hosts: usize,
    /// Hosts with a GPU held.
    pub in_use: usize,
    /// Hosts of which some GPUs are held and some are not (nu).
    pub partial: usize,
    /// Usable GPUs.
    pub gpus: usize,
    /// GPUs that are held (T).
    pub held: usize,
    /// The least number of partial hosts for what runs (Phi*).
    pub least: Least,
    /// The least number of hosts for what runs.
    pub least_hosts: LeastHosts,
    /// The condition WCC holds, in all pools.
    pub is_wide: bool,
    /// The least slack of a pool in the condition WCC, see [`Census::slack`].
    pub slack: i64,
}

impl Figures {
    /// Of no hosts.
    pub const NONE: Self = Self {
        hosts: 0,
        in_use: 0,
        partial: 0,
        gpus: 0,
        held: 0,
        least: Least { partial: 0, proof: Proof::Exact },
        least_hosts: LeastHosts { hosts: 0, proof: Proof::Exact },
        is_wide: true,
        slack: i64::MAX,
    };

    /// Hosts that are partial and need not be (N*SIF). If Phi* is a bound, it may be fewer.
    pub fn avoidable(&self) -> usize {
        self.partial.saturating_sub(self.least.partial)
    }

    /// The share of hosts that are partial and need not be (SIF), 0 to 1.
    pub fn sif(&self) -> f64 {
        self.avoidable() as f64 / self.hosts.max(1) as f64
    }

    /// Hosts that would be empty if everything were packed anew (empty-node loss, ENL). If the least number of hosts is a bound, it may be fewer.
    pub fn empty_host_loss(&self) -> usize {
        self.in_use.saturating_sub(self.least_hosts.hosts)
    }

    /// GPUs that are not held.
    pub fn idle(&self) -> usize {
        self.gpus.saturating_sub(self.held)
    }

    /// Of both together. Nothing moves from one to the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            hosts: self.hosts + other.hosts,
            in_use: self.in_use + other.in_use,
            partial: self.partial + other.partial,
            gpus: self.gpus + other.gpus,
            held: self.held + other.held,
            least: self.least.and(other.least),
            least_hosts: LeastHosts {
                hosts: self.least_hosts.hosts + other.least_hosts.hosts,
                proof: self.least_hosts.proof.max(other.least_hosts.proof),
            },
            is_wide: self.is_wide && other.is_wide,
            slack: self.slack.min(other.slack),
        }
    }
}

impl Least {
    fn and(self, other: Self) -> Self {
        Self { partial: self.partial + other.partial, proof: self.proof.max(other.proof) }
    }
}

/// What can be said of a pool, or of all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolMeasures {
    /// The figures.
    pub figures: Figures,
    /// The least number of partial hosts if pinned instances stay where they are.
    pub least_movable: Least,
}

impl PoolMeasures {
    /// Partial hosts that moving what is not pinned could mend (N times the movable SIF). If the least is a bound, it may be fewer.
    pub fn movable(&self) -> usize {
        self.figures.partial.saturating_sub(self.least_movable.partial)
    }
}

/// What can be said of an occupancy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measures {
    /// Of each pool.
    pub pools: Vec<PoolMeasures>,
    /// Of all.
    pub total: PoolMeasures,
}

/// Measures an occupancy.
pub fn measures(occupancy: &Occupancy) -> Measures {
    let mut tracker = Tracker::of(occupancy);
    let measure = |pool| {
        let figures = tracker.pool(pool);
        PoolMeasures { figures, least_movable: least_movable(occupancy, pool, &figures) }
    };
    let pools: Vec<PoolMeasures> = (0..occupancy.pools.len()).map(measure).collect();
    let none = PoolMeasures {
        figures: Figures::NONE,
        least_movable: Least { partial: 0, proof: Proof::Exact },
    };
    let total = pools.iter().fold(none, |sum, pool| PoolMeasures {
        figures: sum.figures.and(pool.figures),
        least_movable: sum.least_movable.and(pool.least_movable),
    });
    Measures { pools, total }
}

/// Instances of a host that stay where they are.
fn pinned(node: &Node) -> usize {
    node.held.iter().filter(|instance| instance.pinned).map(|instance| instance.gpus).sum()
}

fn least_movable(occupancy: &Occupancy, pool: usize, figures: &Figures) -> Least {
    if occupancy.of_pool(pool).all(|node| pinned(node) == 0) {
        return figures.least;
    }
    let host_gpus = occupancy.pools[pool].host_gpus;
    let movable = occupancy.of_pool(pool).flat_map(|node| &node.held);
    let sizes = movable.filter(|instance| !instance.pinned).map(|instance| instance.gpus);
    let census = Census::of(host_gpus, sizes);
    let mut others: BTreeMap<(usize, bool), usize> = BTreeMap::new();
    let mut whole = 0;
    for node in occupancy.of_pool(pool) {
        match pinned(node) {
            0 if node.cells == host_gpus => whole += 1,
            stays => *others.entry((node.cells.saturating_sub(stays), stays > 0)).or_default() += 1,
        }
    }
    let others = others.into_iter();
    let others = others.map(|((cells, held), count)| OtherHosts { cells, held, count });
    let hosts = Hosts { whole, others: others.collect() };
    let least = least_partial_on(&census, &hosts, figures.partial);
    // What stays where it is never makes it less.
    match least.partial < figures.least.partial {
        true if figures.least.partial < figures.partial => {
            Least { partial: figures.least.partial, proof: Proof::Bound }
        }
        true => figures.least,
        false => least,
    }
}

/// What a pool comes to.
#[derive(Debug, Clone)]
struct Sums {
    census: Census,
    hosts: usize,
    in_use: usize,
    partial: usize,
    gpus: usize,
    held: usize,
    /// Hosts that lack GPUs, by the GPUs that they have.
    lacking: BTreeMap<usize, usize>,
}

impl Sums {
    fn of(host_gpus: usize) -> Self {
        Self {
            census: Census::of(host_gpus, []),
            hosts: 0,
            in_use: 0,
            partial: 0,
            gpus: 0,
            held: 0,
            lacking: BTreeMap::new(),
        }
    }

    fn add(&mut self, place: Place) {
        self.hosts += usize::from(place.cells > 0);
        self.in_use += usize::from(place.used > 0);
        self.partial += usize::from(place.is_partial());
        self.gpus += place.cells;
        self.held += place.used;
        if place.lacks(self.census.host_gpus()) {
            *self.lacking.entry(place.cells).or_default() += 1;
        }
    }

    fn remove(&mut self, place: Place) {
        self.hosts -= usize::from(place.cells > 0);
        self.in_use -= usize::from(place.used > 0);
        self.partial -= usize::from(place.is_partial());
        self.gpus -= place.cells;
        self.held -= place.used;
        if place.lacks(self.census.host_gpus())
            && let Some(count) = self.lacking.get_mut(&place.cells)
        {
            *count -= 1;
            if *count == 0 {
                self.lacking.remove(&place.cells);
            }
        }
    }

    /// Its hosts, if not all are whole.
    fn uneven_hosts(&self) -> Option<Hosts> {
        let other = |(cells, count): (&usize, &usize)| OtherHosts {
            cells: *cells,
            held: false,
            count: *count,
        };
        let others: Vec<OtherHosts> = self.lacking.iter().map(other).collect();
        let lack: usize = self.lacking.values().sum();
        (lack > 0).then_some(Hosts { whole: self.hosts - lack, others })
    }

    fn least(&self, hosts: Option<&Hosts>) -> (Least, LeastHosts) {
        let Some(hosts) = hosts else {
            return (least_partial(&self.census), least_hosts(&self.census));
        };
        let partial = least_partial_on(&self.census, hosts, self.partial);
        (partial, least_hosts_on(&self.census, hosts, self.in_use))
    }

    fn figures(&self, (least, least_hosts): (Least, LeastHosts)) -> Figures {
        Figures {
            hosts: self.hosts,
            in_use: self.in_use,
            partial: self.partial,
            gpus: self.gpus,
            held: self.held,
            least,
            least_hosts,
            is_wide: self.census.is_wide(),
            slack: self.census.slack(),
        }
    }
}

/// How full a host is.
#[derive(Debug, Clone, Copy)]
struct Place {
    pool: usize,
    cells: usize,
    used: usize,
}

impl Place {
    fn is_partial(self) -> bool {
        self.used > 0 && self.used < self.cells
    }

    fn lacks(self, host_gpus: usize) -> bool {
        (1..host_gpus).contains(&self.cells)
    }
}

/// Keeps the figures of hosts up to date as instances come and go.
///
/// Every change costs the same whatever the size of the cluster. The least numbers cost constant time where WCC holds and no host lacks GPUs;
/// otherwise each mix of instances is solved once and kept.
#[derive(Debug, Clone)]
pub struct Tracker {
    pools: Vec<Sums>,
    places: Vec<Place>,
    /// Figures of each pool, unless it has changed since.
    current: Vec<Option<Figures>>,
    kept: FxHashMap<(Census, Option<Hosts>), (Least, LeastHosts)>,
}

impl Tracker {
    /// Empty hosts, each with its pool and its usable GPUs.
    pub fn new(pools: &[crate::Pool], hosts: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut sums: Vec<Sums> = pools.iter().map(|pool| Sums::of(pool.host_gpus)).collect();
        let places = hosts.into_iter().map(|(pool, cells)| Place { pool, cells, used: 0 });
        let places: Vec<Place> = places.collect();
        for place in &places {
            sums[place.pool].add(*place);
        }
        let current = vec![None; sums.len()];
        Self { pools: sums, places, current, kept: FxHashMap::default() }
    }

    /// The hosts of an occupancy, with what is on them.
    pub fn of(occupancy: &Occupancy) -> Self {
        let hosts = occupancy.nodes.iter().map(|node| (node.pool, node.cells));
        let mut tracker = Self::new(&occupancy.pools, hosts);
        for (at, node) in occupancy.nodes.iter().enumerate() {
            for instance in &node.held {
                tracker.take(at, instance.gpus);
            }
        }
        tracker
    }

    /// An instance of so many GPUs comes to a host (by place in the list of hosts).
    pub fn take(&mut self, host: usize, gpus: usize) {
        self.change(host, |sums, place| {
            sums.census.add(gpus);
            place.used += gpus;
        });
    }

    /// An instance of so many GPUs leaves a host.
    pub fn give(&mut self, host: usize, gpus: usize) {
        self.change(host, |sums, place| {
            sums.census.remove(gpus);
            place.used = place.used.saturating_sub(gpus);
        });
    }

    /// A host has so many usable GPUs from now on.
    pub fn set_cells(&mut self, host: usize, cells: usize) {
        self.change(host, |_, place| place.cells = cells);
    }

    fn change(&mut self, host: usize, change: impl FnOnce(&mut Sums, &mut Place)) {
        let place = &mut self.places[host];
        let sums = &mut self.pools[place.pool];
        sums.remove(*place);
        change(sums, place);
        sums.add(*place);
        self.current[place.pool] = None;
    }

    /// The figures of a pool.
    pub fn pool(&mut self, pool: usize) -> Figures {
        if let Some(figures) = self.current[pool] {
            return figures;
        }
        let sums = &self.pools[pool];
        let hosts = sums.uneven_hosts();
        let least = if hosts.is_none() && sums.census.is_wide() {
            sums.least(None)
        } else {
            if self.kept.len() >= MOST_KEPT {
                self.kept.clear();
            }
            let key = (sums.census.clone(), hosts);
            *self.kept.entry(key).or_insert_with_key(|(_, hosts)| sums.least(hosts.as_ref()))
        };
        let figures = sums.figures(least);
        self.current[pool] = Some(figures);
        figures
    }

    /// The figures of all pools together.
    pub fn total(&mut self) -> Figures {
        (0..self.pools.len()).fold(Figures::NONE, |sum, pool| sum.and(self.pool(pool)))
    }
}
