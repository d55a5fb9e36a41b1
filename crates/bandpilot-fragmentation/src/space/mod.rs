//! The Anchor-Based Space: what is on each host of a pool, in slots of a power of two.
//!
//! Every instance of two GPUs and more is the *anchor* of a slot as wide as the next power of two. What the anchor leaves of its slot
//! only takes instances of one GPU (*fillers*). A host is empty, *slotted*, or a *pool* of fillers; what is left of a slotted host
//! beside its slots, the *residual*, is for new slots. Whatever a host is follows from what is on it, so a space can be made of
//! any state:
//!
//! * Fillers on a slotted host beyond the places that the slots leave are *orphans* and take of the residual, until there is a place for
//!   them. They come about when an anchor leaves, and where fillers were placed without the space.
//! * A host whose instances do not fit into slots side by side is *mixed*: no slot is opened on it.
//! * A host with broken GPUs has no slot as wide as a full one, since two powers of two below it never add up to one; an odd GPU is a
//!   filler's.
//!
//! Which GPUs of a host an instance has is not looked at, only how many.

mod compact;
mod content;
mod domains;
mod events;
mod index;
mod merge;
mod place;
mod plan;
mod printed;
mod shifts;
mod steps;

#[cfg(test)]
mod tests;

use bandpilot_core::HostId;
use rustc_hash::FxHashMap;

use crate::{Census, Instance, Node, Occupancy, Pool};
use content::Content;
use index::Index;

pub use content::{Fullness, Kind, Tally, slot_width};
pub use domains::Domains;
pub use events::Arrival;
pub use plan::{Goal, Plan, Price};
pub use shifts::Shift;

/// How a space is kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// As the paper prints it: class by class, with the two gaps that the other form mends.
    Printed,
    /// Slots of two hosts are merged so that one becomes full or empty, and orphans are kept and found a place.
    #[default]
    Repaired,
}

/// A job that wants a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gang {
    /// The job; no other one in the space may have the number.
    pub job: u32,
    /// Instances of full size.
    pub instances: usize,
    /// GPUs of each.
    pub gpus: usize,
    /// GPUs of one more instance that is smaller; 0 if there is none.
    pub rest: usize,
}

impl Gang {
    /// Its instances.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + use<> {
        let rest = (self.rest > 0).then_some(self.rest);
        std::iter::repeat_n(self.gpus, self.instances).chain(rest)
    }

    /// GPUs of all instances.
    pub const fn total_gpus(&self) -> usize {
        self.instances * self.gpus + self.rest
    }
}

/// The space of one pool.
#[derive(Debug, Clone)]
pub struct Space {
    rules: Rules,
    pool: Pool,
    ids: Vec<HostId>,
    hosts: Vec<Content>,
    state: Vec<Fullness>,
    index: Index,
    /// Where the instances of each job are, sorted.
    jobs: FxHashMap<u32, Vec<(u32, Instance)>>,
    log: Vec<shifts::Step>,
}

impl PartialEq for Space {
    fn eq(&self, other: &Self) -> bool {
        (self.rules, &self.pool, &self.ids) == (other.rules, &other.pool, &other.ids)
            && self.hosts == other.hosts
            && self.jobs == other.jobs
            && self.index == other.index
    }
}

impl Space {
    /// The space of a pool of a state. Hosts that hold more than they have are taken to have as much.
    pub fn of(occupancy: &Occupancy, pool: usize, rules: Rules) -> Self {
        Self::new(&occupancy.pools[pool], occupancy.of_pool(pool), rules)
    }

    /// The space of some hosts of a pool.
    pub fn new<'a>(pool: &Pool, nodes: impl Iterator<Item = &'a Node>, rules: Rules) -> Self {
        let nodes: Vec<&Node> = nodes.collect();
        let cells = nodes.iter().map(|node| node.cells.max(node.used()));
        let hosts: Vec<Content> = cells.map(Content::new).collect();
        let state = hosts.iter().map(Content::fullness).collect();
        let most = hosts.iter().map(|host| host.cells).max().unwrap_or(0);
        let mut space = Self {
            rules,
            pool: pool.clone(),
            ids: nodes.iter().map(|node| node.host).collect(),
            index: Index::new(most.max(pool.host_gpus)),
            hosts,
            state,
            jobs: FxHashMap::default(),
            log: Vec::new(),
        };
        for (node, (content, state)) in space.hosts.iter().zip(&space.state).enumerate() {
            space.index.insert(node as u32, content, state);
        }
        for (at, node) in nodes.iter().enumerate() {
            node.held.iter().for_each(|instance| space.put(at as u32, *instance));
        }
        space
    }

    /// What is on the hosts.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.ids.iter().zip(&self.hosts).map(|(host, content)| Node {
            host: *host,
            pool: 0,
            cells: content.cells,
            held: content.all().copied().collect(),
        })
    }

    /// What is on the hosts, as a state with this one pool.
    pub fn occupancy(&self) -> Occupancy {
        Occupancy { pools: vec![self.pool.clone()], nodes: self.nodes().collect() }
    }

    /// How full each host is, in the order in which they were given.
    pub fn fullness(&self) -> &[Fullness] {
        &self.state
    }

    /// How many instances of each size run.
    pub fn census(&self) -> Census {
        let sizes = self.hosts.iter().flat_map(Content::all).map(|instance| instance.gpus);
        Census::of(self.pool.host_gpus, sizes)
    }

    /// GPUs held.
    pub const fn used(&self) -> usize {
        self.index.used
    }

    /// Hosts that are neither empty nor full.
    pub const fn partial(&self) -> usize {
        self.index.partial
    }

    /// Hosts that are not empty.
    pub const fn in_use(&self) -> usize {
        self.index.in_use
    }

    /// The instances of a job: their hosts and sizes.
    pub fn of_job(&self, job: u32) -> impl Iterator<Item = (HostId, usize)> {
        let places = self.jobs.get(&job).into_iter().flatten();
        places.map(|(node, instance)| (self.ids[*node as usize], instance.gpus))
    }

    fn put(&mut self, node: u32, instance: Instance) {
        self.hosts[node as usize].put(instance);
        self.renew(node);
        let places = self.jobs.entry(instance.job).or_default();
        let at = places.partition_point(|place| *place < (node, instance));
        places.insert(at, (node, instance));
    }

    fn take(&mut self, node: u32, instance: Instance) {
        if !self.hosts[node as usize].take(instance) {
            return;
        }
        self.renew(node);
        if let Some(places) = self.jobs.get_mut(&instance.job) {
            if let Ok(at) = places.binary_search(&(node, instance)) {
                places.remove(at);
            }
            if places.is_empty() {
                self.jobs.remove(&instance.job);
            }
        }
    }

    /// Finds a host its group anew.
    fn renew(&mut self, node: u32) {
        let at = node as usize;
        let content = &self.hosts[at];
        let now = content.fullness();
        self.index.remove(node, content, &self.state[at]);
        self.index.insert(node, content, &now);
        self.state[at] = now;
    }
}
