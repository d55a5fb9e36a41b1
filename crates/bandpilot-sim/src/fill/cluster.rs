//! Nodes and what is free on them.

use bandpilot_readers::openb::NodeRow;

use super::pods::PodShape;
use super::target::Target;
use crate::shape::{ModelSet, TooManyModels};

/// What is free on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// MiB.
    pub memory_mib: u32,
    /// Index of the model of its GPUs.
    pub model: usize,
    /// Thousandths of each GPU.
    pub gpu_milli: Vec<u16>,
}

impl Node {
    /// Thousandths over all GPUs.
    pub fn free_milli(&self) -> u64 {
        self.gpu_milli.iter().map(|milli| u64::from(*milli)).sum()
    }

    /// True if the pod fits: CPU, memory, model, and as many GPUs with enough left.
    pub fn fits(&self, pod: &PodShape) -> bool {
        self.cpu_milli >= pod.cpu_milli && self.memory_mib >= pod.memory_mib && self.gpus_fit(pod)
    }

    fn gpus_fit(&self, pod: &PodShape) -> bool {
        if pod.gpus == 0 {
            return true;
        }
        let enough = self.gpu_milli.iter().filter(|free| **free >= pod.gpu_milli).count();
        pod.models.has(self.model) && enough >= pod.gpus as usize
    }

    /// Takes what a pod that fits asks for; a sharing one gets GPU `gpu`, others the first whole ones.
    pub fn take(&mut self, pod: &PodShape, gpu: usize) {
        self.cpu_milli -= pod.cpu_milli;
        self.memory_mib -= pod.memory_mib;
        if pod.shares() {
            self.gpu_milli[gpu] -= pod.gpu_milli;
            return;
        }
        let whole = self.gpu_milli.iter_mut().filter(|free| **free >= pod.gpu_milli);
        for free in whole.take(pod.gpus as usize) {
            *free -= pod.gpu_milli;
        }
    }
}

/// Why a list of nodes is no cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WrongCluster {
    /// Nothing could be allocated.
    #[error("no node has a GPU")]
    NoGpu,
    /// More than a [`ModelSet`] holds.
    #[error(transparent)]
    TooManyModels(#[from] TooManyModels),
}

/// The nodes with everything free.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// In order of the list.
    pub nodes: Vec<Node>,
    models: Vec<String>,
    heeds_memory: bool,
}

impl Cluster {
    /// All nodes of a list, those without a GPU among them.
    ///
    /// # Errors
    /// If there is no GPU, or if there are more than 64 models.
    pub fn new(rows: &[NodeRow]) -> Result<Self, WrongCluster> {
        let mut models: Vec<String> = Vec::new();
        let mut nodes = Vec::with_capacity(rows.len());
        for row in rows {
            let at = models.iter().position(|known| known.eq_ignore_ascii_case(&row.model));
            let model = at.unwrap_or(models.len());
            if at.is_none() {
                models.push(row.model.to_string());
            }
            nodes.push(Node {
                cpu_milli: row.cpu_milli,
                memory_mib: row.memory_mib,
                model,
                gpu_milli: vec![1000; row.gpus as usize],
            });
        }
        if models.len() > 64 {
            return Err(TooManyModels.into());
        }
        // A list without memory must not make every pod that names some unplaceable.
        let heeds_memory = rows.iter().any(|row| row.memory_mib > 0);
        let cluster = Self { nodes, models, heeds_memory };
        if cluster.gpus() == 0 { Err(WrongCluster::NoGpu) } else { Ok(cluster) }
    }

    /// Number of GPUs.
    pub fn gpus(&self) -> usize {
        self.nodes.iter().map(|node| node.gpu_milli.len()).sum()
    }

    /// Thousandths over all GPUs.
    pub fn capacity_milli(&self) -> u64 {
        1000 * self.gpus() as u64
    }

    /// True if the list says how much memory nodes have.
    pub fn heeds_memory(&self) -> bool {
        self.heeds_memory
    }

    /// The models that a word stands for.
    pub fn models_named(&self, word: &str) -> ModelSet {
        ModelSet::named(word, &self.models)
    }

    /// Fragmentation with everything free, per cent of all GPU thousandths.
    pub fn fragmentation_pct(&self, target: &Target) -> f64 {
        let lost: u64 = self.nodes.iter().map(|node| target.weighted_fragmentation(node)).sum();
        100.0 * lost as f64 / target.total() as f64 / self.capacity_milli() as f64
    }
}
