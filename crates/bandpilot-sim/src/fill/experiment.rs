//! One run: pods arrive one after the other until their demand is a given share of the cluster.

use rand::RngExt;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::board::Board;
use super::cluster::Cluster;
use super::pods::Pods;
use super::policies::Policy;
use super::target::Target;

/// Greatest demand that can arrive, per cent of the cluster.
pub const MAX_TO_PCT: u32 = 1000;

/// Per cent between two points of a run.
const STEP_PCT: u32 = 10;

/// Most pods that arrive in one run.
pub const MAX_ARRIVALS: usize = 10_000_000;

/// Why the demand of a list never gets where it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WrongDemand {
    /// It stays at nothing.
    #[error("no pod asks for a GPU")]
    None,
    /// It would take too long.
    #[error("pods ask for so little that more than {MAX_ARRIVALS} would have to arrive")]
    TooSmall,
}

/// A cluster on its way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Demand that has arrived, placed or not, per cent of all GPU thousandths.
    pub arrived_pct: f64,
    /// Allocated, per cent of all GPU thousandths.
    pub alloc_pct: f64,
    /// Fragmentation, per cent of all GPU thousandths.
    pub frag_pct: f64,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Filled {
    /// At 10, 20, ... per cent of demand that has arrived, and at the end.
    pub points: Vec<Point>,
    /// Pods that arrived.
    pub arrived: usize,
    /// Pods that fitted nowhere and were dropped.
    pub dropped: usize,
}

impl Filled {
    /// The first point with so much demand; the last one if there never is.
    pub fn at(&self, arrived_pct: f64) -> Point {
        let found = self.points.iter().find(|point| point.arrived_pct >= arrived_pct);
        found.copied().unwrap_or_else(|| self.last())
    }

    /// The end.
    pub fn last(&self) -> Point {
        let none = Point { arrived_pct: 0.0, alloc_pct: 0.0, frag_pct: 0.0 };
        self.points.last().copied().unwrap_or(none)
    }
}

/// The pods in the order in which they arrive, each as its shape: the list shuffled, then pods drawn from it evenly and with
/// repetition, as long as their demand is at most `to_pct` per cent of the cluster. A list that asks for more is cut.
///
/// # Errors
/// If no pod asks for a GPU, or all for so little that more than [`MAX_ARRIVALS`] would have to arrive.
pub fn arrivals(
    cluster: &Cluster,
    pods: &Pods,
    to_pct: u32,
    rng: &mut Pcg64,
) -> Result<Vec<u32>, WrongDemand> {
    let milli = |shape: u32| pods.shapes()[shape as usize].total_milli();
    if pods.each().iter().all(|shape| milli(*shape) == 0) {
        return Err(WrongDemand::None);
    }
    let most = cluster.capacity_milli() * u64::from(to_pct.min(MAX_TO_PCT)) / 100;
    let mut order = pods.each().to_vec();
    order.shuffle(rng);
    let mut demand: u64 = order.iter().map(|shape| milli(*shape)).sum();
    while demand > most
        && let Some(shape) = order.pop()
    {
        demand -= milli(shape);
    }
    if order.len() < pods.len() {
        return Ok(order);
    }
    loop {
        let shape = pods.each()[rng.random_range(0..pods.len())];
        demand += milli(shape);
        if demand > most {
            return Ok(order);
        }
        if order.len() >= MAX_ARRIVALS {
            return Err(WrongDemand::TooSmall);
        }
        order.push(shape);
    }
}

/// Fills a cluster until the demand that has arrived is `to_pct` per cent of it. The seed draws the order of pods and of nodes, the
/// same for every policy, and what the policy itself draws.
///
/// # Errors
/// If no pod asks for a GPU, or all for so little that more than [`MAX_ARRIVALS`] would have to arrive.
pub fn fill(
    cluster: &Cluster,
    pods: &Pods,
    target: &Target,
    policy: &Policy,
    to_pct: u32,
    seed: u64,
) -> Result<Filled, WrongDemand> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let arrivals = arrivals(cluster, pods, to_pct, &mut rng)?;
    let mut nodes = cluster.nodes.clone();
    nodes.shuffle(&mut rng);
    let mut policy = policy.make(cluster, target, rng.random());
    let mut board = Board::new(pods.shapes().len());
    let capacity = cluster.capacity_milli();
    let mut lost: u64 = nodes.iter().map(|node| target.weighted_fragmentation(node)).sum();
    let (mut arrived, mut allocated) = (0_u64, 0_u64);
    let mut filled = Filled { points: Vec::new(), arrived: arrivals.len(), dropped: 0 };
    let mut next_pct = STEP_PCT;
    let pct = |milli: f64| 100.0 * milli / capacity as f64;
    for (at, id) in arrivals.iter().enumerate() {
        let pod = &pods.shapes()[*id as usize];
        let scores = board.scores(*id as usize, pod, &nodes, &*policy);
        if let Some(chosen) = policy.choose(scores) {
            let node = &mut nodes[chosen];
            let gpu = if pod.shares() { policy.gpu(node, pod) } else { 0 };
            lost -= target.weighted_fragmentation(node);
            node.take(pod, gpu);
            lost += target.weighted_fragmentation(node);
            allocated += pod.total_milli();
            board.changed(chosen);
        } else {
            filled.dropped += 1;
        }
        arrived += pod.total_milli();
        let due = 100 * arrived >= u64::from(next_pct) * capacity;
        if due || at + 1 == arrivals.len() {
            next_pct = ((100 * arrived / capacity) as u32 / STEP_PCT + 1) * STEP_PCT;
            filled.points.push(Point {
                arrived_pct: pct(arrived as f64),
                alloc_pct: pct(allocated as f64),
                frag_pct: pct(lost as f64 / target.total() as f64),
            });
        }
    }
    Ok(filled)
}
