//! What pods ask for.

use std::collections::BTreeMap;

use bandpilot_readers::openb::PodRow;

use super::cluster::Cluster;
use crate::shape::ModelSet;

/// What a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodShape {
    /// Thousandths of a core.
    pub cpu_milli: u32,
    /// Thousandths of each GPU: 1000 for whole ones, less for a share of one, 0 without a GPU.
    pub gpu_milli: u16,
    /// Number of GPUs.
    pub gpus: u32,
    /// Models that will do.
    pub models: ModelSet,
    /// MiB; 0 where it is not looked at.
    pub memory_mib: u32,
}

impl PodShape {
    /// True if it takes a part of one GPU.
    pub fn shares(&self) -> bool {
        self.gpus == 1 && self.gpu_milli < 1000
    }

    /// Thousandths over all GPUs.
    pub fn total_milli(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.gpu_milli)
    }

    /// The same with no regard to memory.
    #[must_use]
    pub fn without_memory(self) -> Self {
        Self { memory_mib: 0, ..self }
    }
}

/// A list of pods; shapes repeat and are kept once.
#[derive(Debug, Clone)]
pub struct Pods {
    shapes: Vec<PodShape>,
    of: Vec<u32>,
}

impl Pods {
    /// The pods of a list as a cluster sees them. Memory is looked at if the cluster says how much there is.
    pub fn new(rows: &[PodRow], cluster: &Cluster) -> Self {
        let mut ids: BTreeMap<PodShape, u32> = BTreeMap::new();
        let mut pods = Self { shapes: Vec::new(), of: Vec::with_capacity(rows.len()) };
        for row in rows {
            let models =
                if row.gpus == 0 { ModelSet::ANY } else { cluster.models_named(&row.gpu_spec) };
            let shape = PodShape {
                cpu_milli: row.cpu_milli,
                gpu_milli: row.gpu_milli,
                gpus: row.gpus,
                models,
                memory_mib: if cluster.heeds_memory() { row.memory_mib } else { 0 },
            };
            let id = *ids.entry(shape).or_insert(pods.shapes.len() as u32);
            if id as usize == pods.shapes.len() {
                pods.shapes.push(shape);
            }
            pods.of.push(id);
        }
        pods
    }

    /// Number of pods.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// All shapes.
    pub fn shapes(&self) -> &[PodShape] {
        &self.shapes
    }

    /// The shape of each pod, an index of [`shapes`](Self::shapes).
    pub fn each(&self) -> &[u32] {
        &self.of
    }
}
