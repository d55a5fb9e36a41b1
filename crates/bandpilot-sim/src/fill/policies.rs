//! Policies that choose a node for a pod, and on it a GPU for one that shares. The definitions are those of the authors'
//! simulator (hkust-adsl/kubernetes-scheduler-simulator), whose published figures the tests are held to.
//!
//! Kubernetes fashion: every node that the pod fits on gets a whole score, the greatest wins, and among equals the first in an
//! order of the nodes that is drawn once for a seed.

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::cluster::{Cluster, Node};
use super::pods::PodShape;
use super::target::Target;

/// A policy.
pub trait NodePolicy {
    /// The score of a node that the pod fits on; greater is better.
    fn score(&self, node: &Node, pod: &PodShape) -> i32;

    /// The position of the chosen node; `scores` has `None` where the pod does not fit.
    fn choose(&mut self, scores: &[Option<i32>]) -> Option<usize> {
        let mut best: Option<(usize, i32)> = None;
        for (at, score) in scores.iter().enumerate() {
            if let Some(score) = *score
                && best.is_none_or(|(_, most)| score > most)
            {
                best = Some((at, score));
            }
        }
        best.map(|(at, _)| at)
    }

    /// The GPU of a node for a pod that shares one and fits.
    fn gpu(&mut self, node: &Node, pod: &PodShape) -> usize;
}

/// GPUs of a node with enough left for a pod that shares one.
fn roomy<'a>(node: &'a Node, pod: &'a PodShape) -> impl Iterator<Item = usize> + 'a {
    let gpus = node.gpu_milli.iter().enumerate();
    gpus.filter(|(_, free)| **free >= pod.gpu_milli).map(|(gpu, _)| gpu)
}

/// `fgd`: descends the gradient of fragmentation. Score `floor(100 sigmoid((F before - F after) / 1000))`, F in GPU
/// thousandths; of a pod that shares a GPU the score on the best GPU, among equals the first.
#[derive(Debug)]
pub struct Fgd<'a> {
    target: &'a Target,
}

impl<'a> Fgd<'a> {
    /// Over a target workload.
    pub const fn new(target: &'a Target) -> Self {
        Self { target }
    }

    /// The best score on a node, and the GPU that it is reached on.
    fn best(&self, node: &Node, pod: &PodShape) -> (i32, usize) {
        let before = self.target.weighted_fragmentation(node);
        let score_on = |gpu: usize| {
            let mut after = node.clone();
            after.take(pod, gpu);
            self.target.score(before, self.target.weighted_fragmentation(&after))
        };
        if !pod.shares() {
            return (score_on(0), 0);
        }
        let mut best = (i32::MIN, 0);
        for gpu in roomy(node, pod) {
            // A GPU with as much left as an earlier one is worth the same.
            if node.gpu_milli[..gpu].contains(&node.gpu_milli[gpu]) {
                continue;
            }
            let score = score_on(gpu);
            if score > best.0 {
                best = (score, gpu);
            }
        }
        best
    }
}

impl NodePolicy for Fgd<'_> {
    fn score(&self, node: &Node, pod: &PodShape) -> i32 {
        self.best(node, pod).0
    }

    fn gpu(&mut self, node: &Node, pod: &PodShape) -> usize {
        self.best(node, pod).1
    }
}

/// `best-fit`: the node with the least left. Score `floor(100 (1 - (c / C + g / G) / 2))`, `c` and `g` the CPU and GPU
/// thousandths free after the pod is placed, `C` and `G` the most that any node of the cluster has. On the node the fullest GPU that has enough left.
#[derive(Debug)]
pub struct BestFit {
    most_cpu_milli: f64,
    most_gpu_milli: f64,
}

impl BestFit {
    /// Normalised by the largest nodes of a cluster.
    pub fn new(cluster: &Cluster) -> Self {
        let cpu = cluster.nodes.iter().map(|node| node.cpu_milli).max().unwrap_or(0);
        let gpu = cluster.nodes.iter().map(Node::free_milli).max().unwrap_or(0);
        Self { most_cpu_milli: f64::from(cpu).max(1.0), most_gpu_milli: (gpu as f64).max(1.0) }
    }
}

impl NodePolicy for BestFit {
    fn score(&self, node: &Node, pod: &PodShape) -> i32 {
        let cpu = f64::from(node.cpu_milli - pod.cpu_milli) / self.most_cpu_milli;
        let gpu = (node.free_milli() - pod.total_milli()) as f64 / self.most_gpu_milli;
        ((1.0 - (cpu * 0.5 + gpu * 0.5)) * 100.0) as i32
    }

    fn gpu(&mut self, node: &Node, pod: &PodShape) -> usize {
        roomy(node, pod).min_by_key(|gpu| node.gpu_milli[*gpu]).unwrap_or(0)
    }
}

/// `random`: a node drawn evenly among all that the pod fits on, and for a pod that shares a GPU one drawn evenly among those
/// with enough left.
#[derive(Debug)]
pub struct Random {
    rng: Pcg64,
}

impl Random {
    /// Draws from a seed.
    pub fn new(seed: u64) -> Self {
        Self { rng: Pcg64::seed_from_u64(seed) }
    }
}

impl NodePolicy for Random {
    fn score(&self, _node: &Node, _pod: &PodShape) -> i32 {
        0
    }

    fn choose(&mut self, scores: &[Option<i32>]) -> Option<usize> {
        let fitting = scores.iter().enumerate().filter(|(_, score)| score.is_some());
        let count = fitting.clone().count();
        let drawn = (count > 0).then(|| self.rng.random_range(0..count))?;
        fitting.map(|(at, _)| at).nth(drawn)
    }

    fn gpu(&mut self, node: &Node, pod: &PodShape) -> usize {
        let count = roomy(node, pod).count().max(1);
        roomy(node, pod).nth(self.rng.random_range(0..count)).unwrap_or(0)
    }
}

type Make = for<'a> fn(&Cluster, &'a Target, u64) -> Box<dyn NodePolicy + 'a>;

/// A policy that can be named. A new one gets a row in [`POLICIES`].
#[derive(Debug)]
pub struct Policy {
    /// The name.
    pub name: &'static str,
    /// What it does, in half a line.
    pub summary: &'static str,
    make: Make,
}

/// All policies.
pub static POLICIES: [Policy; 3] = [
    Policy {
        name: "fgd",
        summary: "the node and GPU where fragmentation falls the most (FGD, ATC'23)",
        make: |_, target, _| Box::new(Fgd::new(target)),
    },
    Policy {
        name: "best-fit",
        summary: "the node with the least CPU and GPU left",
        make: |cluster, _, _| Box::new(BestFit::new(cluster)),
    },
    Policy {
        name: "random",
        summary: "any node that the pod fits on",
        make: |_, _, seed| Box::new(Random::new(seed)),
    },
];

impl Policy {
    /// The policy of a name.
    pub fn parse(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|known| known.name == name.trim())
    }

    /// A new one.
    pub(super) fn make<'a>(
        &self,
        cluster: &Cluster,
        target: &'a Target,
        seed: u64,
    ) -> Box<dyn NodePolicy + 'a> {
        (self.make)(cluster, target, seed)
    }
}
